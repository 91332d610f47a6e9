// Random numbers: a counter-based generator (Philox4x32-10) and our own distributions.
//
// Every draw is a pure function of (seed, stream, counter), made of integer arithmetic and of IEEE
// operations that are exactly rounded, so the same bits come out of every compiler and platform.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace tapehead {

// What the numbers are for. Streams of one seed are independent, so that dropout in training can
// never shift the order of the data or the samples drawn from a trained model.
enum class Stream : std::uint32_t { init, data, shuffle, dropout, sampling, check };

class Rng {
 public:
  explicit Rng(std::uint64_t seed, Stream stream = Stream::data, std::uint64_t substream = 0);

  // A generator for a named part (a parameter path, a split): independent of this one's counter.
  [[nodiscard]] Rng fork(std::string_view label) const;
  [[nodiscard]] Rng fork(std::uint64_t number) const;

  std::uint64_t bits();                     // 64 random bits; one counter step
  double uniform();                         // in [0, 1), a multiple of 2^-53; one counter step
  double uniform(double low, double high);  // in [low, high)
  double normal();                          // mean 0, variance 1; one counter step, |value| < 8.7
  std::int64_t below(std::int64_t n);       // uniform in 0..n-1 without bias; n >= 1
  bool bernoulli(double p);                 // true with probability p; one counter step

  // Fisher-Yates, from the last element down.
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1],
                values[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
    }
  }

  // The state of a stream is its counter alone.
  [[nodiscard]] std::uint64_t counter() const { return counter_; }
  void seek(std::uint64_t counter) { counter_ = counter; }

  // Draw number i counted from the current position, without moving it: kernels fill a tensor in
  // any order and from any number of threads, then skip(n).
  [[nodiscard]] std::uint64_t bits_at(std::uint64_t i) const;
  void bits_at(std::uint64_t i, std::span<std::uint64_t> out) const;  // i, i + 1, ...; faster
  [[nodiscard]] double uniform_at(std::uint64_t i) const;
  [[nodiscard]] double normal_at(std::uint64_t i) const;
  void skip(std::uint64_t n) { counter_ += n; }

 private:
  std::uint64_t key_ = 0;        // seed and stream, mixed
  std::uint64_t substream_ = 0;  // upper half of the 128-bit Philox counter
  std::uint64_t counter_ = 0;    // lower half
};

// One Philox4x32-10 block: ten rounds over a 128-bit counter under a 64-bit key.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key);

}  // namespace tapehead

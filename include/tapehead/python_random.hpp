// The random numbers of Python's module `random`, bit for bit: for repeating what was published by
// a Python program. What needs no such past uses Rng.
//
//   th::PythonRandom random(42);                  // random.seed(42)
//   random.shuffle(std::span(documents));
//   double weight = random.gauss(0, 0.08);
//
// Source: Matsumoto, Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform
// pseudo-random number generator" (1998), MT19937, as in CPython's Lib/random.py and
// Modules/_randommodule.c, 3.2 to 3.13.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace tapehead {

class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);  // random.seed(seed) of an int

  std::uint32_t bits32();              // random.getrandbits(32)
  double random();                     // in [0, 1), a multiple of 2^-53; two draws of 32 bits
  std::int64_t below(std::int64_t n);  // random.randrange(n); n >= 1
  // Pairs by Box and Muller: the second of a pair is kept for the next call. Python takes sine,
  // cosine and logarithm from the C library, and so does this: the bits are those of a Python on
  // the same C library.
  double gauss(double mean, double deviation);
  // random.choices(range(n), weights)[0]. ValueError unless the weights are finite, none is
  // negative, and one is positive.
  std::size_t choice(std::span<const double> weights);

  // random.shuffle: from the last element down.
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1],
                values[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
    }
  }

 private:
  void refill();

  static constexpr std::size_t kWords = 624;
  std::array<std::uint32_t, kWords> state_ = {};
  std::size_t next_ = kWords;         // word of the state to be given out
  std::optional<double> gauss_ = {};  // second of a pair
};

}  // namespace tapehead

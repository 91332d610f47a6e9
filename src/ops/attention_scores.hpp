// What both kernels of attention do with rows of scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "core/access.hpp"
#include "core/vector_curves.hpp"
#include "core/vector_math.hpp"
#include "ops/attention_call.hpp"
#include "ops/softmax_row.hpp"

namespace tapehead::detail {

// sum_i a_i b_i over the a_i that are not 0.
template <class T>
double selected_dot(const T* a, const T* b, std::int64_t n) {
  return lane_sum(n, [&](std::int64_t i) {
    const T product = a[i] * b[i];
    return a[i] == 0 ? T{0} : product;
  });
}

template <class T>
class Scores {
 public:
  explicit Scores(const AttentionCall& call)
      : call_(call),
        n_(call.sizes()),
        cap_(static_cast<T>(call.terms().soft_cap)),
        bias_(data(call.terms().bias)),
        relative_(data(call.terms().relative)),
        sinks_(data(call.terms().sinks)) {}

  [[nodiscard]] bool capped() const { return cap_ != 0; }

  // x becomes c tanh(x / c).
  void cap(T* x, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) x[i] = cap_ * vector_tanh(x[i] / cap_);
  }

  // dx times the slope of the cap, 1 - (x/c)^2, where x are capped scores; 0 stays 0.
  void through_cap(const T* x, T* dx, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) {
      const T ratio = x[i] / cap_;
      const T product = dx[i] * (1 - ratio * ratio);
      dx[i] = dx[i] == 0 ? T{0} : product;
    }
  }

  // Adds the biases of keys first_key, first_key + 1, .. and makes blocked scores -inf.
  void bias_and_hide(std::int64_t batch, std::int64_t head, std::int64_t query,
                     std::int64_t first_key, bool mixed, T* x,
                     std::span<unsigned char> visible) const {
    const auto count = static_cast<std::int64_t>(visible.size());
    if (bias_ != nullptr) add(bias_ + bias_row(batch, head, query) + first_key, x, count);
    if (relative_ != nullptr) add(relative_ + relative_row(head, query) + first_key, x, count);
    if (mixed) hide_blocked(call_.mask(), batch, head, query, first_key, x, visible);
  }

  // The score of the head's sink, -inf without one.
  [[nodiscard]] T sink(std::int64_t head) const {
    return sinks_ == nullptr ? -std::numeric_limits<T>::infinity() : sinks_[head];
  }

  // Where the bias of (batch, head, query, key 0) stands.
  [[nodiscard]] std::int64_t bias_row(std::int64_t batch, std::int64_t head,
                                      std::int64_t query) const {
    const Shape& shape = call_.terms().bias.shape();
    const std::int64_t b = shape[0] == 1 ? 0 : batch;
    const std::int64_t h = shape[1] == 1 ? 0 : head;
    return ((b * shape[1] + h) * n_.queries + query) * n_.keys;
  }
  [[nodiscard]] std::int64_t relative_row(std::int64_t head, std::int64_t query) const {
    const Shape& shape = call_.terms().relative.shape();
    return (shape[0] == 1 ? 0 : head) * shape[1] + n_.queries - 1 - query;
  }

 private:
  static const T* data(const Tensor& x) { return x.defined() ? in<T>(x) : nullptr; }
  static void add(const T* bias, T* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) x[i] += bias[i];
  }

  const AttentionCall& call_;
  const AttentionSizes& n_;
  T cap_;
  const T* bias_;
  const T* relative_;
  const T* sinks_;
};

// Multiply-adds worth a chunk of its own: some ten times the cost of starting a team.
inline constexpr std::int64_t kChunkWork = std::int64_t{1} << 18;

inline std::int64_t units_per_chunk(std::int64_t work_per_unit) {
  return std::max<std::int64_t>(1, kChunkWork / std::max<std::int64_t>(1, work_per_unit));
}

// Units per chunk where each chunk needs much working memory: at most `chunks` chunks.
inline std::int64_t few_chunks(std::int64_t units, std::int64_t chunks = 16) {
  return std::max<std::int64_t>(1, (units + chunks - 1) / chunks);
}

// Working memory for each chunk of a parallel_for, taken before it starts.
template <class T>
class Scratch {
 public:
  Scratch(bool needed, std::int64_t units, std::int64_t chunk, std::int64_t size)
      : chunk_(chunk),
        size_(size),
        memory_(empty({needed ? (units + chunk - 1) / chunk * size : 0}, kDTypeOf<T>)) {}
  T* of(std::int64_t first_unit) { return out<T>(memory_) + first_unit / chunk_ * size_; }

 private:
  std::int64_t chunk_;
  std::int64_t size_;
  Tensor memory_;
};

}  // namespace tapehead::detail

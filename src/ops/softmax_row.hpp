// One row of a softmax and of its gradient, in place, for kernels that hold scores row by row.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include <tapehead/mask.hpp>

#include "core/vector_math.hpp"

namespace tapehead::detail {

// Blocked scores become -inf, whatever stood there. Scores are those of keys first_key,
// first_key + 1, ...; `visible` is working memory of the same length.
template <class T>
void hide_blocked(const Mask& mask, std::int64_t batch, std::int64_t head, std::int64_t query,
                  std::int64_t first_key, T* scores, std::span<unsigned char> visible) {
  constexpr T kBlocked = -std::numeric_limits<T>::infinity();
  mask.row(batch, head, query, visible, first_key);
  for (std::size_t i = 0; i < visible.size(); ++i)
    scores[i] = visible[i] != 0 ? scores[i] : kBlocked;
}

// Two numbers of a row of scores: its weights are e^(x_i - maximum) factor.
template <class T>
struct RowScale {
  T maximum;
  T factor;
};

// p_i = e^(x_i - m) / sum_j e^(x_j - m), m = max_j x_j, overwriting x. Where x_i is -inf, p_i is
// exactly 0, by selection: a NaN elsewhere in the row does not reach it. A row that is all -inf has
// nothing to choose from and becomes 0. `sink` is one more score that takes its share of the sum;
// -inf for none.
template <class T>
RowScale<T> softmax_row(T* x, std::int64_t n, T sink = -std::numeric_limits<T>::infinity()) {
  constexpr T kBlocked = -std::numeric_limits<T>::infinity();
  const T largest = lane_max(x, n);
  const T m = sink > largest ? sink : largest;
  for (std::int64_t i = 0; i < n; ++i) x[i] = x[i] == kBlocked ? T{0} : vector_exp(x[i] - m);
  double sum = lane_sum(n, [&](std::int64_t i) { return x[i]; });
  if (sink != kBlocked) sum += static_cast<double>(vector_exp(sink - m));
  const T factor = sum == 0 ? T{0} : static_cast<T>(1 / sum);
  for (std::int64_t i = 0; i < n; ++i) x[i] = x[i] == 0 ? T{0} : x[i] * factor;
  return {m, factor};
}

// dx_i = p_i (dp_i - sum_j p_j dp_j), overwriting dp. A weight of exactly 0 passes nothing on, even
// if dp_i is not finite there.
template <class T>
void softmax_gradient_row(const T* p, T* dp, std::int64_t n) {
  // Products first: a load that only some elements need would keep the loops from being vector
  // code.
  const auto mean = static_cast<T>(lane_sum(n, [&](std::int64_t i) {
    const T product = p[i] * dp[i];
    return p[i] == 0 ? T{0} : product;
  }));
  for (std::int64_t i = 0; i < n; ++i) {
    const T product = p[i] * (dp[i] - mean);
    dp[i] = p[i] == 0 ? T{0} : product;
  }
}

}  // namespace tapehead::detail

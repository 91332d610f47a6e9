// Shared machinery of ops that work along the last axis, row by row: softmax, norms, losses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <tapehead/tensor.hpp>

#include "core/threads.hpp"
#include "core/vector_math.hpp"

namespace tapehead::detail {

// x seen as [count, width], width its last axis. Rows may have no elements.
struct Rows {
  std::int64_t count = 0;
  std::int64_t width = 0;
};
inline Rows rows_of(const Tensor& x) { return {x.shape().without(-1).size(), x.dim(-1)}; }

// Up to this many rows go through a kernel side by side, step by step: what a row waits for (a sum
// folded from its lanes, a division, a logarithm) is then hidden behind the other rows' work.
inline constexpr std::int64_t kRowBlock = 8;

// Calls f(first row, rows) for blocks of rows in parallel; chunks and blocks depend on the shape
// alone.
template <class F>
void for_row_blocks(const Rows& rows, F f) {
  const std::int64_t together = std::clamp<std::int64_t>(4096 / (rows.width + 1), 1, kRowBlock);
  parallel_for(rows.count, rows_per_chunk(rows.width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; row += together) {
      f(row, std::min(together, end - row));
    }
  });
}

// What is subtracted before exp: the row's maximum, or 0 for a row that is -inf throughout, whose
// exponentials are then 0 (a maximum of -inf would give -inf - -inf = NaN).
template <class T>
T exp_shift(const T* x, std::int64_t width) {
  const T maximum = lane_max(x, width);
  return maximum == -std::numeric_limits<T>::infinity() ? T{0} : maximum;
}

// sum_i e^(x_i - shift); nothing is stored. The last lanes are filled up with -inf, as the rows of
// a small vocabulary are shorter than one vector.
template <class T>
double exp_sum(const T* x, std::int64_t width, T shift) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(vector_exp(x[i + l] - shift));
  }
  for (int l = 0; i < width && l < kLanes; ++l) {
    const T last = i + l < width ? x[i + l] : kLowest;
    lanes[l] += static_cast<double>(vector_exp(last - shift));
  }
  return fold_lanes(lanes, [](double a, double b) { return a + b; });
}

}  // namespace tapehead::detail

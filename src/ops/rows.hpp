// Shared machinery of ops that work along the last axis, row by row: softmax, norms, losses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <tapehead/tensor.hpp>

#include "core/vector_math.hpp"

namespace tapehead::detail {

// x seen as [count, width], width its last axis. Rows may have no elements.
struct Rows {
  std::int64_t count = 0;
  std::int64_t width = 0;
};
inline Rows rows_of(const Tensor& x) { return {x.shape().without(-1).size(), x.dim(-1)}; }

// What is subtracted before exp: the row's maximum, or 0 for a row that is -inf throughout, whose
// exponentials are then 0 (a maximum of -inf would give -inf - -inf = NaN).
template <class T>
T exp_shift(T maximum) {
  return maximum == -std::numeric_limits<T>::infinity() ? T{0} : maximum;
}

// sum_i e^(x_i - shift) over a row; nothing is stored. What is left over after whole vectors is
// filled up with -inf, as the rows of a small vocabulary are shorter than one vector.
template <class T>
double exp_sum(const T* x, std::int64_t count, T shift) {
  const auto term = [shift](const T* from) {
    return [=](std::int64_t i) { return vector_exp(from[i] - shift); };
  };
  const std::int64_t whole = count / kLanes * kLanes;
  double total = lane_sum(whole, term(x));
  if (whole < count) {
    T rest[kLanes];
    std::fill_n(rest, kLanes, -std::numeric_limits<T>::infinity());
    std::copy_n(x + whole, count - whole, rest);
    total += lane_sum(kLanes, term(rest));
  }
  return total;
}

}  // namespace tapehead::detail

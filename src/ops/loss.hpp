// Shared machinery of losses that are a mean over all elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include <tapehead/tensor.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/rows.hpp"

namespace tapehead::detail {

// What the sum is divided by: the mean over no elements is 0, not 0/0.
inline double loss_count(const Tensor& x) {
  return static_cast<double>(std::max<std::int64_t>(1, x.size()));
}

// The mean of f(i) for i < count as a scalar; f64 sums over fixed chunks, added in order.
template <class T, class F>
Tensor mean_of(std::int64_t count, F f) {
  Tensor partial = zeros({(count + kElementChunk - 1) / kElementChunk}, DType::f64);
  double* sums = out<double>(partial);
  parallel_for(count, kElementChunk, [&](std::int64_t begin, std::int64_t end) {
    sums[begin / kElementChunk] =
        lane_sum(end - begin, [&](std::int64_t i) { return f(begin + i); });
  });
  double total = 0;
  for (std::int64_t i = 0; i < partial.size(); ++i) total += sums[i];
  Tensor mean = empty({}, kDTypeOf<T>);
  *out<T>(mean) = static_cast<T>(total / static_cast<double>(std::max<std::int64_t>(1, count)));
  return mean;
}

}  // namespace tapehead::detail

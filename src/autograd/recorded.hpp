// Linear operations on gradients that a differentiable tape can record. The ops proper live a floor
// above; these few are closed among themselves. Inputs that are not on the recording tape are plain
// numbers.
#pragma once

#include <tapehead/tensor.hpp>

namespace tapehead::detail {

// a + b;   da = db = dy
[[nodiscard]] Tensor recorded_sum(const Tensor& a, const Tensor& b);
// factor x;   dx = factor dy
[[nodiscard]] Tensor recorded_scale(const Tensor& x, double factor);
// flat[offset .. offset + size) in `shape`;   d flat = spread(dy)
[[nodiscard]] Tensor segment(const Tensor& flat, std::int64_t offset, const Shape& shape);
// Zeros [size] with x's elements from `offset` on;   dx = segment(dy)
[[nodiscard]] Tensor spread(const Tensor& x, std::int64_t offset, std::int64_t size);

}  // namespace tapehead::detail

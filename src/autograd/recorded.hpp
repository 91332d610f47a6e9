// Linear operations on gradients that a differentiable tape can record. The ops proper live a floor
// above; these few are closed among themselves. Inputs that are not on the recording tape are plain
// numbers.
#pragma once

#include <span>

#include <tapehead/tensor.hpp>

namespace tapehead::detail {

// a + b;   da = db = dy
[[nodiscard]] Tensor recorded_sum(const Tensor& a, const Tensor& b);
// factor x;   dx = factor dy
[[nodiscard]] Tensor recorded_scale(const Tensor& x, double factor);
// flat[offset .. offset + size) in `shape`;   d flat = joined(dy)
[[nodiscard]] Tensor segment(const Tensor& flat, std::int64_t offset, const Shape& shape);

struct Segment {
  Tensor values;
  std::int64_t offset = 0;
};
// The segments, which do not overlap, in a flat tensor of `size` zeros;   d part = segment(dy)
[[nodiscard]] Tensor joined(std::span<const Segment> parts, std::int64_t size, DType dtype);

}  // namespace tapehead::detail

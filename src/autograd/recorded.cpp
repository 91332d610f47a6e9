#include "autograd/recorded.hpp"

#include <algorithm>

#include <tapehead/record.hpp>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"
#include "core/threads.hpp"

namespace tapehead::detail {
namespace {

// A tensor of a tape that is not recording counts for its numbers alone.
Tensor on_recording_tape(const Tensor& x) {
  return is_recorded(x) ? x : TensorAccess::placed(x, 0, -1);
}

}  // namespace

Tensor recorded_sum(const Tensor& a, const Tensor& b) {
  Tensor sum = TensorAccess::placed(a, 0, -1);
  accumulate(sum, b);
  const auto same = [](const Tensor& dy) { return dy; };
  return record("accumulate", sum)
      .input(on_recording_tape(a), same)
      .input(on_recording_tape(b), same);
}

Tensor recorded_scale(const Tensor& x, double factor) {
  Tensor y = with_float("gradients", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor scaled = empty_like(x);
    const T* from = in<T>(x);
    T* to = out<T>(scaled);
    parallel_for(x.size(), kElementChunk, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(factor) * from[i];
    });
    return scaled;
  });
  return record("scale_gradient", y).input(on_recording_tape(x), [factor](const Tensor& dy) {
    return recorded_scale(dy, factor);
  });
}

Tensor segment(const Tensor& flat, std::int64_t offset, const Shape& shape) {
  return record("segment", TensorAccess::view(flat, shape, offset))
      .input(on_recording_tape(flat), [offset, size = flat.size()](const Tensor& dy) {
        const Segment part{dy, offset};
        return joined({&part, 1}, size, dy.dtype());
      });
}

Tensor joined(std::span<const Segment> parts, std::int64_t size, DType dtype) {
  Tensor flat = zeros({size}, dtype);
  with_float("gradients", dtype, [&](auto zero) {
    using T = decltype(zero);
    for (const Segment& part : parts)
      std::copy_n(in<T>(part.values), part.values.size(), out<T>(flat) + part.offset);
  });
  Recorder recorder = record("joined", flat);
  for (const Segment& part : parts) {
    recorder.input(on_recording_tape(part.values),
                   [offset = part.offset, shape = part.values.shape()](const Tensor& dy) {
                     return segment(dy, offset, shape);
                   });
  }
  return recorder;
}

}  // namespace tapehead::detail

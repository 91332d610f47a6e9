// Shared machinery of ops along one axis: the three-level view of a shape, and block copies.
#pragma once

#include <algorithm>
#include <cstdint>

#include <tapehead/tensor.hpp>

#include "core/threads.hpp"

namespace tapehead::detail {

// A shape seen as [outer, size, inner] around one axis; an element of the axis is a block of
// `inner` neighbours.
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
};

inline AxisView axis_view(const Shape& shape, int axis) {
  AxisView view;
  for (int i = 0; i < axis; ++i) view.outer *= shape[i];
  view.size = shape[axis];
  for (int i = axis + 1; i < shape.rank(); ++i) view.inner *= shape[i];
  return view;
}

// `count` runs of `length` elements, `from_step` and `to_step` elements apart.
template <class T>
void copy_runs(const T* from, std::int64_t from_step, T* to, std::int64_t to_step,
               std::int64_t count, std::int64_t length) {
  if (length == 0) return;
  if (count == 1) {
    parallel_for(length, kElementChunk, [&](std::int64_t begin, std::int64_t end) {
      std::copy_n(from + begin, end - begin, to + begin);
    });
    return;
  }
  parallel_for(count, rows_per_chunk(length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(from + i * from_step, length, to + i * to_step);
    }
  });
}

}  // namespace tapehead::detail

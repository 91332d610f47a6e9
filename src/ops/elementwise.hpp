// Shared machinery of elementwise ops: one loop over one tensor, one over two with broadcasting.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <tapehead/ops.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"

namespace tapehead::detail {

// y_i = f(x_i); R is the element type of y.
template <class T, class R = T, class F>
Tensor map(const Tensor& x, F f) {
  Tensor y = empty(x.shape(), kDTypeOf<R>);
  const T* from = in<T>(x);
  R* to = out<R>(y);
  parallel_for(x.size(), kElementChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
  });
  return y;
}

// The shape of a op b: axes of size 1 stretch between equal ranks, a scalar stretches to anything.
// ShapeError with both shapes otherwise.
[[nodiscard]] Shape broadcast_shape(const char* op, const Shape& a, const Shape& b);

// The gradient of a broadcast operand: dy summed over the axes along which `shape` was stretched.
// dy itself when nothing was.
[[nodiscard]] Tensor sum_to(const Tensor& dy, const Shape& shape);

// How two operands run along the result, with neighbouring axes of equal behaviour merged: strides
// are those of a dense operand, or 0 where it is stretched.
struct BroadcastPlan {
  std::int64_t rows = 1;   // product of all but the last merged axis
  std::int64_t inner = 1;  // the last merged axis, along which each stride is 0 or 1
  int rank = 0;            // merged axes before the last
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  std::array<std::int64_t, Shape::kMaxRank> strides_a{};
  std::array<std::int64_t, Shape::kMaxRank> strides_b{};
  std::int64_t inner_a = 1;
  std::int64_t inner_b = 1;
};
[[nodiscard]] BroadcastPlan broadcast_plan(const Shape& a, const Shape& b, const Shape& result);

// Calls f(row, offset_a, offset_b) for rows [begin, end) of the plan.
template <class F>
void for_rows(const BroadcastPlan& plan, std::int64_t begin, std::int64_t end, F f) {
  for (std::int64_t row = begin; row < end; ++row) {
    std::int64_t rest = row;
    std::int64_t offset_a = 0;
    std::int64_t offset_b = 0;
    for (int axis = plan.rank - 1; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      offset_a += rest % plan.sizes[i] * plan.strides_a[i];
      offset_b += rest % plan.sizes[i] * plan.strides_b[i];
      rest /= plan.sizes[i];
    }
    f(row, offset_a, offset_b);
  }
}

// x repeated along its axes of size 1 up to `shape`, of the same rank.
template <class T>
Tensor stretch(const Tensor& x, const Shape& shape) {
  Tensor y = empty(shape, x.dtype());
  if (y.size() == 0) return y;
  const BroadcastPlan plan = broadcast_plan(x.shape(), shape, shape);
  const T* from = in<T>(x);
  T* to = out<T>(y);
  parallel_for(plan.rows, rows_per_chunk(plan.inner), [&](std::int64_t begin, std::int64_t end) {
    for_rows(plan, begin, end, [&](std::int64_t row, std::int64_t offset, std::int64_t) {
      T* line = to + row * plan.inner;
      if (plan.inner_a == 1) {
        std::copy_n(from + offset, plan.inner, line);
      } else {
        std::fill_n(line, plan.inner, from[offset]);
      }
    });
  });
  return y;
}

// y_i = f(a_i, b_i) with broadcasting. T is the element type of both, R of the result.
template <class T, class R = T, class F>
Tensor zip(const char* op, const Tensor& a, const Tensor& b, F f) {
  Tensor y = empty(broadcast_shape(op, a.shape(), b.shape()), kDTypeOf<R>);
  if (y.size() == 0) return y;
  const BroadcastPlan plan = broadcast_plan(a.shape(), b.shape(), y.shape());
  const T* from_a = in<T>(a);
  const T* from_b = in<T>(b);
  R* to = out<R>(y);
  const auto run = [&](const T* pa, const T* pb, R* py, std::int64_t count) {
    if (plan.inner_a == 1 && plan.inner_b == 1) {
      for (std::int64_t i = 0; i < count; ++i) py[i] = f(pa[i], pb[i]);
    } else if (plan.inner_b == 0) {
      const T vb = *pb;
      for (std::int64_t i = 0; i < count; ++i) py[i] = f(pa[i * plan.inner_a], vb);
    } else {
      const T va = *pa;
      for (std::int64_t i = 0; i < count; ++i) py[i] = f(va, pb[i]);
    }
  };
  if (plan.rank == 0) {
    parallel_for(plan.inner, kElementChunk, [&](std::int64_t begin, std::int64_t end) {
      run(from_a + begin * plan.inner_a, from_b + begin * plan.inner_b, to + begin, end - begin);
    });
    return y;
  }
  parallel_for(plan.rows, rows_per_chunk(plan.inner), [&](std::int64_t begin, std::int64_t end) {
    for_rows(plan, begin, end, [&](std::int64_t row, std::int64_t offset_a, std::int64_t offset_b) {
      run(from_a + offset_a, from_b + offset_b, to + row * plan.inner, plan.inner);
    });
  });
  return y;
}

}  // namespace tapehead::detail

// Shared machinery of elementwise ops: one loop over one tensor, one over two with broadcasting.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include <tapehead/ops.hpp>
#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"

namespace tapehead::detail {

// A loop over local names alone: a store to a byte, as booleans are, might change anything else in
// memory, captures included, and nothing would vectorise.
template <class T, class R, class F>
void map_line(const T* x, R* y, std::int64_t count, F f) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
}

// y_i = f(x_i); R is the element type of y.
template <class T, class R = T, class F>
Tensor map(const Tensor& x, F f) {
  Tensor y = empty(x.shape(), kDTypeOf<R>);
  const T* from = in<T>(x);
  R* to = out<R>(y);
  parallel_for(x.size(), kElementChunk, [&](std::int64_t begin, std::int64_t end) {
    map_line(from + begin, to + begin, end - begin, f);
  });
  return y;
}

// y_i = f(x_i) for a floating x; f is generic in the element type.
template <class F>
Tensor map_float(const char* op, const Tensor& x, F f) {
  check_floating(op, x);
  return with_float(op, x.dtype(), [&](auto zero) { return map<decltype(zero)>(x, f); });
}

// The shape of a op b: axes of size 1 stretch between equal ranks, a scalar stretches to anything.
// ShapeError with both shapes otherwise.
[[nodiscard]] Shape broadcast_shape(const char* op, const Shape& a, const Shape& b);

// The gradient of a broadcast operand: dy summed over the axes along which `shape` was stretched.
// dy itself when nothing was.
[[nodiscard]] Tensor sum_to(const Tensor& dy, const Shape& shape);

// The chain rule's product dx = slope * dy, except that where dy is 0 dx is 0 whatever the slope:
// what no one selected has no gradient, even where the slope is infinite or NaN (0 * inf would be
// NaN). Either may be stretched. Recorded, with gradients of the same kind.
[[nodiscard]] Tensor chain(const Tensor& dy, const Tensor& slope);
// The same with a reciprocal slope: dx = dy / divisor, and 0 where dy is 0.
[[nodiscard]] Tensor chain_over(const Tensor& dy, const Tensor& divisor);

// How two or three operands run along the result, with neighbouring axes of equal behaviour merged:
// strides are those of a dense operand, or 0 where it is stretched.
struct BroadcastPlan {
  std::int64_t rows = 1;   // product of all but the last merged axis
  std::int64_t inner = 1;  // the last merged axis, along which each stride is 0 or 1
  int rank = 0;            // merged axes before the last
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  std::array<std::int64_t, Shape::kMaxRank> strides_a{};
  std::array<std::int64_t, Shape::kMaxRank> strides_b{};
  std::array<std::int64_t, Shape::kMaxRank> strides_c{};
  std::int64_t inner_a = 1;
  std::int64_t inner_b = 1;
  std::int64_t inner_c = 1;
};
[[nodiscard]] BroadcastPlan broadcast_plan(const Shape& a, const Shape& b, const Shape& c,
                                           const Shape& result);
[[nodiscard]] inline BroadcastPlan broadcast_plan(const Shape& a, const Shape& b,
                                                  const Shape& result) {
  return broadcast_plan(a, b, {}, result);
}

// Calls f(row, offset_a, offset_b) or f(row, offset_a, offset_b, offset_c) for rows [begin, end) of
// the plan.
template <class F>
void for_rows(const BroadcastPlan& plan, std::int64_t begin, std::int64_t end, F f) {
  for (std::int64_t row = begin; row < end; ++row) {
    std::int64_t rest = row;
    std::int64_t offset_a = 0;
    std::int64_t offset_b = 0;
    std::int64_t offset_c = 0;
    for (int axis = plan.rank - 1; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      const std::int64_t index = rest % plan.sizes[i];
      offset_a += index * plan.strides_a[i];
      offset_b += index * plan.strides_b[i];
      offset_c += index * plan.strides_c[i];
      rest /= plan.sizes[i];
    }
    if constexpr (std::is_invocable_v<F&, std::int64_t, std::int64_t, std::int64_t, std::int64_t>) {
      f(row, offset_a, offset_b, offset_c);
    } else {
      f(row, offset_a, offset_b);
    }
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

// y_i = f(a_i, b_i, c_i) with broadcasting to `shape`; each operand has an element type of its own.
template <class A, class B, class C, class R, class F>
Tensor zip3(const Shape& shape, const Tensor& a, const Tensor& b, const Tensor& c, F f) {
  Tensor y = empty(shape, kDTypeOf<R>);
  if (y.size() == 0) return y;
  const BroadcastPlan plan = broadcast_plan(a.shape(), b.shape(), c.shape(), shape);
  const A* from_a = in<A>(a);
  const B* from_b = in<B>(b);
  const C* from_c = in<C>(c);
  R* to = out<R>(y);
  // A loop for each combination of moving and stretched operands, so that all of them vectorise.
  const auto with_step = [](std::int64_t step, auto next) {
    if (step == 1) {
      next(std::integral_constant<std::int64_t, 1>{});
    } else {
      next(std::integral_constant<std::int64_t, 0>{});
    }
  };
  const auto run = [&](const A* pa, const B* pb, const C* pc, R* py, std::int64_t count) {
    with_step(plan.inner_a, [&](auto step_a) {
      with_step(plan.inner_b, [&](auto step_b) {
        with_step(plan.inner_c, [&](auto step_c) {
          for (std::int64_t i = 0; i < count; ++i) {
            py[i] = f(pa[i * step_a()], pb[i * step_b()], pc[i * step_c()]);
          }
        });
      });
    });
  };
  if (plan.rank == 0) {
    parallel_for(plan.inner, kElementChunk, [&](std::int64_t begin, std::int64_t end) {
      run(from_a + begin * plan.inner_a, from_b + begin * plan.inner_b,
          from_c + begin * plan.inner_c, to + begin, end - begin);
    });
    return y;
  }
  parallel_for(plan.rows, rows_per_chunk(plan.inner), [&](std::int64_t begin, std::int64_t end) {
    for_rows(plan, begin, end,
             [&](std::int64_t row, std::int64_t at_a, std::int64_t at_b, std::int64_t at_c) {
               run(from_a + at_a, from_b + at_b, from_c + at_c, to + row * plan.inner, plan.inner);
             });
  });
  return y;
}

// dx_i = slope(v_i) * dy_i, and 0 where dy_i is 0, in one pass. `at` holds what the slope is a
// function of (the input or the output); `composition` gives the slopes in public ops, for tapes
// that differentiate again.
template <class Slope, class Composition>
Tensor slope_gradient(const char* op, const Tensor& dy, const Tensor& at, Slope slope,
                      Composition composition) {
  if (recording_differentiable()) return chain(dy, composition(at));
  return with_float(op, dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return zip<T>(op, dy, at, [slope](T g, T v) {
      const T product = g * slope(v);  // always, so that the loop vectorises
      return g == 0 ? T(0) : product;
    });
  });
}

}  // namespace tapehead::detail

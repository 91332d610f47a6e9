#include "ops/elementwise.hpp"

#include <fmt/format.h>

#include <tapehead/record.hpp>

namespace tapehead::detail {

Shape broadcast_shape(const char* op, const Shape& a, const Shape& b) {
  if (a.rank() == 0) return b;
  if (b.rank() == 0) return a;
  if (a.rank() != b.rank()) {
    fail<ShapeError>(
        fmt::format("{}: ranks differ: {} and {}; only a scalar or equal ranks broadcast, else use "
                    "broadcast_to "
                    "or reshape",
                    op, to_string(a), to_string(b)));
  }
  Shape result = a;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a[axis] == b[axis] || b[axis] == 1) continue;
    if (a[axis] != 1) {
      fail<ShapeError>(fmt::format("{}: sizes differ on axis {}: {} and {}: {} is not {}", op, axis,
                                   to_string(a), to_string(b), a[axis], b[axis]));
    }
    result = result.with(axis, b[axis]);
  }
  return result;
}

Tensor sum_to(const Tensor& dy, const Shape& shape) {
  if (dy.shape() == shape) return dy;
  if (shape.rank() == 0) return sum(dy);
  std::vector<int> stretched;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != dy.dim(axis)) stretched.push_back(axis);
  }
  return sum(dy, Axes(std::move(stretched)), keep);
}

Tensor chain(const Tensor& dy, const Tensor& slope) {
  Tensor dx = with_float("chain", dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return zip<T>("chain", dy, slope, [](T g, T s) { return g == 0 ? T(0) : g * s; });
  });
  return record("chain", dx)
      .turns_signs()
      .input(dy, [slope, s = dy.shape()](const Tensor& d) { return sum_to(chain(d, slope), s); })
      .input(slope, [dy, s = slope.shape()](const Tensor& d) { return sum_to(chain(d, dy), s); });
}

Tensor chain_over(const Tensor& dy, const Tensor& divisor) {
  Tensor dx = with_float("chain_over", dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return zip<T>("chain_over", dy, divisor, [](T g, T v) { return g == 0 ? T(0) : g / v; });
  });
  return record("chain_over", dx)
      .turns_signs()
      .input(dy, [divisor,
                  s = dy.shape()](const Tensor& d) { return sum_to(chain_over(d, divisor), s); })
      .input(divisor, [divisor](const Tensor& quotient, const Tensor& d) {
        return sum_to(-chain(chain_over(d, divisor), quotient), divisor.shape());
      });
}

BroadcastPlan broadcast_plan(const Shape& a, const Shape& b, const Shape& c, const Shape& result) {
  // Merged axes from the last to the first: size, and whether each operand moves along it.
  struct Run {
    std::int64_t size;
    bool moves_a;
    bool moves_b;
    bool moves_c;
  };
  std::array<Run, Shape::kMaxRank> runs{};
  std::size_t count = 0;
  for (int axis = result.rank() - 1; axis >= 0; --axis) {
    const std::int64_t size = result[axis];
    if (size == 1) continue;
    const bool moves_a = a.rank() > 0 && a[axis] != 1;
    const bool moves_b = b.rank() > 0 && b[axis] != 1;
    const bool moves_c = c.rank() > 0 && c[axis] != 1;
    if (count > 0 && runs[count - 1].moves_a == moves_a && runs[count - 1].moves_b == moves_b &&
        runs[count - 1].moves_c == moves_c) {
      runs[count - 1].size *= size;
    } else {
      runs[count++] = {size, moves_a, moves_b, moves_c};
    }
  }
  BroadcastPlan plan;
  if (count == 0) return plan;
  plan.inner = runs[0].size;
  plan.inner_a = runs[0].moves_a ? 1 : 0;
  plan.inner_b = runs[0].moves_b ? 1 : 0;
  plan.inner_c = runs[0].moves_c ? 1 : 0;
  plan.rank = static_cast<int>(count) - 1;
  std::int64_t next_a = runs[0].moves_a ? plan.inner : 1;
  std::int64_t next_b = runs[0].moves_b ? plan.inner : 1;
  std::int64_t next_c = runs[0].moves_c ? plan.inner : 1;
  for (std::size_t run = 1; run < count; ++run) {
    const std::size_t slot = count - 1 - run;  // outermost first
    plan.sizes[slot] = runs[run].size;
    plan.strides_a[slot] = runs[run].moves_a ? next_a : 0;
    plan.strides_b[slot] = runs[run].moves_b ? next_b : 0;
    plan.strides_c[slot] = runs[run].moves_c ? next_c : 0;
    if (runs[run].moves_a) next_a *= runs[run].size;
    if (runs[run].moves_b) next_b *= runs[run].size;
    if (runs[run].moves_c) next_c *= runs[run].size;
    plan.rows *= runs[run].size;
  }
  return plan;
}

}  // namespace tapehead::detail

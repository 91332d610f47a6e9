#include "ops/elementwise.hpp"

#include <fmt/format.h>

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

BroadcastPlan broadcast_plan(const Shape& a, const Shape& b, const Shape& result) {
  // Merged axes from the last to the first: size, and whether each operand moves along it.
  struct Run {
    std::int64_t size;
    bool moves_a;
    bool moves_b;
  };
  std::array<Run, Shape::kMaxRank> runs{};
  std::size_t count = 0;
  for (int axis = result.rank() - 1; axis >= 0; --axis) {
    const std::int64_t size = result[axis];
    if (size == 1) continue;
    const bool moves_a = a.rank() > 0 && a[axis] != 1;
    const bool moves_b = b.rank() > 0 && b[axis] != 1;
    if (count > 0 && runs[count - 1].moves_a == moves_a && runs[count - 1].moves_b == moves_b) {
      runs[count - 1].size *= size;
    } else {
      runs[count++] = {size, moves_a, moves_b};
    }
  }
  BroadcastPlan plan;
  if (count == 0) return plan;
  plan.inner = runs[0].size;
  plan.inner_a = runs[0].moves_a ? 1 : 0;
  plan.inner_b = runs[0].moves_b ? 1 : 0;
  plan.rank = static_cast<int>(count) - 1;
  std::int64_t next_a = runs[0].moves_a ? plan.inner : 1;
  std::int64_t next_b = runs[0].moves_b ? plan.inner : 1;
  for (std::size_t run = 1; run < count; ++run) {
    const std::size_t slot = count - 1 - run;  // outermost first
    plan.sizes[slot] = runs[run].size;
    plan.strides_a[slot] = runs[run].moves_a ? next_a : 0;
    plan.strides_b[slot] = runs[run].moves_b ? next_b : 0;
    if (runs[run].moves_a) next_a *= runs[run].size;
    if (runs[run].moves_b) next_b *= runs[run].size;
    plan.rows *= runs[run].size;
  }
  return plan;
}

}  // namespace tapehead::detail

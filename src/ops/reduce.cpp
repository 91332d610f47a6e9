#include "ops/reduce.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/message.hpp"

namespace tapehead::detail {

ReduceAxes reduce_axes(const char* op, const Tensor& x, const Axes& axes, Reduced reduced) {
  check_defined(op, x);
  ReduceAxes result;
  if (axes.all()) {
    for (int axis = 0; axis < x.rank(); ++axis) result.axes.push_back(axis);
  } else {
    for (int axis : axes.list())
      result.axes.push_back(x.shape().axis(axis, fmt::format("{}: axis", op)));
    std::sort(result.axes.begin(), result.axes.end());
    const auto twice = std::adjacent_find(result.axes.begin(), result.axes.end());
    if (twice != result.axes.end()) {
      fail<ValueError>(
          fmt::format("{}: axis {} of shape {} is given twice", op, *twice, to_string(x.shape())));
    }
  }
  result.kept = x.shape();
  for (int axis : result.axes) {
    result.count *= x.dim(axis);
    result.kept = result.kept.with(axis, 1);
  }
  result.result = result.kept;
  if (reduced == Reduced::drop) {
    for (auto axis = result.axes.rbegin(); axis != result.axes.rend(); ++axis) {
      result.result = result.result.without(*axis);
    }
  }
  return result;
}

std::vector<ReduceRun> reduce_runs(const Shape& shape, const std::vector<int>& axes) {
  std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  std::vector<ReduceRun> runs;
  for (std::size_t last = axes.size(); last > 0;) {
    std::size_t first = last - 1;
    while (first > 0 && axes[first - 1] == axes[first] - 1) --first;
    ReduceRun run;
    for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis) {
      std::int64_t& size = sizes[static_cast<std::size_t>(axis)];
      if (axis < axes[first]) {
        run.outer *= size;
      } else if (axis > axes[last - 1]) {
        run.inner *= size;
      } else {
        run.count *= size;
        size = 1;
      }
    }
    runs.push_back(run);
    last = first;
  }
  return runs;
}

void check_not_empty(const char* op, const Tensor& x, const ReduceAxes& over) {
  if (over.count > 0) return;
  fail<ShapeError>(
      fmt::format("{}: shape {} has no elements along {} {}, and there is no {} of nothing (sum of "
                  "nothing is 0 "
                  "and logsumexp -inf); leave empty tensors out",
                  op, to_string(x.shape()), over.axes.size() == 1 ? "axis" : "axes",
                  fmt::join(over.axes, ", "), op));
}

}  // namespace tapehead::detail

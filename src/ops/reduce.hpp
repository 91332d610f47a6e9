// Shared machinery of reductions: which axes, and the three-level view [outer, count, inner] of a
// run of neighbouring reduced axes.
#pragma once

#include <cstdint>
#include <vector>

#include <tapehead/ops.hpp>

namespace tapehead::detail {

struct ReduceAxes {
  std::vector<int> axes;   // sorted, non-negative, no repeats
  Shape kept;              // reduced axes have size 1
  Shape result;            // kept or dropped, as asked
  std::int64_t count = 1;  // elements behind each result
};
// IndexError for an axis outside the rank, ValueError for one given twice.
[[nodiscard]] ReduceAxes reduce_axes(const char* op, const Tensor& x, const Axes& axes,
                                     Reduced reduced);

// A maximal run of neighbouring axes: x seen as [outer, count, inner], reduced over count.
struct ReduceRun {
  std::int64_t outer = 1;
  std::int64_t count = 1;
  std::int64_t inner = 1;
};
// The runs in the order in which to apply them (last axes first), each on the result of the one
// before.
[[nodiscard]] std::vector<ReduceRun> reduce_runs(const Shape& shape, const std::vector<int>& axes);

}  // namespace tapehead::detail

// Shared machinery of reductions: which axes, and the three-level view [outer, count, inner] of a
// run of neighbouring reduced axes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <tapehead/ops.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"

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
// ShapeError when there is no element behind a result ("max: shape [0, 3] has nothing to ...").
void check_not_empty(const char* op, const Tensor& x, const ReduceAxes& over);

// Folds `rows` rows of `inner` elements into total[0..inner). A single column runs in eight lanes,
// so that it is not one long chain of dependent steps.
template <class T, class S, class Step, class Merge>
void fold_rows(const T* x, std::int64_t rows, std::int64_t inner, std::int64_t column, S start,
               S* total, Step step, Merge merge) {
  if (inner != 1) {
    std::fill_n(total, inner, start);
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* row = x + i * inner;
      for (std::int64_t j = 0; j < inner; ++j) total[j] = step(total[j], row[j], column + j);
    }
    return;
  }
  S lanes[8];
  std::fill_n(lanes, 8, start);
  std::int64_t i = 0;
  for (; i + 8 <= rows; i += 8) {
    // A whole vector at a time; GCC unrolls the eight before it vectorises, unless told not to.
#pragma GCC unroll 1
    for (int lane = 0; lane < 8; ++lane) lanes[lane] = step(lanes[lane], x[i + lane], column);
  }
  for (int lane = 0; i < rows; ++i, ++lane) lanes[lane] = step(lanes[lane], x[i], column);
  *total = merge(merge(merge(lanes[0], lanes[1]), merge(lanes[2], lanes[3])),
                 merge(merge(lanes[4], lanes[5]), merge(lanes[6], lanes[7])));
}

// [outer, count, inner] -> [outer, inner] of S: state = step(state, x, column) from `start`, where
// column is the place in the result. Long runs are cut at fixed places whose states `merge` joins
// in order, so the bits do not depend on the number of threads.
template <class T, class S, class Step, class Merge>
Tensor fold_run(const Tensor& x, const ReduceRun& run, S start, Step step, Merge merge) {
  const std::int64_t slab = run.count * run.inner;
  const std::int64_t rows = rows_per_chunk(run.inner);
  const std::int64_t pieces = std::max<std::int64_t>(1, (run.count + rows - 1) / rows);
  Tensor partial = empty({run.outer, pieces, run.inner}, kDTypeOf<S>);
  if (partial.size() == 0) return partial;
  const T* from = in<T>(x);
  S* states = out<S>(partial);
  parallel_for(run.outer * pieces, std::max<std::int64_t>(1, rows_per_chunk(slab)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t item = begin; item < end; ++item) {
                   const std::int64_t outer = item / pieces;
                   const std::int64_t first = item % pieces * rows;
                   fold_rows(from + outer * slab + first * run.inner,
                             std::min(rows, run.count - first), run.inner, outer * run.inner, start,
                             states + item * run.inner, step, merge);
                 }
               });
  if (pieces == 1) return partial;
  Tensor joined = empty({run.outer, run.inner}, kDTypeOf<S>);
  S* to = out<S>(joined);
  for (std::int64_t outer = 0; outer < run.outer; ++outer) {
    for (std::int64_t j = 0; j < run.inner; ++j) {
      S state = start;
      for (std::int64_t p = 0; p < pieces; ++p) {
        state = merge(state, states[(outer * pieces + p) * run.inner + j]);
      }
      to[outer * run.inner + j] = state;
    }
  }
  return joined;
}

// All runs of `over`, one after the other: step for the elements, merge for the states of the run
// before. The result holds one S for each element of over.result.
template <class T, class S, class Step, class Merge>
Tensor fold(const Tensor& x, const ReduceAxes& over, S start, Step step, Merge merge) {
  std::vector<ReduceRun> runs = reduce_runs(x.shape(), over.axes);
  if (runs.empty()) runs.push_back({1, 1, x.size()});
  const auto element = [step](S state, T v, std::int64_t) { return step(state, v); };
  const auto state_of = [merge](S state, S other, std::int64_t) { return merge(state, other); };
  Tensor states = fold_run<T, S>(x, runs.front(), start, element, merge);
  for (std::size_t run = 1; run < runs.size(); ++run) {
    states = fold_run<S, S>(states, runs[run], start, state_of, merge);
  }
  return states;
}

}  // namespace tapehead::detail

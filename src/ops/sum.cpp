// Sum and mean over axes.
//   y = sum_i x_i:       dx_i = dy
//   y = (1/n) sum_i x_i: dx_i = dy / n
// Sums run in f64 and are cut at fixed places, so they do not depend on the number of threads. The
// sum over nothing is 0; the mean over nothing is an error.
#include <algorithm>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"
#include "ops/reduce.hpp"

namespace tapehead {
namespace {

using detail::ReduceRun;

// Eight running sums, so that the loop is not one long chain of dependent additions.
template <class T>
double sum_line(const T* x, std::int64_t count) {
  double lanes[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int lane = 0; lane < 8; ++lane) lanes[lane] += static_cast<double>(x[i + lane]);
  }
  for (int lane = 0; i < count; ++i, ++lane) lanes[lane] += static_cast<double>(x[i]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// total[j] += sum_i x[i, j] for `rows` rows of `inner` elements.
template <class T>
void add_rows(const T* x, std::int64_t rows, std::int64_t inner, double* total) {
  if (inner == 1) {
    *total += sum_line(x, rows);
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* row = x + i * inner;
    for (std::int64_t j = 0; j < inner; ++j) total[j] += static_cast<double>(row[j]);
  }
}

// [outer, count, inner] -> [outer, inner]
template <class T>
Tensor sum_run(const Tensor& x, const ReduceRun& run) {
  Tensor y = detail::empty({run.outer, run.inner}, x.dtype());
  const T* from = detail::in<T>(x);
  T* to = detail::out<T>(y);
  if (y.size() == 0) return y;
  const std::int64_t slab = run.count * run.inner;
  const std::int64_t rows = detail::rows_per_chunk(run.inner);
  const std::int64_t pieces = std::max<std::int64_t>(1, (run.count + rows - 1) / rows);
  Tensor partial = detail::empty({run.outer, pieces, run.inner}, DType::f64);
  double* sums = detail::out<double>(partial);
  const std::int64_t items_per_chunk = std::max<std::int64_t>(1, detail::rows_per_chunk(slab));
  detail::parallel_for(run.outer * pieces, items_per_chunk,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t item = begin; item < end; ++item) {
                           const std::int64_t first = item % pieces * rows;
                           double* total = sums + item * run.inner;
                           std::fill_n(total, run.inner, 0.0);
                           add_rows(from + item / pieces * slab + first * run.inner,
                                    std::min(rows, run.count - first), run.inner, total);
                         }
                       });
  for (std::int64_t outer = 0; outer < run.outer; ++outer) {
    for (std::int64_t j = 0; j < run.inner; ++j) {
      double total = 0;
      for (std::int64_t p = 0; p < pieces; ++p) total += sums[(outer * pieces + p) * run.inner + j];
      to[outer * run.inner + j] = static_cast<T>(total);
    }
  }
  return y;
}

Tensor sum_over(const char* op, const Tensor& x, const detail::ReduceAxes& over) {
  return detail::with_float(op, x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor y = x;
    for (const ReduceRun& run : detail::reduce_runs(x.shape(), over.axes)) y = sum_run<T>(y, run);
    return detail::TensorAccess::view(y, over.result);
  });
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, Reduced reduced) {
  detail::check_floating("sum", x);
  const detail::ReduceAxes over = detail::reduce_axes("sum", x, axes, reduced);
  Tensor y = sum_over("sum", x, over);
  return record("sum", y).input(x, [kept = over.kept, whole = x.shape()](const Tensor& dy) {
    return broadcast_to(reshape(dy, kept), whole);
  });
}

Tensor mean(const Tensor& x, const Axes& axes, Reduced reduced) {
  detail::check_floating("mean", x);
  const detail::ReduceAxes over = detail::reduce_axes("mean", x, axes, reduced);
  if (over.count == 0) {
    detail::fail<ShapeError>(fmt::format(
        "mean: shape {} has nothing to average over the given axes", to_string(x.shape())));
  }
  return scale(sum(x, axes, reduced), 1.0 / static_cast<double>(over.count));
}

namespace detail {
namespace {

std::vector<OpSample> reduction_samples(DType dtype,
                                        Tensor (*op)(const Tensor&, const Axes&, Reduced),
                                        bool of_nothing) {
  struct Case {
    Shape shape;
    Axes axes;
    Reduced reduced;
    const char* name;
  };
  std::vector<Case> cases{
      {{}, {}, Reduced::drop, "scalar"},
      {{1}, {}, Reduced::drop, "one element"},
      {{3, 5, 17}, {}, Reduced::drop, "[3,5,17], all axes"},
      {{3, 5, 17}, 1, Reduced::keep, "[3,5,17], axis 1, kept"},
      {{3, 5, 17}, {0, -1}, Reduced::drop, "[3,5,17], axes 0 and 2"},
      {{2, 67}, -1, Reduced::drop, "[2,67], last axis"},
      {{67, 2}, 0, Reduced::drop, "[67,2], first axis"},
      {{0, 3}, 1, Reduced::drop, "[0,3], axis 1"},
  };
  if (of_nothing) cases.push_back({{0, 3}, 0, Reduced::drop, "[0,3], axis 0"});
  std::vector<OpSample> samples;
  for (const Case& c : cases) {
    OpSample sample{c.name, {sample_values(c.shape, dtype, 1)}};
    sample.call = [op, axes = c.axes, reduced = c.reduced](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{op(x[0], axes, reduced)};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

OpEntry sum_entry() {
  return {"sum", "reduction", "y = sum_i x_i", "dx_i = dy", true, true, [](DType t) {
            return reduction_samples(t, sum, true);
          }};
}
OpEntry mean_entry() {
  return {"mean", "reduction", "y = (1/n) sum_i x_i", "dx_i = dy / n", true, true, [](DType t) {
            return reduction_samples(t, mean, false);
          }};
}

}  // namespace detail
}  // namespace tapehead

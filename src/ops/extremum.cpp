// Largest and smallest elements over axes.
//   max, min:  y = max_i x_i      dx_i = x_i == y ? dy / n : 0, n the number of elements equal to y
//   argmax:    y = the first i with x_i = max_j x_j      no gradient
// Ties share the gradient equally, so that it sums to dy. A NaN wins over every number, in argmax
// the first of them; as it equals nothing, no gradient comes back from it. Nothing has no maximum.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"
#include "ops/reduce.hpp"

namespace tapehead {
namespace {

// better(a, b): a replaces b as the extreme element. `worst` is replaced by every number.
template <class Better>
Tensor extremum(const char* op, const Tensor& x, const Axes& axes, Reduced reduced, double worst,
                Better better) {
  detail::check_floating(op, x);
  const detail::ReduceAxes over = detail::reduce_axes(op, x, axes, reduced);
  detail::check_not_empty(op, x, over);
  Tensor y = detail::with_float(op, x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    // Without a short cut, so that the loop vectorises.
    const auto pick = [better](T state, T v) {
      const bool wins = better(v, state);
      const bool nan = v != v;
      return (wins | nan) ? v : state;
    };
    return detail::fold<T, T>(x, over, static_cast<T>(worst), pick, pick);
  });
  y = detail::TensorAccess::view(y, over.result);
  return record(op, y).input(x,
                             [x, axes, kept = over.kept](const Tensor& extreme, const Tensor& dy) {
                               const Tensor chosen = equal(x, reshape(detach(extreme), kept));
                               const Tensor ties = sum(cast(chosen, x.dtype()), axes, keep);
                               return where(chosen, reshape(dy, kept) / ties, zeros({}, x.dtype()));
                             });
}

// [outer, count, inner] -> [outer, inner]
template <class T>
void argmax_run(const T* x, std::int64_t* best, const detail::ReduceRun& run) {
  detail::parallel_for(run.outer, detail::rows_per_chunk(run.count * run.inner),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t outer = begin; outer < end; ++outer) {
                           const T* slab = x + outer * run.count * run.inner;
                           std::int64_t* row = best + outer * run.inner;
                           std::fill_n(row, run.inner, std::int64_t{0});
                           for (std::int64_t i = 1; i < run.count; ++i) {
                             for (std::int64_t j = 0; j < run.inner; ++j) {
                               const T v = slab[i * run.inner + j];
                               const T champion = slab[row[j] * run.inner + j];
                               if (v > champion || (v != v && champion == champion)) row[j] = i;
                             }
                           }
                         }
                       });
}

}  // namespace

Tensor max(const Tensor& x, const Axes& axes, Reduced reduced, CallSite at) {
  const OpCall call(at);
  return extremum("max", x, axes, reduced, -std::numeric_limits<double>::infinity(),
                  [](auto a, auto b) { return a > b; });
}

Tensor min(const Tensor& x, const Axes& axes, Reduced reduced, CallSite at) {
  const OpCall call(at);
  return extremum("min", x, axes, reduced, std::numeric_limits<double>::infinity(),
                  [](auto a, auto b) { return a < b; });
}

Tensor argmax(const Tensor& x, int axis, Reduced reduced) {
  const detail::ReduceAxes over = detail::reduce_axes("argmax", x, axis, reduced);
  detail::check_not_empty("argmax", x, over);
  Tensor y = detail::empty(over.result, DType::i64);
  detail::with_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    argmax_run<T>(detail::in<T>(x), detail::out<std::int64_t>(y),
                  detail::reduce_runs(x.shape(), over.axes).front());
  });
  return y;
}

namespace detail {
namespace {

std::vector<OpSample> extremum_samples(DType dtype, Tensor (*op)(const Tensor&, const Axes&,
                                                                 Reduced, CallSite)) {
  std::vector<OpSample> samples = reduction_samples(dtype, op, false);
  OpSample tie{"tie", {tensor({{1, 1, 1}, {-2, -2, -2}}, dtype)}};
  tie.call = [op](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{op(x[0], 1, Reduced::drop, {})};
  };
  tie.kink = true;
  samples.push_back(std::move(tie));
  return samples;
}

}  // namespace

OpEntry max_entry() {
  return {"max",
          "reduction",
          "y = max_i x_i",
          "dx_i = x_i == y ? dy / ties : 0",
          true,
          false,
          [](DType t) { return extremum_samples(t, max); }};
}
OpEntry min_entry() {
  return {"min",
          "reduction",
          "y = min_i x_i",
          "dx_i = x_i == y ? dy / ties : 0",
          true,
          false,
          [](DType t) { return extremum_samples(t, min); }};
}
OpEntry argmax_entry() {
  return {
      "argmax", "reduction", "y = first i of x_i = max_j x_j", "none", false, false, [](DType t) {
        std::vector<OpSample> samples;
        const std::vector<std::pair<Shape, int>> cases{{{1}, 0},
                                                       {{3, 5, 17}, 1},
                                                       {{3, 5, 17}, -1},
                                                       {{67, 2}, 0},
                                                       {{2, 67}, 1},
                                                       {{0, 3}, 1},
                                                       {{2, 1, 3, 1, 1, 2, 1, 2}, 2}};
        for (const auto& c : cases) {
          OpSample sample{fmt::format("{}, axis {}", to_string(c.first), c.second),
                          {apart_values(c.first, t, 1)}};
          sample.call = [axis = c.second](const std::vector<Tensor>& x) {
            return std::vector<Tensor>{argmax(x[0], axis)};
          };
          samples.push_back(std::move(sample));
        }
        return samples;
      }};
}

}  // namespace detail
}  // namespace tapehead

// Sum and mean over axes.
//   y = sum_i x_i:       dx_i = dy
//   y = (1/n) sum_i x_i: dx_i = dy / n
// Sums run in f64 and are cut at fixed places, so they do not depend on the number of threads. The
// sum over nothing is 0; the mean over nothing is an error.
#include <tapehead/record.hpp>

#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"
#include "ops/reduce.hpp"

namespace tapehead {
namespace {

Tensor sum_over(const Tensor& x, const detail::ReduceAxes& over) {
  return detail::with_float("sum", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Tensor total = detail::fold<T, double>(
        x, over, 0.0, [](double state, T v) { return state + static_cast<double>(v); },
        [](double a, double b) { return a + b; });
    Tensor y = detail::map<double, T>(total, [](double v) { return static_cast<T>(v); });
    return detail::TensorAccess::view(y, over.result);
  });
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, Reduced reduced, CallSite at) {
  const OpCall call(at);
  detail::check_floating("sum", x);
  const detail::ReduceAxes over = detail::reduce_axes("sum", x, axes, reduced);
  Tensor y = sum_over(x, over);
  return record("sum", y).input(x, [kept = over.kept, whole = x.shape()](const Tensor& dy) {
    return broadcast_to(reshape(dy, kept), whole);
  });
}

Tensor mean(const Tensor& x, const Axes& axes, Reduced reduced, CallSite at) {
  const OpCall call(at);
  detail::check_floating("mean", x);
  const detail::ReduceAxes over = detail::reduce_axes("mean", x, axes, reduced);
  detail::check_not_empty("mean", x, over);
  return scale(sum(x, axes, reduced), 1.0 / static_cast<double>(over.count));
}

namespace detail {

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

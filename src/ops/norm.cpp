// Norm and logsumexp over axes.
//   norm:       y = sqrt(sum_i x_i^2)             dx_i = dy * x_i / y, 0 where y = 0
//   logsumexp:  y = m + ln sum_i e^(x_i - m)      dx_i = dy * e^(x_i - y)
// with m = max_i x_i, so that nothing overflows. Sums run in f64. The norm of nothing is 0,
// logsumexp of nothing or of -inf alone is -inf with gradient 0. A +inf gives +inf, and the
// elements that are +inf share the gradient equally, as in the limit of large equal numbers.
#include <cmath>
#include <limits>

#include <tapehead/record.hpp>

#include "core/vector_math.hpp"
#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"
#include "ops/reduce.hpp"

namespace tapehead {

Tensor norm(const Tensor& x, const Axes& axes, Reduced reduced, CallSite at) {
  const OpCall call(at);
  detail::check_floating("norm", x);
  const detail::ReduceAxes over = detail::reduce_axes("norm", x, axes, reduced);
  Tensor y = detail::with_float("norm", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Tensor squares = detail::fold<T, double>(
        x, over, 0.0,
        [](double state, T v) { return state + static_cast<double>(v) * static_cast<double>(v); },
        [](double a, double b) { return a + b; });
    return detail::map<double, T>(squares, [](double v) { return static_cast<T>(std::sqrt(v)); });
  });
  y = detail::TensorAccess::view(y, over.result);
  return record("norm", y).turns_signs().input(x, [x, kept = over.kept](const Tensor& length,
                                                                        const Tensor& dy) {
    // dy is left out before the division, so that it is never by 0, and behind it, so that its own
    // gradient is not.
    const Tensor zero = equal(length, 0);
    const Tensor ratio = masked_fill(detail::chain_over(masked_fill(dy, zero, 0), length), zero, 0);
    return detail::chain(reshape(ratio, kept), x);
  });
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [outer, count, inner] -> [outer, inner]. An infinite m is left out: e^(inf - inf) would be NaN.
template <class T>
Tensor logsumexp_run(const Tensor& x, const detail::ReduceRun& run) {
  const auto larger = [](T a, T b) {
    const bool wins = b > a;
    const bool nan = b != b;
    return (wins | nan) ? b : a;
  };
  const Tensor maxima = detail::fold_run<T, T>(
      x, run, static_cast<T>(-kInfinity), [larger](T a, T b, std::int64_t) { return larger(a, b); },
      larger);
  const Tensor shifts = detail::map<T>(maxima, [](T m) { return std::isfinite(m) ? m : T(0); });
  const T* shift = detail::in<T>(shifts);
  const Tensor sums = detail::fold_run<T, double>(
      x, run, 0.0,
      [shift](double state, T v, std::int64_t column) {
        return state + static_cast<double>(detail::vector_exp(v - shift[column]));
      },
      [](double a, double b) { return a + b; });
  Tensor y = detail::empty({run.outer, run.inner}, x.dtype());
  const double* total = detail::in<double>(sums);
  T* to = detail::out<T>(y);
  for (std::int64_t i = 0; i < y.size(); ++i) {
    to[i] = static_cast<T>(static_cast<double>(shift[i]) + std::log(total[i]));
  }
  return y;
}

// e^(x - y), the share of each element. y is infinite where all x are -inf (shares 0) or some are
// +inf (equal shares of those).
Tensor shares(const Tensor& x, const Tensor& y, const Axes& axes) {
  const Tensor infinite = equal(abs(detach(y)), kInfinity);
  Tensor smooth = exp(x - masked_fill(y, infinite, 0));
  if (sum(cast(infinite, DType::f64)).item() == 0) return smooth;
  const Tensor top = equal(x, kInfinity);
  const Tensor tops = cast(top, x.dtype());
  return where(broadcast_to(equal(y, kInfinity), x.shape()),
               tops / maximum(sum(tops, axes, keep), 1), smooth);
}

}  // namespace

Tensor logsumexp(const Tensor& x, const Axes& axes, Reduced reduced, CallSite at) {
  const OpCall call(at);
  detail::check_floating("logsumexp", x);
  const detail::ReduceAxes over = detail::reduce_axes("logsumexp", x, axes, reduced);
  Tensor y = detail::with_float("logsumexp", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor result = x;
    for (const detail::ReduceRun& run : detail::reduce_runs(x.shape(), over.axes)) {
      result = logsumexp_run<T>(result, run);
    }
    return result;
  });
  y = detail::TensorAccess::view(y, over.result);
  return record("logsumexp", y)
      .may_give(-kInfinity)
      .input(x, [x, axes, kept = over.kept](const Tensor& total, const Tensor& dy) {
        return detail::chain(reshape(dy, kept), shares(x, reshape(total, kept), axes));
      });
}

namespace detail {

OpEntry norm_entry() {
  return {"norm",
          "reduction",
          "y = sqrt(sum_i x_i^2)",
          "dx_i = dy * x_i / y",
          true,
          false,
          [](DType t) {
            std::vector<OpSample> samples = reduction_samples(t, norm, true);
            OpSample zero{"zero vector", {zeros({2, 3}, t)}};
            zero.call = [](const std::vector<Tensor>& x) {
              return std::vector<Tensor>{norm(x[0], 1)};
            };
            zero.kink = true;
            samples.push_back(std::move(zero));
            return samples;
          }};
}
OpEntry logsumexp_entry() {
  return {
      "logsumexp",
      "reduction",
      "y = ln sum_i e^(x_i)",
      "dx_i = dy * e^(x_i - y)",
      true,
      true,
      [](DType t) {
        std::vector<OpSample> samples = reduction_samples(t, logsumexp, true);
        samples.push_back(point_sample(
            t, [](const Tensor& x) { return logsumexp(x); }, {800, 801, 799.5, -800}, "far out"));
        return samples;
      }};
}

}  // namespace detail
}  // namespace tapehead

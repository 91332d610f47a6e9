// Exponential, logarithm and powers.
//   exp:   y = e^x        dx = dy * y
//   log:   y = ln x       dx = dy / x
//   sqrt:  y = x^(1/2)    dx = dy / (2 y)
//   pow:   y = x^p        dx = dy * p x^(p-1), 0 for p = 0
// The exponent of pow is a constant: there is no gradient to it, and no logarithm of x is taken, so
// negative x work for whole p. x^0 is 1 for every x, 0 included. At 0 the slope of sqrt is +inf, as
// it is for log and for pow with p < 1; so sqrt(x * x) at 0 has the gradient inf * 0 = NaN: write
// abs or norm instead. Where dy is 0 the gradient is 0 even there.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/vector_math.hpp"
#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

namespace tapehead {

using detail::chain;
using detail::chain_over;
using detail::map_float;

Tensor exp(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("exp", x, [](auto v) { return detail::vector_exp(v); });
  return record("exp", y).input(
      x, [](const Tensor& power, const Tensor& dy) { return chain(dy, power); });
}

Tensor log(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("log", x, [](auto v) { return std::log(v); });
  return record("log", y)
      .may_give(-std::numeric_limits<double>::infinity())
      .input(x, [x](const Tensor& dy) { return chain_over(dy, x); });
}

Tensor sqrt(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("sqrt", x, [](auto v) { return std::sqrt(v); });
  return record("sqrt", y).input(
      x, [](const Tensor& root, const Tensor& dy) { return chain_over(0.5 * dy, root); });
}

namespace {

Tensor power(const Tensor& x, double exponent) {
  if (exponent == 2) return map_float("pow", x, [](auto v) { return v * v; });
  if (exponent == 1) return map_float("pow", x, [](auto v) { return v; });
  if (exponent == -1) return map_float("pow", x, [](auto v) { return 1 / v; });
  return map_float("pow", x,
                   [exponent](auto v) { return std::pow(v, static_cast<decltype(v)>(exponent)); });
}

}  // namespace

Tensor pow(const Tensor& x, double exponent, CallSite at) {
  const OpCall call(at);
  detail::check_floating("pow", x);
  if (std::isnan(exponent)) detail::fail<ValueError>("pow: the exponent is NaN; give a number");
  return record("pow", power(x, exponent)).turns_signs().input(x, [x, exponent](const Tensor& dy) {
    if (exponent == 0) return zeros(x.shape(), x.dtype());
    return chain(dy, exponent * pow(x, exponent - 1));
  });
}

namespace detail {

OpEntry exp_entry() {
  return {"exp", "elementwise", "y = e^x", "dx = dy * y", true, true, [](DType t) {
            return unary_samples(t, [](const Tensor& x) { return exp(x); });
          }};
}
OpEntry log_entry() {
  return {"log", "elementwise", "y = ln x", "dx = dy / x", true, true, [](DType t) {
            return unary_samples(
                t, [](const Tensor& x) { return log(x); }, 0.5, 3);
          }};
}
OpEntry sqrt_entry() {
  return {"sqrt", "elementwise", "y = x^(1/2)", "dx = dy / (2 y)", true, true, [](DType t) {
            return unary_samples(
                t, [](const Tensor& x) { return sqrt(x); }, 0.5, 3);
          }};
}
OpEntry pow_entry() {
  return {"pow", "elementwise", "y = x^p", "dx = dy * p x^(p-1)", true, true, [](DType t) {
            std::vector<OpSample> samples = unary_samples(
                t, [](const Tensor& x) { return pow(x, 2.5); }, 0.5, 3);
            const std::vector<double> points{-5, -1.25, 0, 0.75, 3};
            for (const double p : {1.0, 2.0, 3.0}) {
              samples.push_back(point_sample(
                  t, [p](const Tensor& x) { return pow(x, p); }, points,
                  fmt::format("p = {}, through 0", p)));
            }
            for (const double p : {-1.0, -2.0}) {
              samples.push_back(point_sample(
                  t, [p](const Tensor& x) { return pow(x, p); }, {-2, -0.5, 0.75, 3},
                  fmt::format("p = {}", p)));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

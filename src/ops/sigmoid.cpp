// Functions of the logistic family.
//   sigmoid:   y = 1 / (1 + e^-x)    dx = dy * y (1 - y)
//   tanh:      y = tanh x            dx = dy * (1 - y^2)
//   softplus:  y = ln(1 + e^x)       dx = dy * sigmoid(x)
//   silu:      y = x s               dx = dy * s (1 + x (1 - s)),  s = sigmoid(x)
// Only e^-|x| is ever taken, which cannot overflow: with e = e^-|x|, sigmoid is 1 / (1 + e) for
// x >= 0 and e / (1 + e) below, and softplus is max(x, 0) + ln(1 + e).
// silu: Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units" (2017).
#include <cmath>

#include <tapehead/record.hpp>

#include "core/vector_curves.hpp"
#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

namespace tapehead {

using detail::map_float;
using detail::slope_gradient;
using detail::vector_exp;
using detail::vector_log1p;
using detail::vector_sigmoid;
using detail::vector_tanh;

namespace {

template <class T>
T softplus_of(T x) {
  return (x > 0 ? x : T(0)) + vector_log1p(vector_exp(-std::abs(x)));
}

}  // namespace

Tensor sigmoid(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("sigmoid", x, [](auto v) { return vector_sigmoid(v); });
  return record("sigmoid", y).input(x, [](const Tensor& s, const Tensor& dy) {
    return slope_gradient(
        "sigmoid", dy, s, [](auto v) { return v * (1 - v); },
        [](const Tensor& v) { return v * (1.0 - v); });
  });
}

Tensor tanh(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("tanh", x, [](auto v) { return vector_tanh(v); });
  return record("tanh", y).input(x, [](const Tensor& t, const Tensor& dy) {
    return slope_gradient(
        "tanh", dy, t, [](auto v) { return 1 - v * v; },
        [](const Tensor& v) { return 1.0 - v * v; });
  });
}

Tensor softplus(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("softplus", x, [](auto v) { return softplus_of(v); });
  return record("softplus", y).input(x, [x](const Tensor& dy) {
    return slope_gradient(
        "softplus", dy, x, [](auto v) { return vector_sigmoid(v); },
        [](const Tensor& v) { return sigmoid(v); });
  });
}

Tensor silu(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("silu", x, [](auto v) { return v * vector_sigmoid(v); });
  return record("silu", y).input(x, [x](const Tensor& dy) {
    return slope_gradient(
        "silu", dy, x,
        [](auto v) {
          const auto s = vector_sigmoid(v);
          return s * (1 + v * (1 - s));
        },
        [](const Tensor& v) {
          const Tensor s = sigmoid(v);
          return s * (1.0 + v * (1.0 - s));
        });
  });
}

namespace detail {
namespace {

// Awkward shapes, and points where e^x is far out of range.
OpEntry logistic(const char* name, const char* formula, const char* derivative,
                 Tensor (*op)(const Tensor&)) {
  return {name, "elementwise", formula, derivative, true, true, [op](DType t) {
            std::vector<OpSample> samples = unary_samples(t, op, -4, 4);
            samples.push_back(point_sample(t, op, {-800, -100, -20, 0, 20, 100, 800}, "far out"));
            return samples;
          }};
}

}  // namespace

OpEntry sigmoid_entry() {
  return logistic("sigmoid", "y = 1 / (1 + e^-x)", "dx = dy * y (1 - y)",
                  [](const Tensor& x) { return sigmoid(x); });
}
OpEntry tanh_entry() {
  return logistic("tanh", "y = (e^x - e^-x) / (e^x + e^-x)", "dx = dy * (1 - y^2)",
                  [](const Tensor& x) { return tanh(x); });
}
OpEntry softplus_entry() {
  return logistic("softplus", "y = ln(1 + e^x)", "dx = dy * sigmoid(x)",
                  [](const Tensor& x) { return softplus(x); });
}
OpEntry silu_entry() {
  return logistic("silu", "y = x s, s = sigmoid(x)", "dx = dy * s (1 + x (1 - s))",
                  [](const Tensor& x) { return silu(x); });
}

}  // namespace detail
}  // namespace tapehead

// Gauss error function and the activations made of it.
//   erf:        y = 2/sqrt(pi) * integral of e^(-t^2), 0..x     dx = dy * 2/sqrt(pi) e^(-x^2)
//   gelu:       y = x Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2
//               dx = dy * (Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi))
//   gelu_tanh:  y = x (1 + t) / 2, t = tanh(k (x + 0.044715 x^3)), k = sqrt(2 / pi)
//               dx = dy * ((1 + t) / 2 + x (1 - t^2) k (1 + 3 * 0.044715 x^2) / 2)
// Beyond |x| = 10 the t of gelu_tanh is +-1 to the last bit; x is held there, as x^2 (1 - t^2)
// would be inf * 0. Source: Hendrycks, Gimpel, "Gaussian error linear units" (2016).
#include <cmath>
#include <numbers>

#include <tapehead/record.hpp>

#include "core/vector_curves.hpp"
#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

namespace tapehead {

using detail::map_float;
using detail::slope_gradient;
using detail::vector_exp;
using detail::vector_normal_cdf;
using detail::vector_tanh;

namespace {

constexpr double kErfSlope = 2 * std::numbers::inv_sqrtpi;
constexpr double kHalfRoot = std::numbers::sqrt2 / 2;                      // 1 / sqrt 2
constexpr double kNormal = std::numbers::inv_sqrtpi * kHalfRoot;           // 1 / sqrt(2 pi)
constexpr double kInner = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // k
constexpr double kCubic = 0.044715;
constexpr double kFar = 10;

// tanh(k (x + 0.044715 x^3))
template <class T>
inline T inner_tanh(T x) {
  return vector_tanh(static_cast<T>(kInner) * x * (1 + static_cast<T>(kCubic) * x * x));
}

template <class T>
inline T gelu_tanh_slope(T far) {
  T x = far > T(kFar) ? T(kFar) : far;
  x = x < T(-kFar) ? T(-kFar) : x;
  const T t = inner_tanh(x);
  const T inner = static_cast<T>(kInner) * (1 + static_cast<T>(3 * kCubic) * x * x);
  return T(0.5) * (1 + t + x * (1 - t * t) * inner);
}

}  // namespace

Tensor erf(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("erf", x, [](auto v) { return std::erf(v); });
  return record("erf", y).input(x, [x](const Tensor& dy) {
    return slope_gradient(
        "erf", dy, x,
        [](auto v) { return static_cast<decltype(v)>(kErfSlope) * vector_exp(-v * v); },
        [](const Tensor& v) { return kErfSlope * exp(-(v * v)); });
  });
}

Tensor gelu(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("gelu", x, [](auto v) { return v * vector_normal_cdf(v); });
  return record("gelu", y).input(x, [x](const Tensor& dy) {
    return slope_gradient(
        "gelu", dy, x,
        [](auto v) {
          using T = decltype(v);
          return vector_normal_cdf(v) + v * static_cast<T>(kNormal) * vector_exp(T(-0.5) * v * v);
        },
        [](const Tensor& v) {
          return 0.5 * (1.0 + erf(kHalfRoot * v)) + kNormal * v * exp(-0.5 * (v * v));
        });
  });
}

Tensor gelu_tanh(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y =
      map_float("gelu_tanh", x, [](auto v) { return decltype(v)(0.5) * v * (1 + inner_tanh(v)); });
  return record("gelu_tanh", y).input(x, [x](const Tensor& dy) {
    return slope_gradient(
        "gelu_tanh", dy, x, [](auto v) { return gelu_tanh_slope(v); },
        [](const Tensor& far) {
          const Tensor v = clamp(far, -kFar, kFar);
          const Tensor t = tanh(kInner * v * (1.0 + kCubic * (v * v)));
          const Tensor inner = kInner * (1.0 + 3 * kCubic * (v * v));
          return 0.5 * (1.0 + t + v * (1.0 - t * t) * inner);
        });
  });
}

namespace detail {
namespace {

OpEntry bell(const char* name, const char* formula, const char* derivative,
             Tensor (*op)(const Tensor&)) {
  return {name, "elementwise", formula, derivative, true, true, [op](DType t) {
            std::vector<OpSample> samples = unary_samples(t, op, -3, 3);
            samples.push_back(point_sample(t, op, {-50, -12, -6, 0, 6, 12, 50}, "far out"));
            return samples;
          }};
}

}  // namespace

OpEntry erf_entry() {
  return bell("erf", "y = 2/sqrt(pi) * integral of e^(-t^2), 0..x", "dx = dy * 2/sqrt(pi) e^(-x^2)",
              [](const Tensor& x) { return erf(x); });
}
OpEntry gelu_entry() {
  return bell("gelu", "y = x Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2",
              "dx = dy * (Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi))",
              [](const Tensor& x) { return gelu(x); });
}
OpEntry gelu_tanh_entry() {
  return bell("gelu_tanh", "y = x (1 + t) / 2, t = tanh(sqrt(2/pi) (x + 0.044715 x^3))",
              "dx = dy * ((1 + t) / 2 + x (1 - t^2) sqrt(2/pi) (1 + 0.134145 x^2) / 2)",
              [](const Tensor& x) { return gelu_tanh(x); });
}

}  // namespace detail
}  // namespace tapehead

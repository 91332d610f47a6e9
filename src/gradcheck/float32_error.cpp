#include "gradcheck/float32_error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/access.hpp"

namespace tapehead::detail {

namespace {

constexpr double kZero = 0x1p16;
constexpr double kSmallest = 0x1p-24;

// Unit in the last place of f32: 2^(e - 23) for 2^e <= |x| < 2^(e + 1), 2^-149 for subnormals.
double ulp(double x) {
  return x == 0 ? 0x1p-149 : std::ldexp(1.0, std::max(std::ilogb(x), -126) - 23);
}

// f(i, x[i]) in f64.
template <class F>
void for_each_value(const Tensor& x, F f) {
  with_float("compare_float32", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* values = in<T>(x);
    for (std::int64_t i = 0; i < x.size(); ++i) f(i, static_cast<double>(values[i]));
  });
}

}  // namespace

double largest_in(const Tensor& x) {
  double most = 0;
  if (!x.defined()) return most;
  for_each_value(x, [&](std::int64_t, double v) {
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  });
  return most;
}

Float32Error float32_error(const Tensor& a, const Tensor& b, double scale) {
  Float32Error worst;
  const double* right = in<double>(b);
  for_each_value(a, [&](std::int64_t i, double x) {
    const double y = right[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) return;
    if (!std::isfinite(x) || !std::isfinite(y)) {
      worst.overflow = worst.overflow || std::isfinite(y);
      worst.ulps = worst.element_ulps = std::numeric_limits<double>::infinity();
      worst.at = i;
      return;
    }
    const double error = std::abs(x - y);
    worst.element_ulps =
        std::max(worst.element_ulps, error / ulp(std::max(std::abs(y), kSmallest * scale)));
    if (error / ulp(scale) > worst.ulps) {
      worst.ulps = error / ulp(scale);
      worst.at = i;
    }
  });
  return worst;
}

Float32Scale float32_scale(const Tensor& single, const Tensor& full, double otherwise) {
  const double truth = largest_in(full);
  const double seen = largest_in(single);
  const bool zero = seen > kZero * truth;
  return {zero ? std::max(otherwise, seen) : truth, zero};
}

}  // namespace tapehead::detail

// cast: y_i = x_i in another dtype. Between f32 and f64 dx = dy in x's dtype; other casts have no
// gradient. A float becomes an i64 by dropping its fraction, and a boolean by being other than 0.
// detach: the same numbers, off the tape.
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

namespace tapehead {
namespace {

// Converting a float outside the integer's range would be undefined.
template <class From>
void check_integers(const Tensor& x) {
  if constexpr (std::is_floating_point_v<From>) {
    for (const From v : x.data<From>()) {
      if (!(std::abs(v) < static_cast<From>(0x1p63))) {
        detail::fail<ValueError>(fmt::format("cast: {} has no i64 value", v));
      }
    }
  }
}

template <class From, class To>
Tensor converted(const Tensor& x) {
  if constexpr (std::is_same_v<To, unsigned char>) {
    return detail::map<From, To>(x, [](From v) { return static_cast<To>(v != 0); });
  } else {
    if constexpr (std::is_same_v<To, std::int64_t>) check_integers<From>(x);
    return detail::map<From, To>(x, [](From v) { return static_cast<To>(v); });
  }
}

}  // namespace

Tensor cast(const Tensor& x, DType dtype, CallSite at) {
  const OpCall call(at);
  detail::check_defined("cast", x);
  if (x.dtype() == dtype) return x;
  Tensor y = detail::with_any(x.dtype(), [&](auto from) {
    return detail::with_any(dtype,
                            [&](auto to) { return converted<decltype(from), decltype(to)>(x); });
  });
  if (!is_floating(dtype) || !is_floating(x.dtype())) return y;
  return record("cast", y).input(x,
                                 [from = x.dtype()](const Tensor& dy) { return cast(dy, from); });
}

Tensor detach(const Tensor& x) {
  detail::check_defined("detach", x);
  return detail::TensorAccess::placed(x, 0, -1);
}

namespace detail {

OpEntry cast_entry() {
  return {"cast",
          "conversion",
          "y = x in another dtype",
          "dx = dy in x's dtype",
          true,
          true,
          [](DType dtype) {
            const DType other = dtype == DType::f64 ? DType::f32 : DType::f64;
            // Through f32 and back the function is a staircase of rounding steps, so an f64 sample
            // stays f64.
            return unary_samples(dtype, [=](const Tensor& x) {
              return cast(x, dtype == DType::f64 ? dtype : other);
            });
          }};
}
OpEntry detach_entry() {
  return {"detach", "conversion", "y = x, off the tape", "none", false, true, [](DType dtype) {
            return unary_samples(dtype, [](const Tensor& x) { return detach(x); });
          }};
}

}  // namespace detail
}  // namespace tapehead

// Piecewise linear functions. At a kink the slope is 0.
//   relu:           y = max(x, 0)              dx = x > 0 ? dy : 0
//   maximum(x, c):  y = max(x, c)              dx = x > c ? dy : 0
//   clamp:          y = min(max(x, lo), hi)    dx = lo < x < hi ? dy : 0
//   abs:            y = |x|                    dx = x > 0 ? dy : x < 0 ? -dy : 0
//   sign:           y = -1, 0 or 1             dx = 0
//   maximum(a, b):  the larger                 da = a > b ? dy : a == b ? dy / 2 : 0, db alike
// NaN stays NaN. Gradients are copied or set to 0, never multiplied by 0. Two tensors that tie
// share the gradient equally.
#include <cmath>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

namespace tapehead {
namespace {

using detail::map_float;

// dx_i = f(dy_i, at_i), linear in dy: its own gradient is the same function again.
template <class F>
Tensor piecewise(const char* op, const Tensor& dy, const Tensor& at, F f) {
  Tensor dx = detail::with_float(
      op, dy.dtype(), [&](auto zero) { return detail::zip<decltype(zero)>(op, dy, at, f); });
  return record(op, dx).input(dy, [op, at, f](const Tensor& d) { return piecewise(op, d, at, f); });
}

// The part of dy that goes to `mine`: all where it is larger, half in a tie, else nothing.
Tensor larger_share(const Tensor& dy, const Tensor& mine, const Tensor& other) {
  const Tensor shared = where(equal(mine, other), 0.5 * dy, dy);
  return detail::sum_to(masked_fill(shared, less(mine, other), 0), mine.shape());
}

}  // namespace

Tensor relu(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("relu", x, [](auto v) { return v <= 0 ? decltype(v)(0) : v; });
  return record("relu", y).input(x, [](const Tensor& kept, const Tensor& dy) {
    return piecewise("relu gradient", dy, kept,
                     [](auto g, auto v) { return v <= 0 ? decltype(g)(0) : g; });
  });
}

Tensor maximum(const Tensor& x, double floor, CallSite at) {
  const OpCall call(at);
  if (std::isnan(floor)) detail::fail<ValueError>("maximum: the number is NaN; give a number");
  Tensor y = map_float("maximum", x, [floor](auto v) {
    const auto c = static_cast<decltype(v)>(floor);
    return v <= c ? c : v;
  });
  return record("maximum", y).input(x, [x, floor](const Tensor& dy) {
    return piecewise("maximum gradient", dy, x, [floor](auto g, auto v) {
      return v <= static_cast<decltype(v)>(floor) ? decltype(g)(0) : g;
    });
  });
}

Tensor clamp(const Tensor& x, double low, double high, CallSite at) {
  const OpCall call(at);
  detail::check_floating("clamp", x);
  if (!(low <= high)) {
    detail::fail<ValueError>(
        fmt::format("clamp: low must be at most high, got {} and {}; exchange them", low, high));
  }
  Tensor y = map_float("clamp", x, [low, high](auto v) {
    const auto lo = static_cast<decltype(v)>(low);
    const auto hi = static_cast<decltype(v)>(high);
    return v <= lo ? lo : v >= hi ? hi : v;
  });
  return record("clamp", y).input(x, [x, low, high](const Tensor& dy) {
    return piecewise("clamp gradient", dy, x, [low, high](auto g, auto v) {
      using T = decltype(v);
      return v <= static_cast<T>(low) || v >= static_cast<T>(high) ? T(0) : g;
    });
  });
}

Tensor abs(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("abs", x, [](auto v) { return std::abs(v); });
  return record("abs", y).turns_signs().input(x, [x](const Tensor& dy) {
    return piecewise("abs gradient", dy, x, [](auto g, auto v) {
      return v == 0 ? decltype(g)(0) : v < 0 ? -g : g;
    });
  });
}

Tensor sign(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = map_float("sign", x, [](auto v) {
    using T = decltype(v);
    return v > 0 ? T(1) : v < 0 ? T(-1) : v;
  });
  return record("sign", y).input(x, [](const Tensor& dy) { return zeros(dy.shape(), dy.dtype()); });
}

Tensor maximum(const Tensor& a, const Tensor& b, CallSite at) {
  const OpCall call(at);
  detail::check_same_dtype("maximum", a, b);
  Tensor y = detail::with_float("maximum", a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return detail::zip<T>("maximum", a, b, [](T u, T v) { return u > v || u != u ? u : v; });
  });
  return record("maximum", y)
      .input(a, [a, b](const Tensor& dy) { return larger_share(dy, a, b); })
      .input(b, [a, b](const Tensor& dy) { return larger_share(dy, b, a); });
}

namespace detail {
namespace {

using Unary = std::function<Tensor(const Tensor&)>;

// Samples away from every kink, and one on all of `kinks`.
OpEntry kinked(const char* name, const char* formula, const char* derivative, const Unary& op,
               const std::vector<double>& kinks) {
  return {name, "elementwise", formula, derivative, true, false, [op, kinks](DType t) {
            std::vector<OpSample> samples = apart_samples(t, op);
            samples.push_back(point_sample(t, op, kinks, "kink", true));
            return samples;
          }};
}

}  // namespace

OpEntry relu_entry() {
  return kinked("relu", "y = max(x, 0)", "dx = x > 0 ? dy : 0",
                [](const Tensor& x) { return relu(x); }, {0});
}
OpEntry abs_entry() {
  return kinked("abs", "y = |x|", "dx = x > 0 ? dy : x < 0 ? -dy : 0",
                [](const Tensor& x) { return abs(x); }, {0});
}
OpEntry clamp_entry() {
  return kinked("clamp", "y = min(max(x, low), high)", "dx = low < x < high ? dy : 0",
                [](const Tensor& x) { return clamp(x, -0.52, 0.65); }, {-0.52, 0.65});
}
OpEntry sign_entry() {
  return {"sign", "elementwise", "y = -1, 0 or 1", "dx = 0", true, false, [](DType t) {
            return apart_samples(t, [](const Tensor& x) { return sign(x); });
          }};
}

OpEntry maximum_entry() {
  return {"maximum",
          "arithmetic",
          "y = max(a, b)",
          "da = a > b ? dy : a == b ? dy / 2 : 0; a number b: dx = x > b ? dy : 0",
          true,
          false,
          [](DType t) {
            const auto both = [](const Tensor& a, const Tensor& b) { return maximum(a, b); };
            std::vector<OpSample> samples = binary_samples(t, both);
            for (OpSample& sample : samples) {
              sample.inputs = {apart_values(sample.inputs[0].shape(), t, 1),
                               shift(apart_values(sample.inputs[1].shape(), t, 2), 0.004)};
            }
            OpSample tie{"tie", {tensor({-1, 0, 2}, t), tensor({-1, 0, 2}, t)}};
            tie.call = [](const std::vector<Tensor>& x) {
              return std::vector<Tensor>{maximum(x[0], x[1])};
            };
            tie.kink = true;
            samples.push_back(std::move(tie));
            const auto with_number = [](const Tensor& x) { return maximum(x, 0.13); };
            for (OpSample& sample : apart_samples(t, with_number)) {
              sample.name += " with a number";
              samples.push_back(std::move(sample));
            }
            samples.push_back(point_sample(t, with_number, {0.13}, "kink with a number", true));
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

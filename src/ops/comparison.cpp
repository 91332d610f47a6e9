// Comparisons and logic: boolean results, no gradient.
//   equal: a == b, not_equal: a != b, less: a < b, less_equal: a <= b, greater, greater_equal
//   logical_not: !x, logical_and: a && b, logical_or: a || b, of booleans alone
// Two tensors share a dtype, any of the four. A number is rounded to a floating tensor's dtype, so
// that equal(full({}, 0.1, DType::f32), 0.1) holds; i64 and boolean tensors are compared with it as
// f64. NaN is unequal to everything, itself included, and neither less nor greater.
#include <functional>

#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

namespace tapehead {
namespace {

template <class F>
Tensor compared(const char* op, const Tensor& a, const Tensor& b, F f) {
  detail::check_same_dtype(op, a, b);
  return detail::with_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return detail::zip<T, unsigned char>(
        op, a, b, [f](T u, T v) { return static_cast<unsigned char>(f(u, v)); });
  });
}

template <class F>
Tensor compared(const char* op, const Tensor& a, double number, F f) {
  detail::check_defined(op, a);
  return detail::with_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Number = std::conditional_t<std::is_floating_point_v<T>, T, double>;
    const auto c = static_cast<Number>(number);
    return detail::map<T, unsigned char>(
        a, [c, f](T v) { return static_cast<unsigned char>(f(static_cast<Number>(v), c)); });
  });
}

template <class F>
Tensor logical(const char* op, const Tensor& a, const Tensor& b, F f) {
  detail::check_boolean(op, a, "the first input");
  detail::check_boolean(op, b, "the second input");
  return detail::zip<unsigned char>(op, a, b, f);
}

}  // namespace

Tensor equal(const Tensor& a, const Tensor& b) {
  return compared("equal", a, b, std::equal_to<>());
}
Tensor equal(const Tensor& a, double b) { return compared("equal", a, b, std::equal_to<>()); }

Tensor not_equal(const Tensor& a, const Tensor& b) {
  return compared("not_equal", a, b, std::not_equal_to<>());
}
Tensor not_equal(const Tensor& a, double b) {
  return compared("not_equal", a, b, std::not_equal_to<>());
}

Tensor less(const Tensor& a, const Tensor& b) { return compared("less", a, b, std::less<>()); }
Tensor less(const Tensor& a, double b) { return compared("less", a, b, std::less<>()); }

Tensor less_equal(const Tensor& a, const Tensor& b) {
  return compared("less_equal", a, b, std::less_equal<>());
}
Tensor less_equal(const Tensor& a, double b) {
  return compared("less_equal", a, b, std::less_equal<>());
}

Tensor greater(const Tensor& a, const Tensor& b) {
  return compared("greater", a, b, std::greater<>());
}
Tensor greater(const Tensor& a, double b) { return compared("greater", a, b, std::greater<>()); }

Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return compared("greater_equal", a, b, std::greater_equal<>());
}
Tensor greater_equal(const Tensor& a, double b) {
  return compared("greater_equal", a, b, std::greater_equal<>());
}

Tensor logical_not(const Tensor& x) {
  detail::check_boolean("logical_not", x, "x");
  return detail::map<unsigned char>(
      x, [](unsigned char v) -> unsigned char { return v == 0 ? 1 : 0; });
}
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return logical("logical_and", a, b, [](unsigned char u, unsigned char v) -> unsigned char {
    return (u != 0 && v != 0) ? 1 : 0;
  });
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return logical("logical_or", a, b, [](unsigned char u, unsigned char v) -> unsigned char {
    return (u != 0 || v != 0) ? 1 : 0;
  });
}

namespace detail {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);
using WithNumber = Tensor (*)(const Tensor&, double);

// Multiples of 1/2, so that equal pairs occur.
Tensor halves(const Tensor& x) {
  return scale(cast(cast(scale(x, 2), DType::i64), x.dtype()), 0.5);
}

OpEntry comparison(const char* name, const char* formula, Binary op, WithNumber with_number) {
  return {name, "comparison", formula, "none", false, false, [op, with_number](DType dtype) {
            std::vector<OpSample> samples = binary_samples(dtype, op);
            for (OpSample& sample : samples) {
              for (Tensor& input : sample.inputs) input = halves(input);
            }
            for (OpSample& sample : unary_samples(
                     dtype, [with_number](const Tensor& x) { return with_number(x, 0.5); })) {
              sample.inputs[0] = halves(sample.inputs[0]);
              sample.name += " with a number";
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

// Samples are floating: the booleans are made inside.
OpEntry logic(const char* name, const char* formula, Binary op) {
  return {name, "comparison", formula, "none", false, false, [op](DType dtype) {
            return binary_samples(dtype, [op](const Tensor& a, const Tensor& b) {
              return op(greater(a, 0), greater(b, 0));
            });
          }};
}

}  // namespace

OpEntry equal_entry() { return comparison("equal", "y = a == b", equal, equal); }
OpEntry not_equal_entry() { return comparison("not_equal", "y = a != b", not_equal, not_equal); }
OpEntry less_entry() { return comparison("less", "y = a < b", less, less); }
OpEntry less_equal_entry() {
  return comparison("less_equal", "y = a <= b", less_equal, less_equal);
}
OpEntry greater_entry() { return comparison("greater", "y = a > b", greater, greater); }
OpEntry greater_equal_entry() {
  return comparison("greater_equal", "y = a >= b", greater_equal, greater_equal);
}
OpEntry logical_not_entry() {
  return {"logical_not", "comparison", "y = !x", "none", false, false, [](DType dtype) {
            return unary_samples(dtype, [](const Tensor& x) { return logical_not(greater(x, 0)); });
          }};
}
OpEntry logical_and_entry() { return logic("logical_and", "y = a && b", logical_and); }
OpEntry logical_or_entry() { return logic("logical_or", "y = a || b", logical_or); }

}  // namespace detail
}  // namespace tapehead

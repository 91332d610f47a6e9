// Sum, difference, product and quotient, with broadcasting.
//   y = a + b:   da = dy          db = dy
//   y = a - b:   da = dy          db = -dy
//   y = a * b:   da = dy * b      db = dy * a
//   y = a / b:   da = dy / b      db = -dy * y / b
// and with a plain number c, which has no gradient: y = c x, dx = c dy; y = x + c, dx = dy.
// A stretched operand's gradient is summed back to its shape. A factor that is infinite or NaN
// does not reach the gradient where dy is 0 (chain, in elementwise.hpp).
#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

#include <tapehead/record.hpp>

namespace tapehead {

using detail::chain;
using detail::chain_over;
using detail::sum_to;

namespace {

template <class F>
Tensor arithmetic(const char* op, const Tensor& a, const Tensor& b, F f) {
  detail::check_same_dtype(op, a, b);
  return detail::with_float(op, a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return detail::zip<T>(op, a, b, f);
  });
}

template <class F>
Tensor with_number(const char* op, const Tensor& x, double number, F f) {
  detail::check_floating(op, x);
  return detail::with_float(op, x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T c = static_cast<T>(number);
    return detail::map<T>(x, [c, f](T v) { return f(v, c); });
  });
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b, CallSite at) {
  const OpCall call(at);
  Tensor y = arithmetic("add", a, b, [](auto u, auto v) { return u + v; });
  return record("add", y)
      .input(a, [s = a.shape()](const Tensor& dy) { return sum_to(dy, s); })
      .input(b, [s = b.shape()](const Tensor& dy) { return sum_to(dy, s); });
}

Tensor sub(const Tensor& a, const Tensor& b, CallSite at) {
  const OpCall call(at);
  Tensor y = arithmetic("sub", a, b, [](auto u, auto v) { return u - v; });
  return record("sub", y)
      .turns_signs()
      .input(a, [s = a.shape()](const Tensor& dy) { return sum_to(dy, s); })
      .input(b, [s = b.shape()](const Tensor& dy) { return sum_to(-dy, s); });
}

Tensor mul(const Tensor& a, const Tensor& b, CallSite at) {
  const OpCall call(at);
  Tensor y = arithmetic("mul", a, b, [](auto u, auto v) { return u * v; });
  return record("mul", y)
      .turns_signs()
      .input(a, [s = a.shape(), b](const Tensor& dy) { return sum_to(chain(dy, b), s); })
      .input(b, [s = b.shape(), a](const Tensor& dy) { return sum_to(chain(dy, a), s); });
}

Tensor div(const Tensor& a, const Tensor& b, CallSite at) {
  const OpCall call(at);
  Tensor y = arithmetic("div", a, b, [](auto u, auto v) { return u / v; });
  return record("div", y)
      .turns_signs()
      .input(a, [s = a.shape(), b](const Tensor& dy) { return sum_to(chain_over(dy, b), s); })
      .input(b, [s = b.shape(), b](const Tensor& quotient, const Tensor& dy) {
        return sum_to(-chain(chain_over(dy, b), quotient), s);
      });
}

Tensor neg(const Tensor& x, CallSite at) {
  const OpCall call(at);
  Tensor y = with_number("neg", x, 0, [](auto v, auto) { return -v; });
  return record("neg", y).turns_signs().input(x, [](const Tensor& dy) { return -dy; });
}

Tensor scale(const Tensor& x, double factor, CallSite at) {
  const OpCall call(at);
  Tensor y = with_number("scale", x, factor, [](auto v, auto c) { return c * v; });
  return record("scale", y).turns_signs().input(x, [factor](const Tensor& dy) {
    return scale(dy, factor);
  });
}

Tensor shift(const Tensor& x, double amount, CallSite at) {
  const OpCall call(at);
  Tensor y = with_number("shift", x, amount, [](auto v, auto c) { return v + c; });
  return record("shift", y).may_give(amount).input(x, [](const Tensor& dy) { return dy; });
}

Tensor operator+(const Operand& a, const Tensor& b) { return add(a.tensor(), b, a.at()); }
Tensor operator-(const Operand& a, const Tensor& b) { return sub(a.tensor(), b, a.at()); }
Tensor operator*(const Operand& a, const Tensor& b) { return mul(a.tensor(), b, a.at()); }
Tensor operator/(const Operand& a, const Tensor& b) { return div(a.tensor(), b, a.at()); }
Tensor operator-(const Operand& x) { return neg(x.tensor(), x.at()); }
Tensor operator+(const Operand& a, double b) { return shift(a.tensor(), b, a.at()); }
Tensor operator+(double a, const Operand& b) { return shift(b.tensor(), a, b.at()); }
Tensor operator-(const Operand& a, double b) { return shift(a.tensor(), -b, a.at()); }
Tensor operator-(double a, const Operand& b) { return shift(neg(b.tensor(), b.at()), a, b.at()); }
Tensor operator*(const Operand& a, double b) { return scale(a.tensor(), b, a.at()); }
Tensor operator*(double a, const Operand& b) { return scale(b.tensor(), a, b.at()); }
Tensor operator/(const Operand& a, double b) {
  return div(a.tensor(), full({}, b, a.tensor().dtype()), a.at());
}
Tensor operator/(double a, const Operand& b) {
  return div(full({}, a, b.tensor().dtype()), b.tensor(), b.at());
}

namespace detail {

OpEntry add_entry() {
  return {"add", "arithmetic", "y = a + b", "da = dy; db = dy", true, true, [](DType t) {
            return binary_samples(t, [](const Tensor& a, const Tensor& b) { return add(a, b); });
          }};
}
OpEntry sub_entry() {
  return {"sub", "arithmetic", "y = a - b", "da = dy; db = -dy", true, true, [](DType t) {
            return binary_samples(t, [](const Tensor& a, const Tensor& b) { return sub(a, b); });
          }};
}
OpEntry mul_entry() {
  return {"mul", "arithmetic", "y = a * b", "da = dy * b; db = dy * a", true, true, [](DType t) {
            return binary_samples(t, [](const Tensor& a, const Tensor& b) { return mul(a, b); });
          }};
}
OpEntry div_entry() {
  return {
      "div", "arithmetic", "y = a / b", "da = dy / b; db = -dy * y / b", true, true, [](DType t) {
        return binary_samples(
            t, [](const Tensor& a, const Tensor& b) { return div(a, b); }, -2, 2, 0.5, 2);
      }};
}
OpEntry neg_entry() {
  return {"neg", "arithmetic", "y = -x", "dx = -dy", true, true, [](DType t) {
            return unary_samples(t, [](const Tensor& x) { return neg(x); });
          }};
}
OpEntry scale_entry() {
  return {"scale", "arithmetic", "y = c x", "dx = c dy", true, true, [](DType t) {
            return unary_samples(t, [](const Tensor& x) { return scale(x, -1.7); });
          }};
}
OpEntry shift_entry() {
  return {"shift", "arithmetic", "y = x + c", "dx = dy", true, true, [](DType t) {
            return unary_samples(t, [](const Tensor& x) { return shift(x, 0.3); });
          }};
}

}  // namespace detail
}  // namespace tapehead

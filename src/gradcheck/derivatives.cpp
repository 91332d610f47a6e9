// Jacobians, Hessians and their products with vectors, by walking the tape back once or twice.
//   c J = backward(y, c)                       H v = backward(backward(y), v)
//   J v = d/dc <c J, v> = backward(backward(y, c), v) by c, for any c as c J is linear in c
#include <algorithm>

#include <fmt/format.h>

#include <tapehead/gradcheck.hpp>
#include <tapehead/ops.hpp>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"

namespace tapehead {

using detail::fail;

namespace {

void check_call(const char* op, const Tensor& x) {
  detail::check_floating(op, x);
  if (recording_tape() != nullptr) {
    fail<TapeError>(fmt::format(
        "{}: a tape is alive on this thread; this opens tapes of its own, so call it outside", op));
  }
}

Tensor called(const char* op, const UnaryFunction& f, const Tensor& x) {
  Tensor y = f(x);
  detail::check_floating(op, y, "the function's result");
  return y;
}

void check_scalar(const char* op, const Tensor& y) {
  if (y.size() == 1) return;
  fail<ShapeError>(fmt::format(
      "{}: the function's result must have one element, but its shape is {}; reduce it with sum or "
      "mean, or ask for its jacobian",
      op, to_string(y.shape())));
}

bool on(const Tape& tape, const Tensor& y) { return y.tape_id() == tape.id(); }

// A tensor of 0 but for one element.
Tensor unit(const Shape& shape, DType dtype, std::int64_t at) {
  Tensor e = zeros(shape, dtype);
  detail::with_float("unit", dtype, [&](auto zero) {
    using T = decltype(zero);
    detail::out<T>(e)[at] = T{1};
  });
  return e;
}

// Rows of [count, size] by a function of the row's number.
template <class F>
Tensor matrix_of_rows(std::int64_t count, std::int64_t size, DType dtype, F row) {
  Tensor m = zeros({count, size}, dtype);
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor r = row(i);
    detail::with_float("jacobian", dtype, [&](auto zero) {
      using T = decltype(zero);
      std::copy_n(detail::in<T>(r), size, detail::out<T>(m) + i * size);
    });
  }
  return m;
}

// y, and the gradient of sum(y * c), both on the tape; an undefined gradient where y is constant.
Tensor gradient_on(Tape& tape, const Tensor& y, const Tensor& c, const Tensor& x) {
  return on(tape, y) ? tape.backward(y, c)[x] : Tensor();
}

Tensor second(const UnaryFunction& f, const char* op, const Tensor& x, const Tensor& v) {
  TapeOptions options;
  options.differentiable = true;
  Tape tape(std::move(options));
  const Tensor at = tape.watch(x);
  const Tensor y = called(op, f, at);
  check_scalar(op, y);
  const Tensor g = gradient_on(tape, y, ones(y.shape(), y.dtype()), at);
  // The gradient of a linear function is a constant.
  if (!g.defined() || !on(tape, g)) return zeros(x.shape(), x.dtype());
  return detach(tape.backward(g, v)[at]);
}

}  // namespace

Tensor jacobian(const UnaryFunction& f, const Tensor& x) {
  check_call("jacobian", x);
  const Tensor plain = called("jacobian", f, detach(x));
  return matrix_of_rows(plain.size(), x.size(), x.dtype(), [&](std::int64_t i) {
    Tape tape;
    const Tensor at = tape.watch(detach(x));
    const Tensor y = f(at);
    const Tensor g = gradient_on(tape, y, unit(y.shape(), y.dtype(), i), at);
    return g.defined() ? g : zeros(x.shape(), x.dtype());
  });
}

Tensor hessian(const UnaryFunction& f, const Tensor& x) {
  check_call("hessian", x);
  return matrix_of_rows(x.size(), x.size(), x.dtype(), [&](std::int64_t i) {
    return second(f, "hessian", detach(x), unit(x.shape(), x.dtype(), i));
  });
}

Tensor hvp(const UnaryFunction& f, const Tensor& x, const Tensor& v) {
  check_call("hvp", x);
  detail::check_same_dtype("hvp", x, v);
  detail::check_same_shape("hvp", x, v, "x", "v");
  return second(f, "hvp", detach(x), detach(v));
}

Tensor jvp(const UnaryFunction& f, const Tensor& x, const Tensor& v) {
  check_call("jvp", x);
  detail::check_same_dtype("jvp", x, v);
  detail::check_same_shape("jvp", x, v, "x", "v");
  TapeOptions options;
  options.differentiable = true;
  Tape tape(std::move(options));
  const Tensor at = tape.watch(detach(x));
  const Tensor y = called("jvp", f, at);
  const Tensor c = tape.watch(zeros(y.shape(), y.dtype()));
  const Tensor g = gradient_on(tape, y, c, at);
  if (!g.defined() || !on(tape, g)) return zeros(y.shape(), y.dtype());
  return detach(tape.backward(g, detach(v))[c]);
}

}  // namespace tapehead

// Short forms of "record f, walk back, give the gradient of x".
#pragma once

#include <functional>

#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

// plain<relu> is relu without the place of the call, for where a function is wanted.
template <tapehead::Tensor (*kOp)(const tapehead::Tensor&, tapehead::CallSite)>
tapehead::Tensor plain(const tapehead::Tensor& x) {
  return kOp(x, {});
}
template <tapehead::Tensor (*kOp)(const tapehead::Tensor&, const tapehead::Tensor&,
                                  tapehead::CallSite)>
tapehead::Tensor plain(const tapehead::Tensor& a, const tapehead::Tensor& b) {
  return kOp(a, b, {});
}

using TensorFunction = std::function<tapehead::Tensor(const tapehead::Tensor&)>;

// The gradient of sum(cotangent * f(x)).
inline tapehead::Tensor gradient_of(const TensorFunction& f, const tapehead::Tensor& x,
                                    const tapehead::Tensor& cotangent) {
  tapehead::Tape tape;
  const tapehead::Tensor input = tape.watch(x);
  return tape.backward(f(input), cotangent)[input];
}

// The gradient of sum(f(x)).
inline tapehead::Tensor gradient_of(const TensorFunction& f, const tapehead::Tensor& x) {
  tapehead::Tape tape;
  const tapehead::Tensor input = tape.watch(x);
  const tapehead::Tensor y = f(input);
  return tape.backward(y, tapehead::ones(y.shape(), y.dtype()))[input];
}

struct Derivatives {
  tapehead::Tensor first;
  tapehead::Tensor second;  // of sum(direction * first)
};

// Both from a differentiable tape: `first` is the gradient of sum(f(x)).
inline Derivatives derivatives_of(const TensorFunction& f, const tapehead::Tensor& x,
                                  const tapehead::Tensor& direction) {
  tapehead::Tape tape({.differentiable = true});
  const tapehead::Tensor input = tape.watch(x);
  const tapehead::Tensor y = f(input);
  const tapehead::Tensor first = tape.backward(y, tapehead::ones(y.shape(), y.dtype()))[input];
  return {first, tape.backward(first, direction)[input]};
}

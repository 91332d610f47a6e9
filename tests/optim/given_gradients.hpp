// Gradients with chosen numbers.
#pragma once

#include <utility>
#include <vector>

#include <tapehead/ops.hpp>
#include <tapehead/optim.hpp>

// backward of sum_k sum(w_k * g_k), whose gradient by w_k is g_k itself.
inline tapehead::Gradients given(
    const std::vector<std::pair<tapehead::Param, tapehead::Tensor>>& wanted) {
  using namespace tapehead;
  Tape tape;
  Tensor loss;
  for (const auto& [weight, gradient] : wanted) {
    const Tensor term = sum(Tensor(weight) * gradient);
    loss = loss.defined() ? loss + term : term;
  }
  return tape.backward(loss);
}

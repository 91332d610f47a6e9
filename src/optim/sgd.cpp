// Stochastic gradient descent with momentum.
//   v <- momentum v + g;   w <- w - lr decay w - lr v
// Polyak 1964. As in PyTorch, the gradient is not scaled by 1 - momentum. Without momentum v is g
// and is not kept.
#include <limits>

#include "optim/step.hpp"

namespace tapehead {

Sgd::Sgd(Params& params, const SgdOptions& options) : params_(&params), options_(options) {
  const double infinity = std::numeric_limits<double>::infinity();
  detail::check_option("sgd", "lr", options.lr, 0, infinity);
  detail::check_option("sgd", "momentum", options.momentum, 0, 1);
  detail::check_option("sgd", "weight_decay", options.weight_decay, 0, infinity);
  const Tensor sealed = params.flat();  // from here on the layout is fixed
  if (options.momentum > 0) velocity_ = zeros(sealed.shape(), sealed.dtype());
}

void Sgd::step(const Gradients& gradients, double lr) {
  const detail::StepPlan plan =
      detail::plan_step("sgd", *params_, gradients, lr, std::numeric_limits<double>::max());
  detail::with_float("sgd", params_->dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T rate = static_cast<T>(lr);
    const T momentum = static_cast<T>(options_.momentum);
    const T kept = static_cast<T>(1 - lr * options_.weight_decay);
    T* velocity = velocity_.defined() ? detail::writable<T>(velocity_) : nullptr;
    detail::move_parameters<T>(
        "sgd", *params_, plan,
        [=](T* w, const T* g, std::int64_t begin, std::int64_t end, Decay decay) {
          const T keep = decay == Decay::yes ? kept : T(1);
          if (velocity == nullptr) {
            for (std::int64_t i = begin; i < end; ++i) w[i] = keep * w[i] - rate * g[i];
          } else {
            for (std::int64_t i = begin; i < end; ++i) {
              velocity[i] = momentum * velocity[i] + g[i];
              w[i] = keep * w[i] - rate * velocity[i];
            }
          }
        });
  });
  ++steps_;
}

OptimiserState Sgd::state() const {
  OptimiserState state{"sgd", steps_, {}};
  if (velocity_.defined()) state.tensors.emplace_back("velocity", velocity_);
  return state;
}

void Sgd::restore(const OptimiserState& state) {
  if (velocity_.defined()) {
    detail::check_state(state, "sgd", *params_, {"velocity"});
    velocity_ = state.tensors[0].second;
  } else {
    detail::check_state(state, "sgd", *params_, {});
  }
  steps_ = state.steps;
}

}  // namespace tapehead

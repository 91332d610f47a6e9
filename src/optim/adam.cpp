// Adam and AdamW.
//   m <- b1 m + (1-b1) g;   v <- b2 v + (1-b2) g^2
//   w <- (1 - lr decay) w - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps),   t = 1, 2, ...
// Kingma & Ba 2015, without their shortcut that scales eps by the correction; decoupled decay,
// multiplied by lr: Loshchilov & Hutter 2019. Both as in PyTorch.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/message.hpp"
#include "optim/step.hpp"

namespace tapehead {

Adam::Adam(Params& params, const AdamOptions& options) : params_(&params), options_(options) {
  const double infinity = std::numeric_limits<double>::infinity();
  detail::check_option("adam", "lr", options.lr, 0, infinity);
  detail::check_option("adam", "beta1", options.beta1, 0, 1);
  detail::check_option("adam", "beta2", options.beta2, 0, 1);
  detail::check_option("adam", "weight_decay", options.weight_decay, 0, infinity);
  const double smallest = params.dtype() == DType::f32
                              ? static_cast<double>(std::numeric_limits<float>::denorm_min())
                              : std::numeric_limits<double>::denorm_min();
  if (!(options.eps >= smallest && std::isfinite(options.eps))) {
    detail::fail<ValueError>(fmt::format("adam: eps must be finite and > 0 in {}, got {}",
                                         name_of(params.dtype()), options.eps));
  }
  const Tensor sealed = params.flat();  // from here on the layout is fixed
  moment1_ = zeros(sealed.shape(), sealed.dtype());
  moment2_ = zeros(sealed.shape(), sealed.dtype());
}

void Adam::step(const Gradients& gradients, double lr) {
  const double largest = params_->dtype() == DType::f32
                             ? std::sqrt(static_cast<double>(std::numeric_limits<float>::max()))
                             : std::sqrt(std::numeric_limits<double>::max());
  const detail::StepPlan plan = detail::plan_step("adam", *params_, gradients, lr, largest);
  const double t = static_cast<double>(steps_ + 1);
  detail::with_float("adam", params_->dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T b1 = static_cast<T>(options_.beta1);
    const T b2 = static_cast<T>(options_.beta2);
    const T c1 = static_cast<T>(1 - options_.beta1);
    const T c2 = static_cast<T>(1 - options_.beta2);
    const T rate = static_cast<T>(lr / (1 - std::pow(options_.beta1, t)));
    const T root = static_cast<T>(1 / std::sqrt(1 - std::pow(options_.beta2, t)));
    const T eps = static_cast<T>(options_.eps);
    const T kept = static_cast<T>(1 - lr * options_.weight_decay);
    const T exempt = options_.decay_all ? kept : T(1);
    T* m = detail::writable<T>(moment1_);
    T* v = detail::writable<T>(moment2_);
    detail::move_parameters<T>(
        "adam", *params_, plan,
        [=](T* w, const T* g, std::int64_t begin, std::int64_t end, Decay decay) {
          const T keep = decay == Decay::yes ? kept : exempt;
          for (std::int64_t i = begin; i < end; ++i) {
            m[i] = b1 * m[i] + c1 * g[i];
            v[i] = b2 * v[i] + c2 * (g[i] * g[i]);
            w[i] = keep * w[i] - rate * m[i] / (std::sqrt(v[i]) * root + eps);
          }
        });
  });
  ++steps_;
}

OptimiserState Adam::state() const {
  OptimiserState state{"adam", steps_, {}};
  state.tensors.emplace_back("moment1", moment1_);
  state.tensors.emplace_back("moment2", moment2_);
  return state;
}

void Adam::restore(const OptimiserState& state) {
  detail::check_state(state, "adam", *params_, {"moment1", "moment2"});
  moment1_ = state.tensors[0].second;
  moment2_ = state.tensors[1].second;
  steps_ = state.steps;
}

AdamW::AdamW(Params& params, const AdamWOptions& options)
    : Adam(params, {.lr = options.lr,
                    .beta1 = options.beta1,
                    .beta2 = options.beta2,
                    .eps = options.eps,
                    .weight_decay = options.weight_decay,
                    .decay_all = options.decay_all}) {}

}  // namespace tapehead

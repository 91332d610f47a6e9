// y = down(dropout(activation(up(x)))), the same at every position;
// swiglu: y = down(dropout(silu(gate(x)) * up(x))).  Shazeer 2020.
#include <fmt/format.h>

#include "core/message.hpp"
#include "nn/options.hpp"

namespace tapehead {
namespace {

LinearOptions inner(const FeedForwardOptions& options, const Init& init) {
  if (!init) return {.bias = options.bias};
  return {.bias = options.bias, .weight_init = init, .bias_init = init::constant(0)};
}

}  // namespace

Tensor activate(const Tensor& x, Activation activation, CallSite at) {
  switch (activation) {
    case Activation::relu: return relu(x, at);
    case Activation::gelu: return gelu(x, at);
    case Activation::gelu_tanh: return gelu_tanh(x, at);
    case Activation::silu: return silu(x, at);
    case Activation::none:
    case Activation::swiglu: break;
  }
  detail::fail<ValueError>(fmt::format(
      "activate: {} is not a function of one number; choose relu, gelu, gelu_tanh or silu",
      activation == Activation::none ? "none" : "swiglu"));
}

FeedForward::FeedForward(const Scope& scope, const FeedForwardOptions& options)
    : gate(detail::checked(scope, options).activation == Activation::swiglu
               ? std::optional<Linear>(std::in_place, scope / "gate", options.width, options.hidden,
                                       inner(options, options.init))
               : std::nullopt),
      up(scope / "up", options.width, options.hidden, inner(options, options.init)),
      down(scope / "down", options.hidden, options.width,
           inner(options, options.down_init ? options.down_init : options.init)),
      activation(options.activation),
      dropout(options.dropout),
      path(scope.path()) {}

Tensor FeedForward::operator()(const Tensor& x, Rng* rng, CallSite at) const {
  const InModule here(path, at);
  const Tensor hidden = gate ? silu((*gate)(x)) * up(x) : activate(up(x), activation);
  return down(dropout(hidden, rng));
}

}  // namespace tapehead

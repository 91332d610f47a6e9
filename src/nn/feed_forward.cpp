// y = down(dropout(activation(up(x)))), the same at every position.
#include "nn/options.hpp"

namespace tapehead {

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::relu: return relu(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::silu: break;
  }
  return silu(x);
}

FeedForward::FeedForward(const Scope& scope, const FeedForwardOptions& options)
    : up(scope / "up", detail::checked(scope, options).width, options.hidden),
      down(scope / "down", options.hidden, options.width),
      activation(options.activation),
      dropout(options.dropout),
      path(scope.path()) {}

Tensor FeedForward::operator()(const Tensor& x, Rng* rng) const {
  const InModule here(path);
  return down(dropout(activate(up(x), activation), rng));
}

}  // namespace tapehead

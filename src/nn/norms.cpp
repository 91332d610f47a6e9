// LayerNorm: gain (x - mean) / sqrt(variance + eps) + bias.   RMSNorm: gain x / sqrt(mean x^2 +
// eps).
#include "nn/options.hpp"

namespace tapehead {
namespace {

Shape row(const Scope& scope, const char* module, std::int64_t width, double eps) {
  detail::norm_eps(scope, module, eps);
  return {detail::positive(scope, module, "width", width)};
}

}  // namespace

LayerNorm::LayerNorm(const Scope& scope, std::int64_t width, double epsilon)
    : gain(scope.param("gain", row(scope, "layer_norm", width, epsilon), init::constant(1),
                       Decay::no)),
      bias(scope.param("bias", {width}, init::constant(0), Decay::no)),
      eps(epsilon),
      path(scope.path()) {}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const InModule here(path);
  return layer_norm(x, gain, bias, eps);
}

RMSNorm::RMSNorm(const Scope& scope, std::int64_t width, double epsilon)
    : gain(scope.param("gain", row(scope, "rms_norm", width, epsilon), init::constant(1),
                       Decay::no)),
      eps(epsilon),
      path(scope.path()) {}

Tensor RMSNorm::operator()(const Tensor& x) const {
  const InModule here(path);
  return rms_norm(x, gain, eps);
}

}  // namespace tapehead

// LayerNorm: gain (x - mean) / sqrt(variance + eps) + bias.
// RMSNorm: gain x / sqrt(mean x^2 + eps).
// Norm is either of them or nothing, chosen by its options.
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

Tensor LayerNorm::operator()(const Tensor& x, CallSite at) const {
  const InModule here(path, at);
  return layer_norm(x, gain, bias, eps);
}

RMSNorm::RMSNorm(const Scope& scope, std::int64_t width, double epsilon)
    : gain(scope.param("gain", row(scope, "rms_norm", width, epsilon), init::constant(1),
                       Decay::no)),
      eps(epsilon),
      path(scope.path()) {}

Tensor RMSNorm::operator()(const Tensor& x, CallSite at) const {
  const InModule here(path, at);
  return rms_norm(x, gain, eps);
}

Norm::Norm(const Scope& scope, std::int64_t width, const NormOptions& given)
    : options(given), path(scope.path()) {
  if (options.kind == NormKind::none) return;
  const Shape shape = row(scope, "norm", width, options.eps);
  if (options.gain) {
    gain = scope.param("gain", shape, init::constant(1), Decay::no);
  } else {
    ones = tapehead::ones(shape, scope.dtype());
  }
  if (options.kind != NormKind::layer) return;
  if (options.bias) {
    bias = scope.param("bias", shape, init::constant(0), Decay::no);
  } else {
    zeros = tapehead::zeros(shape, scope.dtype());
  }
}

Tensor Norm::operator()(const Tensor& x, CallSite at) const {
  if (options.kind == NormKind::none) return x;
  const InModule here(path, at);
  const Tensor scale = gain.defined() ? Tensor(gain) : ones;
  if (options.kind == NormKind::rms) return rms_norm(x, scale, options.eps);
  return layer_norm(x, scale, bias.defined() ? Tensor(bias) : zeros, options.eps);
}

}  // namespace tapehead

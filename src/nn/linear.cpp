// y = x W + b.
#include "nn/options.hpp"

namespace tapehead {
namespace {

Shape matrix(const Scope& scope, std::int64_t in, std::int64_t out) {
  return {detail::positive(scope, "linear", "in", in),
          detail::positive(scope, "linear", "out", out)};
}

}  // namespace

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, const LinearOptions& options)
    : weight(scope.param("weight", matrix(scope, in, out), options.weight_init)),
      bias(options.bias
               ? scope.param("bias", {out},
                             options.bias_init ? options.bias_init : init::fan_in_uniform(in),
                             Decay::no)
               : Param()),
      path(scope.path()) {}

Tensor Linear::operator()(const Tensor& x, CallSite at) const {
  const InModule here(path, at);
  return bias.defined() ? linear(x, weight, bias) : linear(x, weight);
}

}  // namespace tapehead

// Dropout: x_i / (1 - p), or 0 with probability p. Srivastava et al. 2014, scaled in training so
// that evaluation is the identity. p = 1 gives zeros.
#include <fmt/format.h>

#include <tapehead/nn.hpp>

#include "core/message.hpp"

namespace tapehead {

Dropout::Dropout(double probability) : p(probability) {
  if (!(p >= 0 && p <= 1)) {
    detail::fail<ValueError>(
        fmt::format("dropout: p = {} is not a probability; it must lie in 0..1", p));
  }
}

Tensor Dropout::operator()(const Tensor& x, Rng* rng, CallSite at) const {
  return rng == nullptr || p == 0 ? x : dropout(x, p, *rng, at);
}

}  // namespace tapehead

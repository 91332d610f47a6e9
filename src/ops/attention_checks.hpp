// What a call of attention must satisfy before anything is computed.
#pragma once

#include <tapehead/ops.hpp>

#include "ops/attention_call.hpp"

namespace tapehead::detail {

// The sizes of the call; an Error that names the op, the shapes and what to do when they do not
// fit.
[[nodiscard]] AttentionSizes checked_sizes(const char* op, const Tensor& q, const Tensor& k,
                                           const Tensor& v, const Mask& mask,
                                           const AttentionOptions& options);

}  // namespace tapehead::detail

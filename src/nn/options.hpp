// Checks of module options. Each names the scope of the module being built, and returns what it was
// given, so that it can stand inside a member initialiser.
#pragma once

#include <cstdint>

#include <tapehead/nn.hpp>

namespace tapehead::detail {

// "linear: in must be positive, got 0"
std::int64_t positive(const Scope& scope, const char* module, const char* name, std::int64_t value);
// ValueError unless 0 <= p <= 1.
double probability(const Scope& scope, const char* module, double p);
// ValueError unless eps is finite and > 0: a constant row would divide by zero.
double norm_eps(const Scope& scope, const char* module, double eps);

const FeedForwardOptions& checked(const Scope& scope, const FeedForwardOptions& options);
const MultiHeadOptions& checked(const Scope& scope, const MultiHeadOptions& options);
const HeadwiseOptions& checked(const Scope& scope, const HeadwiseOptions& options);
const EncoderOptions& checked(const Scope& scope, const EncoderOptions& options);
const EncoderModelOptions& checked(const Scope& scope, const EncoderModelOptions& options);

// ShapeError unless x is [batch B, time T, width D] with the given width.
void check_sequence(const char* module, const char* name, const Tensor& x, std::int64_t width);
// The same for all three, which also need one batch size, and keys and values one length.
void check_attention_inputs(const char* module, const Tensor& query, const Tensor& key,
                            const Tensor& value, std::int64_t width);

// Xavier-uniform weights, zero bias: the start of every attention projection.
[[nodiscard]] LinearOptions projection(bool bias);

}  // namespace tapehead::detail

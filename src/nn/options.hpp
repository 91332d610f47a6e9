// Checks of module options. Each names the scope of the module being built, and returns what it was
// given, so that it can stand inside a member initialiser.
#pragma once

#include <cstdint>
#include <span>

#include <tapehead/models.hpp>

namespace tapehead::detail {

// "linear: in must be positive, got 0"
std::int64_t positive(const Scope& scope, const char* module, const char* name, std::int64_t value);
// ValueError unless 0 <= p <= 1.
double probability(const Scope& scope, const char* module, double p);
// ValueError unless eps is finite and > 0: a constant row would divide by zero.
double norm_eps(const Scope& scope, const char* module, double eps);

const FeedForwardOptions& checked(const Scope& scope, const FeedForwardOptions& options);
const MultiHeadOptions& checked(const Scope& scope, const MultiHeadOptions& options);
void check_variant(const Scope& scope, const char* module, std::int64_t width, std::int64_t heads,
                   const AttentionVariant& variant);
const HeadwiseOptions& checked(const Scope& scope, const HeadwiseOptions& options);
const TransformerOptions& checked(const Scope& scope, const TransformerOptions& options);
const EncoderModelOptions& checked(const Scope& scope, const EncoderModelOptions& options);

// ShapeError unless x is [batch B, time T, width D] with the given width.
void check_sequence(const char* module, const char* name, const Tensor& x, std::int64_t width);
// The same for all three, which also need one batch size, and keys and values one length. `widths`
// are those of query, key and value.
void check_attention_inputs(const char* module, const Tensor& query, const Tensor& key,
                            const Tensor& value, std::span<const std::int64_t, 3> widths);

// lengths[b] real ids in row b of ids [B,T], the rest is padding; no mask when all T are real.
[[nodiscard]] Mask padding_mask(const Tensor& ids, const std::vector<std::int64_t>& lengths);

// Xavier-uniform weights, zero bias: the start of every attention projection.
[[nodiscard]] LinearOptions projection(bool bias);
[[nodiscard]] LinearOptions input_projection(const MultiHeadOptions& options);   // W_Q, W_K, W_V
[[nodiscard]] LinearOptions output_projection(const MultiHeadOptions& options);  // W_O

// The model's positions as the input's and as the attention's; ValueError where `variant` has
// others.
[[nodiscard]] Positions input_positions(Positions positions);
[[nodiscard]] TransformerOptions with_positions(const Scope& scope,
                                                const TransformerOptions& options,
                                                Positions positions);

// What a model's options mean for its parts; no initialiser is that of the part itself.
[[nodiscard]] NormOptions norm_options(const TransformerOptions& options);
[[nodiscard]] Init weight_init(Initialiser init);
[[nodiscard]] Init residual_init(Initialiser init, std::int64_t layers);
[[nodiscard]] LinearOptions output_options(Initialiser init, bool bias);

// x [B,T,D] times the table [V,D] of the input, transposed: [B,T,V].  Press & Wolf 2017.
[[nodiscard]] Tensor tied_output(const Tensor& x, const Tensor& table);

}  // namespace tapehead::detail

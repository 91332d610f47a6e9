#include "nn/options.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead::detail {
namespace {

void check_heads(const Scope& scope, const char* module, std::int64_t width, std::int64_t heads) {
  positive(scope, module, "width", width);
  positive(scope, module, "heads", heads);
  if (width % heads == 0) return;
  const InModule here(scope.path());
  fail<ValueError>(
      fmt::format("{}: a width of {} does not divide into {} heads: {} mod {} = {}; choose a width "
                  "that is a multiple of the heads",
                  module, width, heads, width, heads, width % heads));
}

}  // namespace

std::int64_t positive(const Scope& scope, const char* module, const char* name,
                      std::int64_t value) {
  if (value > 0) return value;
  const InModule here(scope.path());
  fail<ValueError>(fmt::format("{}: {} must be positive, got {}", module, name, value));
}

double probability(const Scope& scope, const char* module, double p) {
  if (p >= 0 && p <= 1) return p;
  const InModule here(scope.path());
  fail<ValueError>(
      fmt::format("{}: a dropout of {} is not a probability; it must lie in 0..1", module, p));
}

double norm_eps(const Scope& scope, const char* module, double eps) {
  if (eps > 0 && std::isfinite(eps)) return eps;
  const InModule here(scope.path());
  fail<ValueError>(fmt::format("{}: eps must be finite and > 0, got {}", module, eps));
}

const FeedForwardOptions& checked(const Scope& scope, const FeedForwardOptions& options) {
  positive(scope, "feed_forward", "width", options.width);
  positive(scope, "feed_forward", "hidden", options.hidden);
  if (options.activation == Activation::none) {
    const InModule here(scope.path());
    fail<ValueError>("feed_forward: needs an activation; for attention alone, leave it out");
  }
  probability(scope, "feed_forward", options.dropout);
  return options;
}

const MultiHeadOptions& checked(const Scope& scope, const MultiHeadOptions& options) {
  check_heads(scope, "multi_head_attention", options.width, options.heads);
  probability(scope, "multi_head_attention", options.dropout);
  return options;
}

const HeadwiseOptions& checked(const Scope& scope, const HeadwiseOptions& options) {
  check_heads(scope, "headwise_attention", options.width, options.heads);
  return options;
}

const TransformerOptions& checked(const Scope& scope, const TransformerOptions& options) {
  positive(scope, "transformer", "layers", options.layers);
  constexpr std::int64_t kMostLayers = 10'000;
  if (options.layers > kMostLayers) {
    fail<ValueError>(
        fmt::format("transformer: layers must be 1..{}, got {}", kMostLayers, options.layers));
  }
  check_heads(scope, "transformer", options.width, options.heads);
  if (options.activation != Activation::none) {
    positive(scope, "transformer", "hidden", options.hidden);
  }
  if (options.norm != NormKind::none) norm_eps(scope, "transformer", options.norm_eps);
  const DropoutOptions& dropout = options.dropout;
  for (const double p : {dropout.embedding, dropout.attention, dropout.hidden, dropout.branch}) {
    probability(scope, "transformer", p);
  }
  return options;
}

const EncoderModelOptions& checked(const Scope& scope, const EncoderModelOptions& options) {
  positive(scope, "encoder_model", "symbols", options.symbols);
  positive(scope, "encoder_model", "classes", options.classes);
  positive(scope, "encoder_model", "max_length", options.max_length);
  checked(scope, options.encoder);
  return options;
}

void check_sequence(const char* module, const char* name, const Tensor& x, std::int64_t width) {
  check_defined(module, x, name);
  if (x.rank() == 3 && x.dim(2) == width) return;
  fail<ShapeError>(fmt::format(
      "{}: {} is {}, but must be [batch, time, width {}]", module, name,
      x.rank() == 3 ? named(x.shape(), {"batch", "time", "width"}) : to_string(x.shape()), width));
}

void check_attention_inputs(const char* module, const Tensor& query, const Tensor& key,
                            const Tensor& value, std::int64_t width) {
  check_sequence(module, "query", query, width);
  check_sequence(module, "key", key, width);
  check_sequence(module, "value", value, width);
  const std::int64_t batch = query.dim(0);
  if (key.dim(0) != batch || value.dim(0) != batch) {
    fail<ShapeError>(fmt::format(
        "{}: batch sizes differ: query {}, key {}, value {}; the batch comes first in all three",
        module, batch, key.dim(0), value.dim(0)));
  }
  if (key.dim(1) != value.dim(1)) {
    fail<ShapeError>(fmt::format("{}: key has length {} and value {}; every key needs its value",
                                 module, key.dim(1), value.dim(1)));
  }
}

Mask padding_mask(const Tensor& ids, const std::vector<std::int64_t>& lengths) {
  return lengths.empty() ? Mask() : Mask::lengths(lengths, ids.dim(1));
}

LinearOptions projection(bool bias) {
  return {.bias = bias, .weight_init = init::xavier_uniform(), .bias_init = init::constant(0)};
}

namespace {

LinearOptions projection_of(const MultiHeadOptions& options, bool bias) {
  LinearOptions linear = projection(bias);
  if (options.init) linear.weight_init = options.init;
  if (options.bias_init) linear.bias_init = options.bias_init;
  return linear;
}

}  // namespace

LinearOptions input_projection(const MultiHeadOptions& options) {
  return projection_of(options, options.bias && options.qkv_bias);
}

LinearOptions output_projection(const MultiHeadOptions& options) {
  LinearOptions linear = projection_of(options, options.bias);
  if (options.output_init) linear.weight_init = options.output_init;
  return linear;
}

}  // namespace tapehead::detail

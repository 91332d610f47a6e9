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
  constexpr const char* kName = "multi_head_attention";
  probability(scope, kName, options.dropout);
  check_variant(scope, kName, options.width, options.heads, options.variant);
  if (options.key_width < 0 || options.value_width < 0) {
    const InModule here(scope.path());
    fail<ValueError>(
        fmt::format("{}: key_width {} and value_width {} must be at least 0 (0: as "
                    "width)",
                    kName, options.key_width, options.value_width));
  }
  return options;
}

void check_variant(const Scope& scope, const char* module, std::int64_t width, std::int64_t heads,
                   const AttentionVariant& variant) {
  const AttentionVariant& v = variant;
  if (v.head_width == 0) {
    check_heads(scope, module, width, heads);
  } else {
    positive(scope, module, "width", width);
    positive(scope, module, "heads", heads);
  }
  const InModule here(scope.path());
  const auto refuse = [&](bool bad, const std::string& what) {
    if (bad) fail<ValueError>(fmt::format("{}: {}", module, what));
  };
  refuse(v.kv_heads < 0 || v.head_width < 0 || v.value_width < 0 || v.window < 0,
         "kv_heads, head_width, value_width and window must be at least 0");
  refuse(
      v.kv_heads > 0 && heads % v.kv_heads != 0,
      fmt::format("{} heads cannot share {} heads of keys and values: {} mod {} = {}; choose a "
                  "kv_heads that divides the heads",
                  heads, v.kv_heads, heads, v.kv_heads, v.kv_heads > 0 ? heads % v.kv_heads : 0));
  refuse(v.positions == Positions::sinusoidal || v.positions == Positions::learned,
         "sinusoidal and learned positions are added to a model's input; the attention itself has "
         "none, rope, alibi, t5 or relative");
  if (v.positions == Positions::rope) {
    const std::int64_t head_width = v.head_width == 0 ? width / heads : v.head_width;
    const std::int64_t dims = v.rope_dims.value_or(head_width);
    refuse(dims < 0 || dims > head_width || dims % 2 != 0,
           fmt::format("columns of a head turn in pairs: {} of its {} cannot; give rope_dims an "
                       "even number in 0..{}",
                       dims, head_width, head_width));
    refuse(!(v.rope_base > 0 && std::isfinite(v.rope_base)),
           fmt::format("rope_base must be finite and > 0, got {}", v.rope_base));
  }
  if (v.positions == Positions::t5) {
    const std::int64_t one_way = v.t5_both_ways ? v.t5_buckets / 2 : v.t5_buckets;
    refuse(one_way < 2 || (v.t5_both_ways && v.t5_buckets % 2 != 0),
           fmt::format("{} buckets are too few or odd: there must be 2 for each direction",
                       v.t5_buckets));
    refuse(v.max_distance <= one_way / 2,
           fmt::format("max_distance {} must be above {}, up to which each distance has a bucket "
                       "of its own",
                       v.max_distance, one_way / 2));
  }
  refuse(v.positions == Positions::relative && v.max_distance < 0,
         fmt::format("max_distance must be at least 0, got {}", v.max_distance));
  if (v.qk_norm != NormKind::none) norm_eps(scope, module, v.qk_norm_eps);
  refuse(v.scale && !std::isfinite(*v.scale), "scale must be finite");
  refuse(!(v.soft_cap >= 0 && std::isfinite(v.soft_cap)),
         fmt::format("soft_cap must be finite and at least 0 (no cap), got {}", v.soft_cap));
  refuse(v.log_length != 0 && !(v.log_length > 1 && std::isfinite(v.log_length)),
         fmt::format("log_length is a length above 1 (or 0, off), got {}", v.log_length));
}

Positions input_positions(Positions positions) {
  const bool added = positions == Positions::sinusoidal || positions == Positions::learned;
  return added ? positions : Positions::none;
}

TransformerOptions with_positions(const Scope& scope, const TransformerOptions& options,
                                  Positions positions) {
  TransformerOptions result = options;
  if (input_positions(positions) == positions) return result;
  if (result.variant.positions != Positions::none && result.variant.positions != positions) {
    const InModule here(scope.path());
    fail<ValueError>(
        "transformer: the model's positions and those of its attention's variant differ; say them "
        "once");
  }
  result.variant.positions = positions;
  return result;
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
  check_variant(scope, "transformer", options.width, options.heads, options.variant);
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
                            const Tensor& value, std::span<const std::int64_t, 3> widths) {
  check_sequence(module, "query", query, widths[0]);
  check_sequence(module, "key", key, widths[1]);
  check_sequence(module, "value", value, widths[2]);
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

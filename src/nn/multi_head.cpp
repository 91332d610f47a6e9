// The standard multi-head attention:
//   head_h = softmax(Q_h K_h^T / sqrt(d)) V_h,   Q = query W_Q + b_Q, K and V alike,   d = D / H
//   y = [head_1 .. head_H] W_O + b_O
// A query that may see nothing gets zeros from every head, hence b_O. Vaswani et al. 2017.
// The variants change Q and K before the product, add to the scores, or choose what is visible; the
// kernels know nothing of them.
#include <fmt/format.h>

#include "core/message.hpp"
#include "nn/options.hpp"
#include "nn/score_positions.hpp"
#include "nn/unseen_keys.hpp"

namespace tapehead {
namespace {

constexpr const char* kName = "multi_head_attention";

// The heads of one call.
struct Heads {
  Tensor q;                // [B,H,T,d]
  Tensor k, v;             // [B,G,S,d] [B,G,S,e], of all positions so far
  std::int64_t first = 0;  // position of query 0
};

Mask with_window(const MultiHeadAttention& module, const Mask& mask, const Heads& at,
                 std::int64_t keys) {
  const std::int64_t window = module.variant.window;
  if (window == 0) return mask;
  // Query t stands at key t + first; what was cached stands before the queries.
  const Align align = at.first == 0 ? Align::first : Align::last;
  return mask & Mask::window(window - 1, window - 1, at.q.dim(2), keys, align);
}

// x [B,H,T,d] normalised and turned, as a query or key at position `first` on.
Tensor placed(const MultiHeadAttention& module, Tensor x, const std::optional<Norm>& norm,
              std::int64_t first) {
  if (norm) x = (*norm)(x);
  const AttentionVariant& variant = module.variant;
  if (variant.positions != Positions::rope) return x;
  return rotate(x, {.base = variant.rope_base,
                    .dims = variant.rope_dims,
                    .halves = variant.rope_halves,
                    .first = first});
}

Tensor appended(const Tensor& before, const Tensor& more) {
  return before.defined() ? concat({before, more}, 2) : more;
}

void check_cache(const KeyValueCache& cache, const Tensor& query, const Tensor& key) {
  if (!key.defined() && !cache.keys.defined()) {
    detail::fail<ValueError>(fmt::format(
        "{}: no keys are given and the cache has none; give them at the first step", kName));
  }
  if (cache.keys.defined() && cache.keys.dim(0) != query.dim(0)) {
    detail::fail<ShapeError>(
        fmt::format("{}: the cache holds a batch of {}, but query has one of {}; begin with a new "
                    "cache",
                    kName, cache.keys.dim(0), query.dim(0)));
  }
}

// The patched weights [B,H,T,S] times the values: heads that share values are rows of one product.
Tensor weighted_values(const Tensor& weights, const Tensor& v) {
  const std::int64_t rows = v.dim(1) == 0 ? 0 : weights.dim(1) / v.dim(1) * weights.dim(2);
  const Tensor grouped = reshape(weights, {weights.dim(0), v.dim(1), rows, weights.dim(3)});
  return reshape(matmul(grouped, v), {weights.dim(0), weights.dim(1), weights.dim(2), v.dim(3)});
}

Tensor patched(const std::function<Tensor(const Tensor&)>& patch, const Tensor& x,
               const char* what) {
  if (!patch) return x;
  Tensor y = patch(x);
  detail::check_defined(kName, y, what);
  if (y.shape() == x.shape() && y.dtype() == x.dtype()) return y;
  detail::fail<ShapeError>(fmt::format("{}: patched {} are {} {}, but must stay {} {}", kName, what,
                                       name_of(y.dtype()), to_string(y.shape()), name_of(x.dtype()),
                                       to_string(x.shape())));
}

AttentionOptions options_of(const MultiHeadAttention& module, const Heads& at, Rng* rng) {
  const AttentionVariant& variant = module.variant;
  AttentionOptions options;
  options.scale = variant.scale;
  options.dropout = rng == nullptr ? 0 : module.dropout;
  options.rng = rng;
  options.grouped = variant.kv_heads != module.heads;
  options.soft_cap = variant.soft_cap;
  const detail::ScorePlaces places{module.heads, at.q.dim(2), at.k.dim(2), at.first};
  options.relative_bias = detail::relative_bias(variant, module.relative, places, at.q.dtype());
  if (variant.sinks == Sinks::zero) options.sinks = zeros({module.heads}, at.q.dtype());
  if (variant.sinks == Sinks::trained) options.sinks = module.sinks;
  options.modifier = variant.modifier;
  options.first_query = at.first;
  return options;
}

// Output [B,H,T,e] of the heads and weights.
Attention attend(const MultiHeadAttention& module, const Heads& at, const Mask& mask,
                 const AttentionRun& how) {
  AttentionOptions options = options_of(module, at, how.rng);
  options.bias = how.bias;
  if (how.patch.weights) {
    const double p = options.dropout;
    options.dropout = 0;
    Attention result = attention_with_weights(at.q, at.k, at.v, mask, options);
    result.weights = patched(how.patch.weights, result.weights, "weights");
    const Tensor dropped = p > 0 ? dropout(result.weights, p, *how.rng) : result.weights;
    result.output = weighted_values(dropped, at.v);
    return result;
  }
  if (how.weights == Weights::none) return {attention(at.q, at.k, at.v, mask, options), Tensor()};
  return attention_with_weights(at.q, at.k, at.v, mask, options);
}

Heads heads_of(const MultiHeadAttention& module, const Tensor& query, const Tensor& key,
               const Tensor& value, const AttentionRun& how) {
  Heads at;
  KeyValueCache* cache = how.cache;
  if (cache != nullptr) at.first = cache->length();
  at.q =
      placed(module, split_heads(module.query(query), module.heads), module.query_norm, at.first);
  if (!key.defined()) {
    at.k = cache->keys;
    at.v = cache->values;
    return at;
  }
  const std::int64_t shared = module.variant.kv_heads;
  // The mask of a cached call is for all positions, of which the others are elsewhere.
  const auto real = [&](const Tensor& x) {
    if (cache != nullptr) return x;
    const Mask mask = with_window(module, how.mask, at, x.dim(1));
    return detail::without_unseen(x, mask, module.heads, query.dim(1));
  };
  at.k = placed(module, split_heads(module.key(real(key)), shared), module.key_norm, at.first);
  at.v = split_heads(module.value(real(value)), shared);
  if (cache == nullptr) return at;
  at.k = appended(cache->keys, at.k);
  at.v = appended(cache->values, at.v);
  return at;
}

MultiHeadResult run(const MultiHeadAttention& module, const Tensor& query, const Tensor& key,
                    const Tensor& value, const AttentionRun& how, CallSite at) {
  const InModule here(module.path, at);
  const AttentionVariant& variant = module.variant;
  const std::int64_t widths[] = {module.query.weight.shape()[0], module.key.weight.shape()[0],
                                 module.value.weight.shape()[0]};
  if (how.cache != nullptr) {
    detail::check_sequence(kName, "query", query, widths[0]);
    check_cache(*how.cache, query, key);
  }
  const bool fresh = how.cache == nullptr || key.defined();
  if (fresh) detail::check_attention_inputs(kName, query, key, value, widths);
  const std::int64_t keys =
      (how.cache == nullptr ? 0 : how.cache->length()) + (fresh ? key.dim(1) : 0);
  how.mask.check(kName, query.dim(0), module.heads, query.dim(1), keys);
  Heads heads = heads_of(module, query, key, value, how);
  const Mask mask = with_window(module, how.mask, heads, keys);
  if (variant.log_length > 0)
    heads.q = detail::by_log_length(heads.q, mask, keys, variant.log_length);
  Attention result = attend(module, heads, mask, how);
  if (how.cache != nullptr && fresh) {
    how.cache->keys = detach(heads.k);
    how.cache->values = detach(heads.v);
  }
  result.output = patched(how.patch.heads, result.output, "heads");
  MultiHeadResult answer{module.output(merge_heads(result.output)), Tensor()};
  if (how.weights == Weights::per_head) answer.weights = result.weights;
  if (how.weights == Weights::averaged) answer.weights = mean(result.weights, 1);
  return answer;
}

const AttentionVariant& variant_of(const Scope& scope, const MultiHeadOptions& options) {
  return detail::checked(scope, options).variant;
}

AttentionVariant resolved(const Scope& scope, const MultiHeadOptions& options) {
  AttentionVariant variant = variant_of(scope, options);
  if (variant.kv_heads == 0) variant.kv_heads = options.heads;
  if (variant.head_width == 0) variant.head_width = options.width / options.heads;
  if (variant.value_width == 0) variant.value_width = variant.head_width;
  return variant;
}

std::int64_t either(std::int64_t given, std::int64_t width) { return given == 0 ? width : given; }

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const MultiHeadOptions& options)
    : variant(resolved(scope, options)),
      query(scope / "query", options.width, options.heads * variant.head_width,
            detail::input_projection(options)),
      key(scope / "key", either(options.key_width, options.width),
          variant.kv_heads * variant.head_width, detail::input_projection(options)),
      value(scope / "value", either(options.value_width, options.width),
            variant.kv_heads * variant.value_width, detail::input_projection(options)),
      output(scope / "output", options.heads * variant.value_width, options.width,
             detail::output_projection(options)),
      heads(options.heads),
      dropout(options.dropout),
      path(scope.path()) {
  if (variant.qk_norm != NormKind::none) {
    const NormOptions norm{.kind = variant.qk_norm, .eps = variant.qk_norm_eps};
    query_norm.emplace(scope / "query_norm", variant.head_width, norm);
    key_norm.emplace(scope / "key_norm", variant.head_width, norm);
  }
  if (const std::int64_t rows = detail::relative_rows(variant); rows > 0) {
    relative =
        scope.param("relative", {rows, heads}, options.init ? options.init : init::normal(0.02));
  }
  if (variant.sinks == Sinks::trained)
    sinks = scope.param("sinks", {heads}, init::constant(0), Decay::no);
}

Tensor MultiHeadAttention::operator()(const Tensor& from, const Tensor& keys, const Tensor& values,
                                      const Mask& mask, Rng* rng, CallSite at) const {
  return tapehead::run(*this, from, keys, values, {.mask = mask, .rng = rng}, at).output;
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Mask& mask, Rng* rng,
                                      CallSite at) const {
  return tapehead::run(*this, x, x, x, {.mask = mask, .rng = rng}, at).output;
}

MultiHeadResult MultiHeadAttention::with_weights(const Tensor& from, const Tensor& keys,
                                                 const Tensor& values, const Mask& mask, Rng* rng,
                                                 CallSite at) const {
  return tapehead::run(*this, from, keys, values,
                       {.mask = mask, .rng = rng, .weights = Weights::per_head}, at);
}

MultiHeadResult MultiHeadAttention::run(const Tensor& from, const Tensor& keys,
                                        const Tensor& values, const AttentionRun& how,
                                        CallSite at) const {
  return tapehead::run(*this, from, keys, values, how, at);
}

}  // namespace tapehead

// The standard multi-head attention:
//   head_h = softmax(Q_h K_h^T / sqrt(d)) V_h,   Q = query W_Q + b_Q, K and V alike,   d = D / H
//   y = [head_1 .. head_H] W_O + b_O
// A query that may see nothing gets zeros from every head, hence b_O. Vaswani et al. 2017.
#include "nn/options.hpp"
#include "nn/unseen_keys.hpp"

namespace tapehead {
namespace {

constexpr const char* kName = "multi_head_attention";

MultiHeadResult run(const MultiHeadAttention& module, const Tensor& query, const Tensor& key,
                    const Tensor& value, const Mask& mask, Rng* rng, bool want_weights,
                    CallSite at) {
  const InModule here(module.path, at);
  detail::check_attention_inputs(kName, query, key, value, module.query.weight.shape()[0]);
  mask.check(kName, query.dim(0), module.heads, query.dim(1), key.dim(1));
  const Tensor q = split_heads(module.query(query), module.heads);  // [B,H,T,d]
  const auto real = [&](const Tensor& x) {
    return detail::without_unseen(x, mask, module.heads, query.dim(1));
  };
  const Tensor k = split_heads(module.key(real(key)), module.heads);      // [B,H,S,d]
  const Tensor v = split_heads(module.value(real(value)), module.heads);  // [B,H,S,d]
  const AttentionOptions options{.dropout = rng == nullptr ? 0 : module.dropout, .rng = rng};
  if (!want_weights) {
    return {module.output(merge_heads(attention(q, k, v, mask, options))), Tensor()};
  }
  const Attention result = attention_with_weights(q, k, v, mask, options);
  return {module.output(merge_heads(result.output)), result.weights};
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const MultiHeadOptions& options)
    : query(scope / "query", detail::checked(scope, options).width, options.width,
            detail::input_projection(options)),
      key(scope / "key", options.width, options.width, detail::input_projection(options)),
      value(scope / "value", options.width, options.width, detail::input_projection(options)),
      output(scope / "output", options.width, options.width, detail::output_projection(options)),
      heads(options.heads),
      dropout(options.dropout),
      path(scope.path()) {}

Tensor MultiHeadAttention::operator()(const Tensor& from, const Tensor& keys, const Tensor& values,
                                      const Mask& mask, Rng* rng, CallSite at) const {
  return run(*this, from, keys, values, mask, rng, false, at).output;
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Mask& mask, Rng* rng,
                                      CallSite at) const {
  return run(*this, x, x, x, mask, rng, false, at).output;
}

MultiHeadResult MultiHeadAttention::with_weights(const Tensor& from, const Tensor& keys,
                                                 const Tensor& values, const Mask& mask, Rng* rng,
                                                 CallSite at) const {
  return run(*this, from, keys, values, mask, rng, true, at);
}

}  // namespace tapehead

// The head-wise attention: all heads share one projection of the head's width, without bias:
//   head_h = softmax(Q_h K_h^T / sqrt(d)) V_h,   Q_h = query[.., h d : (h+1) d] W_q, K_h and V_h
//   alike y = [head_1 .. head_H] W + b
// The article that it comes from prints projections from head width to full width. Their result
// does not fit its own reshape to [N, T, H d] unless there is one head, so they go from d to d
// here.
#include <array>

#include "nn/options.hpp"
#include "nn/unseen_keys.hpp"

namespace tapehead {
namespace {

constexpr const char* kName = "headwise_attention";

MultiHeadResult run(const HeadwiseAttention& module, const Tensor& values, const Tensor& keys,
                    const Tensor& query, const Mask& mask, bool want_weights, CallSite at) {
  const InModule here(module.path, at);
  const std::int64_t width = module.fc_out.weight.shape()[0];
  detail::check_attention_inputs(kName, query, keys, values, std::array{width, width, width});
  mask.check(kName, query.dim(0), module.heads, query.dim(1), keys.dim(1));
  const auto real = [&](const Tensor& x) {
    return detail::without_unseen(x, mask, module.heads, query.dim(1));
  };
  const Tensor v = module.values(split_heads(real(values), module.heads));  // [B,H,S,d]
  const Tensor k = module.keys(split_heads(real(keys), module.heads));      // [B,H,S,d]
  const Tensor q = module.queries(split_heads(query, module.heads));        // [B,H,T,d]
  if (!want_weights) return {module.fc_out(merge_heads(attention(q, k, v, mask))), Tensor()};
  const Attention result = attention_with_weights(q, k, v, mask);
  return {module.fc_out(merge_heads(result.output)), result.weights};
}

std::int64_t head_width(const Scope& scope, const HeadwiseOptions& options) {
  return detail::checked(scope, options).width / options.heads;
}

}  // namespace

HeadwiseAttention::HeadwiseAttention(const Scope& scope, const HeadwiseOptions& options)
    : values(scope / "values", head_width(scope, options), head_width(scope, options),
             detail::projection(false)),
      keys(scope / "keys", head_width(scope, options), head_width(scope, options),
           detail::projection(false)),
      queries(scope / "queries", head_width(scope, options), head_width(scope, options),
              detail::projection(false)),
      fc_out(scope / "fc_out", options.width, options.width, detail::projection(true)),
      heads(options.heads),
      path(scope.path()) {}

Tensor HeadwiseAttention::operator()(const Tensor& from_values, const Tensor& from_keys,
                                     const Tensor& query, const Mask& mask, CallSite at) const {
  return run(*this, from_values, from_keys, query, mask, false, at).output;
}

MultiHeadResult HeadwiseAttention::with_weights(const Tensor& from_values, const Tensor& from_keys,
                                                const Tensor& query, const Mask& mask,
                                                CallSite at) const {
  return run(*this, from_values, from_keys, query, mask, true, at);
}

}  // namespace tapehead

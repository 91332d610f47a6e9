// Scaled dot-product attention: every query looks at all visible keys and takes the average of
// their values, weighted by how well the keys match it.
//   x_ts = c tanh(scale q_t . k_s / c) + bias_ts      (without a soft cap c: scale q_t . k_s + ..)
//   P_ts = e^(x_ts - m_t) / sum over visible s' of e^(x_ts' - m_t),   m_t the largest visible x_ts;
//          a sink is one more x in the sum;   P_ts = 0 where key s is blocked
//   D    = dropout(P)
//   y    = D v
// backward, from dy and, where the weights are used as well, dP':
//   dv = D^T dy,   dP = dropout'(dy v^T) + dP',   dx = P * (dP - rowsum(P * dP)),   dbias = dx
//   dz = dx (1 - (x - bias)^2 / c^2),   dq = scale dz k,   dk = scale dz^T q
//   dsink = -sum over rows of P_sink rowsum(P * dP)
// Blocked is a selection, never a large negative number: the weight is exactly 0, and what stands
// at a blocked position, NaN included, reaches neither the output nor a gradient. A query that sees
// nothing gives 0 and passes nothing back.
// Source: Vaswani et al., "Attention is all you need" (NeurIPS 2017), equation 1. Heads that share
// keys: Ainslie et al., "GQA" (2023). Sinks: Xiao et al. (2023), and a sink of 0 is the
// "softmax plus one" of E. Miller (2023).
#include <cmath>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "ops/attention_call.hpp"
#include "ops/attention_checks.hpp"
#include "ops/catalog.hpp"

namespace tapehead {

using detail::AttentionCall;
using detail::AttentionForward;
using detail::AttentionGradients;
using detail::AttentionSizes;
using detail::AttentionTerms;
using detail::checked_sizes;
using detail::fail;
using detail::WantedTerms;

namespace {

// 1/sqrt(d) keeps the variance of a sum of d products at 1. At width 0 every score is 0 anyway.
double scale_of(const AttentionOptions& options, std::int64_t width) {
  if (options.scale) return *options.scale;
  return width == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(width));
}

bool drops(const AttentionOptions& options) {
  return options.dropout > 0 && options.rng != nullptr;
}

// [B,G,S,d] -> [B,H,S,d]: each head of keys once for every head that shares it.
Tensor repeated(const Tensor& x, std::int64_t group) {
  if (group == 1) return x;
  const Tensor apart = reshape(x, {x.dim(0), x.dim(1), 1, x.dim(2), x.dim(3)});
  const Tensor copies = broadcast_to(apart, {x.dim(0), x.dim(1), group, x.dim(2), x.dim(3)});
  return reshape(copies, {x.dim(0), x.dim(1) * group, x.dim(2), x.dim(3)});
}

// [H,T+S-1] -> [1,H,T,S]: element s - t + T - 1 for query t and key s.
Tensor along_diagonals(const Tensor& relative, std::int64_t queries, std::int64_t keys) {
  const std::int64_t heads = relative.dim(0);
  std::vector<std::int64_t> ids;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t t = 0; t < queries; ++t) {
      for (std::int64_t s = 0; s < keys; ++s) ids.push_back(s - t + queries - 1);
    }
  }
  const Tensor index = tensor(std::span<const std::int64_t>(ids), {heads, queries, keys});
  const Tensor rows = broadcast_to(reshape(relative, {heads, 1, relative.dim(1)}),
                                   {heads, queries, relative.dim(1)});
  return reshape(gather(rows, 2, index), {1, heads, queries, keys});
}

ScorePositions positions(const AttentionSizes& n, std::int64_t first_query, DType dtype) {
  const auto count = [&](std::int64_t first, std::int64_t size, const Shape& shape) {
    return reshape(shift(cast(arange(size), dtype), static_cast<double>(first)), shape);
  };
  return {count(0, n.batch, {n.batch, 1, 1, 1}), count(0, n.heads, {1, n.heads, 1, 1}),
          count(first_query, n.queries, {1, 1, n.queries, 1}), count(0, n.keys, {1, 1, 1, n.keys})};
}

// All that is done to the scores but the mask, in plain ops.
Tensor plain_scores(const char* op, const Tensor& q, const Tensor& k, const AttentionSizes& n,
                    const AttentionOptions& options) {
  Tensor x =
      scale(matmul(q, repeated(k, n.group), {.transpose_b = true}), scale_of(options, n.width));
  const double c = options.soft_cap;
  if (c > 0) x = scale(tanh(scale(x, 1 / c)), c);
  if (options.bias.defined()) x = x + options.bias;
  if (options.relative_bias.defined())
    x = x + along_diagonals(options.relative_bias, n.queries, n.keys);
  if (!options.modifier) return x;
  const Tensor modified = options.modifier(x, positions(n, options.first_query, x.dtype()));
  detail::check_defined(op, modified, "what the modifier returned");
  if (modified.shape() != x.shape() || modified.dtype() != x.dtype()) {
    fail<ShapeError>(
        fmt::format("{}: the modifier must return scores like those it got, {} {}, "
                    "but returned {} {}",
                    op, name_of(x.dtype()), to_string(x.shape()), name_of(modified.dtype()),
                    to_string(modified.shape())));
  }
  return modified;
}

// The same in plain ops: what the formula says, step by step.
AttentionSteps composition(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask,
                           const AttentionOptions& options, const AttentionSizes& n) {
  AttentionSteps steps;
  steps.scores = plain_scores("attention", q, k, n, options);
  if (options.sinks.defined()) {
    const Tensor blocked = logical_not(mask.dense(n.batch, n.heads, n.queries, n.keys));
    const Tensor sinks =
        broadcast_to(reshape(options.sinks, {1, n.heads, 1, 1}), {n.batch, n.heads, n.queries, 1});
    const Tensor visible =
        masked_fill(steps.scores, blocked, -std::numeric_limits<double>::infinity());
    steps.weights = slice(softmax(concat({visible, sinks}, 3)), 3, 0, n.keys);
  } else {
    steps.weights = masked_softmax(steps.scores, mask);
  }
  steps.dropped =
      drops(options) ? dropout(steps.weights, options.dropout, *options.rng) : steps.weights;
  steps.output = matmul(steps.dropped, repeated(v, n.group));
  return steps;
}

// An input that is not there.
Tensor or_nothing(const Tensor& x, DType dtype) { return x.defined() ? x : zeros({0}, dtype); }

std::vector<Tensor> all_of(const AttentionGradients& g, bool with_values) {
  std::vector<Tensor> list{g.q, g.k};
  if (with_values) list.push_back(g.v);
  list.insert(list.end(), {g.bias, g.relative, g.sinks});
  return list;
}

Attention attend(const char* op, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Mask& mask, const AttentionOptions& options, bool want_weights);

// The kernels take modified scores as a bias on queries and keys of no width.
Attention attend_to_modified(const char* op, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Mask& mask, const AttentionOptions& options,
                             const AttentionSizes& n, bool want_weights) {
  AttentionOptions rest = options;
  rest.modifier = nullptr;
  rest.soft_cap = 0;
  rest.relative_bias = {};
  rest.bias = plain_scores(op, q, k, n, options);
  const Tensor no_queries = zeros({n.batch, n.heads, n.queries, 0}, q.dtype());
  const Tensor no_keys = zeros({n.batch, n.key_heads(), n.keys, 0}, q.dtype());
  return attend(op, no_queries, no_keys, v, mask, rest, want_weights);
}

// One kernel call gives the output, whether the weights are wanted or not: the bits cannot depend
// on it. The weights are a second recorded op on q and k, so that their own gradient joins that of
// the output.
Attention attend(const char* op, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Mask& mask, const AttentionOptions& options, bool want_weights) {
  const AttentionSizes sizes = checked_sizes(op, q, k, v, mask, options);
  if (recording_differentiable()) {
    const AttentionSteps steps = composition(q, k, v, mask, options, sizes);
    return {steps.output, steps.weights};
  }
  if (options.modifier) return attend_to_modified(op, q, k, v, mask, options, sizes, want_weights);
  AttentionTerms terms{scale_of(options, sizes.width), options.soft_cap, options.bias,
                       options.relative_bias,          options.sinks,    options.dropout};
  if (drops(options)) terms.rng = *options.rng;
  const auto call = std::make_shared<const AttentionCall>(sizes, mask, std::move(terms));
  const AttentionForward forward = call->forward(q, k, v);
  if (drops(options)) {
    options.rng->skip(
        static_cast<std::uint64_t>(sizes.batch * sizes.heads * sizes.queries * sizes.keys));
  }
  const Tensor bias = or_nothing(options.bias, q.dtype());
  const Tensor relative = or_nothing(options.relative_bias, q.dtype());
  const Tensor sinks = or_nothing(options.sinks, q.dtype());
  const WantedTerms wanted{is_recorded(bias), is_recorded(relative), is_recorded(sinks)};
  AttentionForward saved = forward;
  saved.output = Tensor();
  const auto gradient = [call, q, k, v, saved, wanted](const Tensor& y, const Tensor& dy) {
    AttentionForward f = saved;
    f.output = y;
    return all_of(call->output_gradient(q, k, v, f, dy, wanted), true);
  };
  Attention attention;
  Recorder recorder = record("attention", forward.output);
  if (call->needs_output()) {
    attention.output = std::move(recorder).inputs({q, k, v, bias, relative, sinks}, gradient);
  } else {  // y need not be kept
    attention.output =
        std::move(recorder).inputs({q, k, v, bias, relative, sinks},
                                   [gradient](const Tensor& dy) { return gradient(Tensor(), dy); });
  }
  if (want_weights) {
    AttentionForward scales = saved;
    scales.weights = Tensor();
    attention.weights =
        record("attention_weights", call->weights(q, k, forward))
            .inputs({q, k, bias, relative, sinks},
                    [call, q, k, scales, wanted](const Tensor& p, const Tensor& dp) {
                      return all_of(call->weights_gradient(q, k, scales, p, dp, wanted), false);
                    });
  }
  return attention;
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask,
                 const AttentionOptions& options, CallSite at) {
  const OpCall call(at);
  return attend("attention", q, k, v, mask, options, false).output;
}

Attention attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Mask& mask, const AttentionOptions& options, CallSite at) {
  const OpCall call(at);
  return attend("attention_with_weights", q, k, v, mask, options, true);
}

AttentionSteps attention_steps(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask,
                               const AttentionOptions& options, CallSite at) {
  const OpCall call(at);
  const AttentionSizes sizes = checked_sizes("attention_steps", q, k, v, mask, options);
  return composition(q, k, v, mask, options, sizes);
}

}  // namespace tapehead

// Scaled dot-product attention: every query looks at all visible keys and takes the average of
// their values, weighted by how well the keys match it.
//   P_ts = e^(x_ts - m_t) / sum over visible s' of e^(x_ts' - m_t),   x = scale q k^T,
//          m_t the largest visible x_ts;   P_ts = 0 where key s is blocked
//   D    = dropout(P)
//   y    = D v
// backward, from dy and, where the weights are used as well, dP':
//   dv = D^T dy,   dP = dropout'(dy v^T) + dP',   dx = P * (dP - rowsum(P * dP))
//   dq = scale dx k,   dk = scale dx^T q
// Blocked is a selection, never a large negative number: the weight is exactly 0, and what stands
// at a blocked position, NaN included, reaches neither the output nor a gradient. A query that sees
// nothing gives 0 and passes nothing back.
// Source: Vaswani et al., "Attention is all you need" (NeurIPS 2017), equation 1.
#include <cmath>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "ops/attention_kernel.hpp"
#include "ops/catalog.hpp"

namespace tapehead {

using detail::AttentionCall;
using detail::AttentionSizes;
using detail::fail;
using detail::named;

namespace {

void check_rank(const char* op, const Tensor& x, const char* what, const char* axes) {
  if (x.rank() == 4) return;
  fail<ShapeError>(fmt::format("{}: {} must be [{}], got {}; split_heads makes heads of a width",
                               op, what, axes, to_string(x.shape())));
}

AttentionSizes checked_sizes(const char* op, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Mask& mask, const AttentionOptions& options) {
  detail::check_floating(op, q, "q");
  detail::check_floating(op, k, "k");
  detail::check_floating(op, v, "v");
  detail::check_same_dtype(op, q, k);
  detail::check_same_dtype(op, k, v);
  check_rank(op, q, "q", "batch, heads, queries, width");
  check_rank(op, k, "k", "batch, heads, keys, width");
  check_rank(op, v, "v", "batch, heads, keys, value width");
  const AttentionSizes sizes{q.dim(0), q.dim(1), q.dim(2), k.dim(2), q.dim(3), v.dim(3)};
  const auto equal = [&](const char* what, std::int64_t a, std::int64_t b, const char* advice) {
    if (a == b) return;
    fail<ShapeError>(fmt::format("{}: {}: q {}, k {}, v {}: {} is not {}; {}", op, what,
                                 named(q.shape(), {"batch", "heads", "queries", "width"}),
                                 named(k.shape(), {"batch", "heads", "keys", "width"}),
                                 named(v.shape(), {"batch", "heads", "keys", "value width"}), a, b,
                                 advice));
  };
  equal("the number of keys differs from the number of values", k.dim(2), v.dim(2),
        "each key needs a value");
  equal("queries and keys differ in width", q.dim(3), k.dim(3), "project both to one head width");
  for (const Tensor& other : {k, v}) {
    equal("the batches differ", q.dim(0), other.dim(0), "give all three the same samples");
    equal("the numbers of heads differ", q.dim(1), other.dim(1), "split all three alike");
  }
  for (const std::int64_t size : {sizes.queries, sizes.keys, sizes.width, sizes.value_width}) {
    if (size > std::numeric_limits<std::int32_t>::max())
      fail<ShapeError>(fmt::format("{}: size {} does not fit BLAS's 32-bit integers", op, size));
  }
  if (options.scale && !std::isfinite(*options.scale))
    fail<ValueError>(fmt::format("{}: scale must be finite, got {}", op, *options.scale));
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    fail<ValueError>(
        fmt::format("{}: dropout is a probability in 0..1, got {}", op, options.dropout));
  }
  mask.check(op, sizes.batch, sizes.heads, sizes.queries, sizes.keys);
  return sizes;
}

// 1/sqrt(d) keeps the variance of a sum of d products at 1. At width 0 every score is 0 anyway.
double scale_of(const AttentionOptions& options, std::int64_t width) {
  if (options.scale) return *options.scale;
  return width == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(width));
}

// The same in plain ops: what the formula says, step by step.
Attention composition(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask,
                      const AttentionOptions& options) {
  const Tensor scores = scale(matmul(q, k, {.transpose_b = true}), scale_of(options, q.dim(3)));
  const Tensor weights = masked_softmax(scores, mask);
  const bool drops = options.dropout > 0 && options.rng != nullptr;
  const Tensor used = drops ? dropout(weights, options.dropout, *options.rng) : weights;
  return {matmul(used, v), weights};
}

// One kernel call gives output and weights, whether the weights are wanted or not: the bits cannot
// depend on it. The weights are a second recorded op on q and k, so that their own gradient joins
// that of the output.
Attention attend(const char* op, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Mask& mask, const AttentionOptions& options, bool want_weights) {
  const AttentionSizes sizes = checked_sizes(op, q, k, v, mask, options);
  if (recording_differentiable()) return composition(q, k, v, mask, options);
  const auto call = std::make_shared<const AttentionCall>(
      sizes, mask, scale_of(options, sizes.width), options.dropout, options.rng);
  const AttentionCall::Result result = call->forward(q, k, v);
  if (options.rng != nullptr && options.dropout > 0)
    options.rng->skip(static_cast<std::uint64_t>(result.weights.size()));
  Attention attention;
  attention.output = record("attention", result.output)
                         .inputs({q, k, v}, [call, q, k, v, p = result.weights](const Tensor& dy) {
                           return call->output_gradient(q, k, v, p, dy);
                         });
  if (want_weights) {
    attention.weights = record("attention_weights", result.weights)
                            .inputs({q, k}, [call, q, k](const Tensor& p, const Tensor& dp) {
                              return call->weights_gradient(q, k, p, dp);
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

namespace detail {
namespace {

struct AttentionCase {
  const char* name;
  AttentionSizes sizes;
  Mask mask;
  AttentionOptions options = {};
};

std::vector<AttentionCase> attention_cases() {
  const Tensor pattern = tensor(
      std::vector<bool>{true, false, true, true, false, false, false, true, true, true}, {2, 5});
  AttentionOptions scaled;
  scaled.scale = -0.4;
  AttentionOptions dropped;
  dropped.dropout = 0.3;
  return {
      {"one of each", {1, 1, 1, 1, 1, 1}, Mask()},
      {"prime sides", {1, 2, 3, 5, 7, 7}, Mask()},
      {"values of another width, own scale", {2, 1, 3, 5, 2, 3}, Mask(), scaled},
      {"causal", {2, 2, 5, 5, 3, 3}, Mask::causal(5)},
      {"causal, fewer queries than keys", {1, 1, 2, 5, 3, 3}, Mask::causal(2, 5, Align::last)},
      {"lengths, one of them 0", {3, 2, 3, 5, 2, 2}, Mask::lengths({5, 0, 2}, 5)},
      {"a mask per head", {2, 2, 3, 5, 2, 2}, Mask::keep(pattern, "head key")},
      {"blind queries", {1, 1, 4, 2, 2, 2}, Mask::causal(4, 2, Align::last)},
      {"past a block, window", {1, 1, 67, 67, 2, 2}, Mask::window(3, 1)},
      {"dropout", {1, 2, 5, 7, 3, 3}, Mask(), dropped},
      {"no samples", {0, 2, 3, 4, 5, 5}, Mask()},
      {"no heads", {2, 0, 3, 4, 5, 5}, Mask()},
      {"no queries", {2, 2, 0, 3, 5, 5}, Mask()},
      {"no keys", {2, 2, 3, 0, 5, 5}, Mask()},
      {"width 0", {2, 2, 3, 4, 0, 5}, Mask()},
      {"value width 0", {2, 2, 3, 4, 5, 0}, Mask()},
  };
}

using AttentionFunction = Attention (*)(const Tensor&, const Tensor&, const Tensor&, const Mask&,
                                        const AttentionOptions&);

Attention both_results(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask,
                       const AttentionOptions& options) {
  return attention_with_weights(q, k, v, mask, options);
}
Attention only_output(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask,
                      const AttentionOptions& options) {
  return {attention(q, k, v, mask, options), Tensor()};
}

std::vector<OpSample> attention_samples(DType dtype, AttentionFunction op, bool with_weights) {
  std::vector<OpSample> samples;
  for (const AttentionCase& c : attention_cases()) {
    const AttentionSizes& n = c.sizes;
    OpSample sample{c.name,
                    {sample_values({n.batch, n.heads, n.queries, n.width}, dtype, 1),
                     sample_values({n.batch, n.heads, n.keys, n.width}, dtype, 2),
                     sample_values({n.batch, n.heads, n.keys, n.value_width}, dtype, 3)}};
    const auto calling = [c, with_weights](AttentionFunction f) {
      return [c, with_weights, f](const std::vector<Tensor>& x) {
        Rng rng(9, Stream::dropout);
        AttentionOptions options = c.options;
        options.rng = &rng;
        const Attention a = f(x[0], x[1], x[2], c.mask, options);
        return with_weights ? std::vector<Tensor>{a.output, a.weights}
                            : std::vector<Tensor>{a.output};
      };
    };
    sample.call = calling(op);
    sample.composition = calling(composition);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

OpEntry attention_entry() {
  return {
      "attention",
      "attention",
      "y = P v, P = softmax(scale q k^T over visible keys)",
      "dv = P^T dy; dP = dy v^T; dx = P (dP - rowsum(P dP)); dq = scale dx k; dk = scale dx^T q",
      true,
      true,
      [](DType t) { return attention_samples(t, only_output, false); }};
}
OpEntry attention_with_weights_entry() {
  return {"attention_with_weights",
          "attention",
          "(y, P): y = P v, P = softmax(scale q k^T over visible keys)",
          "as attention, with the weights' own cotangent added to dP",
          true,
          true,
          [](DType t) { return attention_samples(t, both_results, true); }};
}

}  // namespace detail
}  // namespace tapehead

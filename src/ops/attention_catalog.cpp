// The catalog's samples of attention.
#include <optional>

#include "ops/attention_call.hpp"
#include "ops/catalog.hpp"

namespace tapehead {
namespace detail {
namespace {

struct AttentionCase {
  const char* name;
  AttentionSizes sizes;
  Mask mask;
  AttentionOptions options = {};
  bool bias = false;           // with a bias of its own for each head
  bool relative_bias = false;  // with one for all heads
  bool sinks = false;
  // The kernel that would be taken for many more keys: checks of each element would take minutes.
  bool streaming = false;
};

std::vector<AttentionCase> attention_cases() {
  std::vector<bool> bits(5 * 131);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = i * i % 31 < 5;
  const Tensor sparse = tensor(bits, {5, 131});
  const Tensor pattern = tensor(
      std::vector<bool>{true, false, true, true, false, false, false, true, true, true}, {2, 5});
  AttentionOptions scaled;
  scaled.scale = -0.4;
  AttentionOptions dropped;
  dropped.dropout = 0.3;
  AttentionOptions shared;
  shared.grouped = true;
  AttentionOptions capped;
  capped.soft_cap = 1.5;
  AttentionOptions everything;
  everything.grouped = true;
  everything.soft_cap = 2;
  everything.dropout = 0.3;
  AttentionOptions modified;
  modified.modifier = [](const Tensor& x, const ScorePositions& at) {
    return x * x * 0.5 - 0.1 * (at.query - at.key) * (at.head + 1.0) + 0.2 * at.batch;
  };
  AttentionOptions everything_else = everything;
  everything_else.modifier = modified.modifier;
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
      {"two heads share keys", {2, 4, 3, 5, 3, 2, 2}, Mask::lengths({5, 2}, 5), shared},
      {"soft cap", {1, 2, 5, 5, 3, 3}, Mask::causal(5), capped},
      {"bias per head", {2, 2, 3, 5, 3, 2}, Mask::lengths({5, 2}, 5), {}, true},
      {"relative bias", {2, 2, 5, 5, 3, 2}, Mask::causal(5), {}, false, true},
      {"sinks", {2, 2, 3, 5, 3, 2}, Mask::lengths({5, 0}, 5), {}, false, false, true},
      {"shared keys, cap, biases, sinks, dropout",
       {2, 4, 3, 5, 3, 2, 2},
       Mask::lengths({5, 3}, 5) &
           Mask::rule([](auto, auto h, auto q, auto) { return h != 1 || q != 2; }),
       everything,
       true,
       true,
       true},
      {"modified scores", {2, 2, 3, 5, 3, 2}, Mask::lengths({5, 2}, 5), modified},
      {"all of it, modified",
       {2, 4, 5, 5, 3, 2, 2},
       Mask::causal(5),
       everything_else,
       true,
       true,
       true},
      {"streaming, two tiles of keys",
       {1, 1, 5, 131, 1, 2},
       Mask::causal(5, 131, Align::last) & Mask::keep(sparse, "query key"),
       {},
       false,
       false,
       false,
       true},
      {"streaming, two tiles of queries",
       {1, 1, 97, 5, 1, 1},
       Mask::lengths({4}, 5),
       {},
       false,
       true,
       false,
       true},
      {"streaming, everything",
       {2, 4, 3, 5, 3, 2, 2},
       Mask::lengths({5, 3}, 5),
       everything,
       true,
       true,
       true,
       true},
      {"no samples", {0, 2, 3, 4, 5, 5}, Mask()},
      {"no heads", {2, 0, 3, 4, 5, 5}, Mask()},
      {"no queries", {2, 2, 0, 3, 5, 5}, Mask()},
      {"no keys", {2, 2, 3, 0, 5, 5}, Mask()},
      {"width 0", {2, 2, 3, 4, 0, 5}, Mask()},
      {"value width 0", {2, 2, 3, 4, 5, 0}, Mask()},
  };
}

enum class Wanted { output, weights, steps };

std::vector<OpSample> attention_samples(DType dtype, Wanted wanted) {
  std::vector<OpSample> samples;
  for (const AttentionCase& c : attention_cases()) {
    if (c.streaming && wanted == Wanted::steps) continue;  // no kernel there
    const AttentionSizes& n = c.sizes;
    OpSample sample{c.name,
                    {sample_values({n.batch, n.heads, n.queries, n.width}, dtype, 1),
                     sample_values({n.batch, n.key_heads(), n.keys, n.width}, dtype, 2),
                     sample_values({n.batch, n.key_heads(), n.keys, n.value_width}, dtype, 3)}};
    if (c.bias) sample.inputs.push_back(sample_values({1, n.heads, n.queries, n.keys}, dtype, 4));
    if (c.relative_bias)
      sample.inputs.push_back(sample_values({1, n.queries + n.keys - 1}, dtype, 5));
    if (c.sinks) sample.inputs.push_back(sample_values({n.heads}, dtype, 6));
    const auto calling = [c, wanted](bool in_steps) {
      return [c, wanted, in_steps](const std::vector<Tensor>& x) {
        std::optional<ForceAttentionKernel> kernel;
        if (c.streaming) kernel.emplace(ForceAttentionKernel::streaming);
        Rng rng(9, Stream::dropout);
        AttentionOptions options = c.options;
        options.rng = &rng;
        std::size_t next = 3;
        if (c.bias) options.bias = x[next++];
        if (c.relative_bias) options.relative_bias = x[next++];
        if (c.sinks) options.sinks = x[next++];
        if (in_steps) {
          const AttentionSteps s = attention_steps(x[0], x[1], x[2], c.mask, options);
          if (wanted == Wanted::output) return std::vector<Tensor>{s.output};
          if (wanted == Wanted::weights) return std::vector<Tensor>{s.output, s.weights};
          return std::vector<Tensor>{s.scores, s.weights, s.dropped, s.output};
        }
        if (wanted == Wanted::output)
          return std::vector<Tensor>{attention(x[0], x[1], x[2], c.mask, options)};
        const Attention a = attention_with_weights(x[0], x[1], x[2], c.mask, options);
        return std::vector<Tensor>{a.output, a.weights};
      };
    };
    sample.call = calling(wanted == Wanted::steps);
    sample.composition = calling(true);
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
      [](DType t) { return attention_samples(t, Wanted::output); }};
}
OpEntry attention_with_weights_entry() {
  return {"attention_with_weights",
          "attention",
          "(y, P): y = P v, P = softmax(scale q k^T over visible keys)",
          "as attention, with the weights' own cotangent added to dP",
          true,
          true,
          [](DType t) { return attention_samples(t, Wanted::weights); }};
}

OpEntry attention_steps_entry() {
  return {"attention_steps",
          "attention",
          "(x, P, D, y): x the scores, P = softmax(x over visible keys), D = dropout(P), y = D v",
          "of each step by itself",
          true,
          true,
          [](DType t) { return attention_samples(t, Wanted::steps); }};
}

}  // namespace detail
}  // namespace tapehead

// The modules with samples for gradient checks and for the tests.
#include "nn/catalog.hpp"

#include "core/access.hpp"

namespace tapehead {
namespace {

using detail::blocked_row;
using detail::make_case;
using detail::on_one;
using Tensors = std::vector<Tensor>;

ModuleEntry linear_entry() {
  const auto make = [](const Scope& s) { return Linear(s, 17, 7); };
  const auto bare = [](const Scope& s) { return Linear(s, 4, 3, {.bias = false}); };
  return {"Linear",
          "y = x W + b",
          {make_case("[3,5,17] to 7", {{3, 5, 17}}, make, on_one<Linear>),
           make_case("without bias", {{2, 4}}, bare, on_one<Linear>),
           make_case("empty batch", {{0, 4}}, bare, on_one<Linear>),
           make_case("67 rows", {{67, 17}}, make, on_one<Linear>)}};
}

ModuleEntry embedding_entry() {
  const auto make = [](const Scope& s) { return Embedding(s, 5, 17, init::normal(1)); };
  const auto lookup = [](const std::vector<std::int64_t>& ids, const Shape& shape) {
    return [=](const Embedding& module, const Tensors&) {
      return Tensors{module(tensor(std::span<const std::int64_t>(ids), shape))};
    };
  };
  return {"Embedding",
          "y = row of W by id",
          {make_case("repeated ids", {}, make, lookup({1, 1, 3, 1, 0, 3}, {2, 3})),
           make_case("no ids", {}, make, lookup({}, {2, 0}))}};
}

ModuleEntry layer_norm_entry() {
  const auto make = [](double eps) {
    return [eps](const Scope& s) { return LayerNorm(s, 17, eps); };
  };
  return {"LayerNorm",
          "y = gain (x - mean) / sqrt(variance + eps) + bias",
          {make_case("[3,5,17]", {{3, 5, 17}}, make(1e-5), on_one<LayerNorm>),
           make_case("eps 0.25", {{2, 17}}, make(0.25), on_one<LayerNorm>)}};
}

ModuleEntry rms_norm_entry() {
  const auto make = [](double eps) {
    return [eps](const Scope& s) { return RMSNorm(s, 17, eps); };
  };
  return {"RMSNorm",
          "y = gain x / sqrt(mean x^2 + eps)",
          {make_case("[3,5,17]", {{3, 5, 17}}, make(1e-5), on_one<RMSNorm>),
           make_case("eps 0.25", {{2, 17}}, make(0.25), on_one<RMSNorm>)}};
}

ModuleEntry norm_entry() {
  const auto make = [](NormOptions options) {
    return [options](const Scope& s) { return Norm(s, 17, options); };
  };
  const std::vector<Shape> shapes{{2, 3, 17}};
  return {"Norm",
          "layer_norm, rms_norm or x, with or without gain and bias",
          {make_case("layer, no bias", shapes, make({.bias = false}), on_one<Norm>),
           make_case("layer, bare", shapes, make({.gain = false, .bias = false}), on_one<Norm>),
           make_case("rms, no gain", shapes, make({.kind = NormKind::rms, .gain = false}),
                     on_one<Norm>),
           make_case("none", shapes, make({.kind = NormKind::none}), on_one<Norm>)}};
}

ModuleEntry feed_forward_entry() {
  const auto make = [](Activation activation) {
    return [activation](const Scope& s) {
      return FeedForward(s, {.width = 5, .hidden = 11, .activation = activation, .dropout = 0.3});
    };
  };
  const auto dropping = [](const FeedForward& module, const Tensors& x) {
    Rng rng(7, Stream::dropout);
    return Tensors{module(x[0], &rng)};
  };
  const std::vector<Shape> shapes{{2, 3, 5}};
  return {"FeedForward",
          "y = activation(x W + b) V + c",
          {make_case("relu", shapes, make(Activation::relu), on_one<FeedForward>),
           make_case("gelu", shapes, make(Activation::gelu), on_one<FeedForward>),
           make_case("gelu_tanh", shapes, make(Activation::gelu_tanh), on_one<FeedForward>),
           make_case("silu", shapes, make(Activation::silu), on_one<FeedForward>),
           make_case("swiglu", shapes, make(Activation::swiglu), on_one<FeedForward>),
           make_case("dropout", shapes, make(Activation::silu), dropping)}};
}

// Causal self-attention of 4 heads in one of its variants.
ModuleCase variant_case(const char* name, const AttentionVariant& variant,
                        std::vector<std::string> zero_gradient = {}) {
  const auto make = [variant](const Scope& s) {
    return MultiHeadAttention(s, {.width = 8, .heads = 4, .variant = variant});
  };
  const auto causal = [](const MultiHeadAttention& module, const Tensors& x) {
    const Mask mask = Mask::causal(5) & Mask::lengths({5, 4}, 5);
    const MultiHeadResult result =
        module.run(x[0], x[0], x[0], {.mask = mask, .weights = Weights::averaged});
    return Tensors{result.output, result.weights};
  };
  return make_case(name, {{2, 5, 8}}, make, causal, std::move(zero_gradient));
}

// A bias of the keys adds the same to all scores of a query, unless something turns, normalises or
// bends them, or a sink stands beside them.
std::vector<ModuleCase> variant_cases() {
  const std::vector<std::string> zero{"key.bias"};
  AttentionVariant capped{.soft_cap = 1.5};
  capped.modifier = [](const Tensor& scores, const ScorePositions& at) {
    return scores * scores * 0.3 - 0.1 * (at.query - at.key);
  };
  return {
      variant_case("two heads of keys, widths of their own, window",
                   {.kv_heads = 2, .head_width = 3, .value_width = 2, .window = 3}, zero),
      variant_case("one head of keys, ALiBi, longer is sharper",
                   {.kv_heads = 1, .positions = Positions::alibi, .log_length = 3}, zero),
      variant_case("RoPE of 4 columns of 6, halves", {.head_width = 6,
                                                      .positions = Positions::rope,
                                                      .rope_base = 20,
                                                      .rope_dims = 4,
                                                      .rope_halves = true}),
      variant_case("T5's distances",
                   {.positions = Positions::t5, .t5_buckets = 8, .max_distance = 5}, zero),
      variant_case("trained distances, normalised queries and keys",
                   {.positions = Positions::relative, .max_distance = 2, .qk_norm = NormKind::rms}),
      variant_case("soft cap, a modifier", capped),
      variant_case("sinks", {.sinks = Sinks::trained}),
  };
}

ModuleEntry multi_head_entry() {
  const auto make = [](const Scope& s) {
    return MultiHeadAttention(s, {.width = 12, .heads = 3, .dropout = 0.25});
  };
  const auto self = [](const Mask& mask) {
    return [mask](const MultiHeadAttention& module, const Tensors& x) {
      return Tensors{module(x[0], mask)};
    };
  };
  const auto cross = [](const MultiHeadAttention& module, const Tensors& x) {
    return Tensors{module(x[0], x[1], x[2])};
  };
  const auto weights = [](const MultiHeadAttention& module, const Tensors& x) {
    const MultiHeadResult result = module.with_weights(x[0], x[0], x[0], Mask::causal(5));
    return Tensors{result.output, result.weights};
  };
  const auto dropping = [](const MultiHeadAttention& module, const Tensors& x) {
    Rng rng(7, Stream::dropout);
    return Tensors{module(x[0], Mask(), &rng)};
  };
  const std::vector<Shape> one{{2, 5, 12}};
  const std::vector<std::string> zero{"key.bias"};
  ModuleEntry entry{"MultiHeadAttention",
                    "y = [softmax(Q K^T / sqrt(d)) V, head by head] W_O + b_O",
                    {make_case("self", one, make, self(Mask()), zero),
                     make_case("cross, 3 queries, 5 keys", {{2, 3, 12}, {2, 5, 12}, {2, 5, 12}},
                               make, cross, zero),
                     make_case("causal", one, make, self(Mask::causal(5)), zero),
                     make_case("padded keys", one, make, self(Mask::lengths({5, 3}, 5)), zero),
                     make_case("a fully blocked row", one, make, self(blocked_row()), zero),
                     make_case("causal, with weights", one, make, weights, zero),
                     make_case("dropout of the weights", one, make, dropping, zero)}};
  for (ModuleCase& one_more : variant_cases()) entry.cases.push_back(std::move(one_more));
  return entry;
}

ModuleEntry headwise_entry() {
  const auto make = [](const Scope& s) { return HeadwiseAttention(s, {.width = 12, .heads = 3}); };
  const auto with = [](const Mask& mask) {
    return [mask](const HeadwiseAttention& module, const Tensors& x) {
      return Tensors{module(x[0], x[1], x[2], mask)};
    };
  };
  const std::vector<Shape> shapes{{2, 5, 12}, {2, 5, 12}, {2, 3, 12}};
  return {"HeadwiseAttention",
          "y = [softmax(Q K^T / sqrt(d)) V, one d x d projection for all heads] W + b",
          {make_case("3 queries, 5 keys", shapes, make, with(Mask())),
           make_case("padded keys", shapes, make, with(Mask::lengths({5, 3}, 5))),
           make_case("a fully blocked row", shapes, make, with(blocked_row()))}};
}

ModuleEntry positions_entry() {
  const auto make = [](const Scope& s) { return LearnedPositions(s, 7, 5, init::normal(1)); };
  return {"LearnedPositions",
          "y_t = x_t + row t of W",
          {make_case("whole table", {{2, 7, 5}}, make, on_one<LearnedPositions>),
           make_case("shorter input", {{2, 3, 5}}, make, on_one<LearnedPositions>)}};
}

ModuleEntry token_head_entry() {
  const auto make = [](const Scope& s) { return TokenHead(s, 8, 3); };
  return {"TokenHead",
          "y = relu(norm(x W + b)) V + c",
          {make_case("[2,5,8] to 3", {{2, 5, 8}}, make, on_one<TokenHead>)}};
}

ModuleEntry classifier_head_entry() {
  const auto make = [](const Scope& s) { return ClassifierHead(s, 8, 3); };
  const auto lengths = [](const ClassifierHead& module, const Tensors& x) {
    return Tensors{module(x[0], {5, 2})};
  };
  return {"ClassifierHead",
          "y = mean over the real positions of x W + b",
          {make_case("all positions", {{2, 5, 8}}, make, on_one<ClassifierHead>),
           make_case("lengths 5 and 2", {{2, 5, 8}}, make, lengths)}};
}

}  // namespace

namespace detail {

void perturb(Params& params) {
  const std::vector<Param> all = params.all();
  with_float("module_catalog", params.dtype(), [&](auto zero) {
    using T = decltype(zero);
    params.write("module_catalog", [&](std::span<T> flat) {
      for (const Param& param : all) {
        if (param.shape().rank() > 1) continue;
        Rng rng = Rng(params.seed(), Stream::check).fork(param.name());
        const auto begin = static_cast<std::size_t>(params.offset(param.index()));
        const auto count = static_cast<std::size_t>(param.shape().size());
        for (T& value : flat.subspan(begin, count)) value += static_cast<T>(rng.uniform(-0.3, 0.3));
      }
    });
  });
}

}  // namespace detail

const std::vector<ModuleEntry>& module_catalog() {
  static const std::vector<ModuleEntry> entries = [] {
    std::vector<ModuleEntry> list{
        linear_entry(),    embedding_entry(),    layer_norm_entry(),      rms_norm_entry(),
        norm_entry(),      feed_forward_entry(), multi_head_entry(),      headwise_entry(),
        positions_entry(), token_head_entry(),   classifier_head_entry(),
    };
    for (ModuleEntry& entry : detail::model_entries()) list.push_back(std::move(entry));
    return list;
  }();
  return entries;
}

}  // namespace tapehead

// Layers, stacks and whole models with samples for gradient checks and for the tests.
#include "nn/catalog.hpp"

namespace tapehead::detail {
namespace {

using Tensors = std::vector<Tensor>;
using Cross = TransformerLayer::Cross;

TransformerOptions small(NormPlace place, std::int64_t layers = 1) {
  return {.layers = layers,
          .width = 8,
          .heads = 2,
          .hidden = 12,
          .place = place,
          .dropout = {.attention = 0.25, .hidden = 0.25, .branch = 0.25}};
}

// The usual parts of a model of today: RMS norm in front, a gated feed-forward, no biases.
TransformerOptions modern() {
  return {.width = 8,
          .heads = 2,
          .hidden = 12,
          .activation = Activation::swiglu,
          .norm = NormKind::rms,
          .place = NormPlace::pre,
          .bias = false,
          .variant = {.kv_heads = 1, .positions = Positions::rope}};
}

ModuleEntry layer_entry() {
  const auto make = [](NormPlace place, Cross cross = Cross::no) {
    return [=](const Scope& s) { return TransformerLayer(s, small(place), cross); };
  };
  const auto padded = [](const TransformerLayer& module, const Tensors& x) {
    return Tensors{module(x[0], Mask::lengths({5, 3}, 5))};
  };
  const auto dropping = [](const TransformerLayer& module, const Tensors& x) {
    Rng rng(7, Stream::dropout);
    return Tensors{module(x[0], Mask(), &rng)};
  };
  // Causal among themselves, a memory with padding; query 1 of sample 1 sees nothing at all.
  const auto across = [](const TransformerLayer& module, const Tensors& x) {
    const Memory memory{x[1], Mask::lengths({4, 2}, 4) & blocked_row()};
    return Tensors{module(x[0], Mask::causal(3) & blocked_row(), memory)};
  };
  const std::vector<Shape> shapes{{2, 5, 8}};
  const std::vector<Shape> two{{2, 3, 8}, {2, 4, 8}};
  const std::vector<std::string> zero{"attention.key.bias"};
  const std::vector<std::string> zeros{"attention.key.bias", "cross.key.bias"};
  return {"TransformerLayer",
          "post: h = norm1(x + attention(x)), y = norm2(h + ffn(h))",
          {make_case("post-norm, padded keys", shapes, make(NormPlace::post), padded, zero),
           make_case("pre-norm, padded keys", shapes, make(NormPlace::pre), padded, zero),
           make_case("post-norm, dropout", shapes, make(NormPlace::post), dropping, zero),
           make_case("post-norm, cross-attention", two, make(NormPlace::post, Cross::yes), across,
                     zeros),
           make_case("pre-norm, cross-attention", two, make(NormPlace::pre, Cross::yes), across,
                     zeros)}};
}

ModuleEntry layers_entry() {
  const auto make = [](NormPlace place) {
    return [place](const Scope& s) { return TransformerStack(s, small(place, 2)); };
  };
  const std::vector<Shape> shapes{{2, 5, 8}};
  const std::vector<std::string> zero{"layers.0.attention.key.bias", "layers.1.attention.key.bias"};
  return {"TransformerStack",
          "y = layer_n(.. layer_1(x))",
          {make_case("two layers, post-norm", shapes, make(NormPlace::post),
                     on_one<TransformerStack>, zero),
           make_case("two layers, pre-norm", shapes, make(NormPlace::pre), on_one<TransformerStack>,
                     zero)}};
}

Tensor some_ids(std::int64_t symbols, const Shape& shape, std::uint64_t seed) {
  Rng rng(seed, Stream::check);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(shape.size()));
  for (std::int64_t& id : ids) id = rng.below(symbols);
  return tensor(std::span<const std::int64_t>(ids), shape);
}

// The last two targets of the second row do not count, as in a padded batch.
Tensor padded_targets(std::int64_t classes, std::int64_t length, std::uint64_t seed) {
  std::vector<std::int64_t> ids = some_ids(classes, {2, length}, seed).to_vector<std::int64_t>();
  for (std::size_t i = ids.size() - 2; i < ids.size(); ++i) ids[i] = -1;
  return tensor(std::span<const std::int64_t>(ids), {2, length});
}

Tensors loss(const Tensor& logits, const Tensor& targets) {
  return {cross_entropy(logits, targets, {.ignore = -1})};
}

ModuleEntry token_input_entry() {
  const auto make = [](TokenInputOptions options) {
    options.symbols = 5;
    options.width = 6;
    options.max_length = 5;
    options.init = Initialiser::xavier;
    return [options](const Scope& s) { return TokenInput(s, options); };
  };
  const auto call = [](const TokenInput& module, const Tensors&) {
    Rng rng(7, Stream::dropout);
    return Tensors{module(some_ids(5, {2, 3}, 3), &rng)};
  };
  const auto later = [](const TokenInput& module, const Tensors&) {
    return Tensors{module(some_ids(5, {2, 3}, 3), nullptr, 2)};
  };
  return {"TokenInput",
          "y = table[ids] + positions",
          {make_case("learned positions, norm, dropout", {},
                     make({.norm = NormOptions{.kind = NormKind::rms}, .dropout = 0.25}), call),
           make_case("one-hot, sinusoids", {},
                     make({.positions = Positions::sinusoidal, .one_hot = true}), call),
           make_case("scaled, from position 2", {}, make({.scaled = true}), later)}};
}

ModuleEntry pooled_entry() {
  const auto make = [](const Scope& s) {
    EncoderModelOptions options{.symbols = 5, .classes = 3, .one_hot = false};
    options.head = EncoderHead::pooled;
    options.encoder = small(NormPlace::pre);
    options.encoder.init = Initialiser::xavier;
    return EncoderModel(s, options);
  };
  const auto call = [](const EncoderModel& model, const Tensors&) {
    return loss(model.padded(some_ids(5, {2, 4}, 3), {4, 2}), some_ids(3, {2}, 5));
  };
  return {"EncoderModel, pooled",
          "loss = cross_entropy(mean over the real positions of encoder(ids), class)",
          {make_case("lengths 4 and 2, with its loss", {}, make, call,
                     {"encoder.layers.0.attention.key.bias"})}};
}

ModuleEntry language_model_entry() {
  const auto make = [](const TransformerOptions& stack, bool tied) {
    LanguageModelOptions options{.symbols = 7, .max_length = 5, .tied = tied};
    options.stack = stack;
    options.stack.init = Initialiser::xavier;
    options.input_norm = tied;
    return [options](const Scope& s) { return LanguageModel(s, options); };
  };
  // Causal; row 1 has two positions of padding, and its query 1 sees nothing at all.
  const auto call = [](const LanguageModel& model, const Tensors&) {
    const Mask mask = Mask::lengths({4, 2}, 4) & blocked_row();
    return loss(model(some_ids(7, {2, 4}, 3), mask), padded_targets(7, 4, 5));
  };
  TransformerOptions alone = small(NormPlace::pre);
  alone.activation = Activation::none;
  return {
      "LanguageModel",
      "loss = cross_entropy(output(causal layers(table[ids] + positions)), next ids)",
      {make_case("LayerNorm, ReLU, biases, with its loss", {}, make(small(NormPlace::pre), false),
                 call, {"stack.layers.0.attention.key.bias"}),
       make_case("RMSNorm, SwiGLU, no biases, tied, with its loss", {}, make(modern(), true), call),
       make_case("attention alone, with its loss", {}, make(alone, false), call,
                 {"stack.layers.0.attention.key.bias"})}};
}

ModuleEntry encoder_decoder_entry() {
  const auto make = [](const TransformerOptions& stack, bool tied) {
    EncoderDecoderOptions options{.symbols = 6, .classes = 5, .tied = tied};
    options.stack = stack;
    options.stack.init = Initialiser::xavier;
    return [options](const Scope& s) { return EncoderDecoder(s, options); };
  };
  // Sources of 4 and 2; query 1 of target 1 sees none of its source.
  const auto call = [](const EncoderDecoder& model, const Tensors&) {
    const std::vector<std::int64_t> lengths{4, 2};
    const Tensor source = some_ids(6, {2, 4}, 3);
    const Memory memory{model.encode(source, lengths), Mask::lengths(lengths, 4) & blocked_row()};
    return loss(model.decode(some_ids(5, {2, 3}, 4), memory), padded_targets(5, 3, 5));
  };
  const std::vector<std::string> zero{"encoder.layers.0.attention.key.bias",
                                      "decoder.layers.0.attention.key.bias",
                                      "decoder.layers.0.cross.key.bias"};
  return {
      "EncoderDecoder",
      "loss = cross_entropy(output(decoder(target, encoder(source))), next ids)",
      {make_case("post-norm, with its loss", {}, make(small(NormPlace::post), false), call, zero),
       make_case("RMSNorm, SwiGLU, no biases, tied, with its loss", {}, make(modern(), true),
                 call)}};
}

// Two sequences of 16 symbols and their reverse, with the loss of the demo.
Tensors reversal_loss(const EncoderModel& model, const Tensors&) {
  Rng rng(11, Stream::check);
  std::vector<std::int64_t> ids(32), targets(32);
  for (std::int64_t& id : ids) id = rng.below(10);
  for (std::size_t i = 0; i < 32; ++i) targets[i] = ids[i / 16 * 16 + (15 - i % 16)];
  const Tensor logits = model(tensor(std::span<const std::int64_t>(ids), {2, 16}));
  return {cross_entropy(logits, tensor(std::span<const std::int64_t>(targets), {2, 16}))};
}

ModuleEntry encoder_model_entry() {
  const auto make = [](const Scope& s) { return EncoderModel(s, EncoderModelOptions{}); };
  const std::vector<std::string> zero{"encoder.layers.0.attention.key.bias"};
  return {"EncoderModel",
          "loss = cross_entropy(head(encoder(one_hot(ids) W + b + positions)), reversed ids)",
          {make_case("the demo: 10 symbols, length 16, width 32, 1 head, hidden 64, with its loss",
                     {}, make, reversal_loss, zero)}};
}

}  // namespace

std::vector<ModuleEntry> model_entries() {
  return {layer_entry(),          layers_entry(),          token_input_entry(),  pooled_entry(),
          language_model_entry(), encoder_decoder_entry(), encoder_model_entry()};
}

}  // namespace tapehead::detail

// The layer of every Transformer here, and the stack of them. `cross` is the attention over a
// memory that only decoders with an encoder have.
//   post-norm: h = norm1(x + attention(x));   h = cross_norm(h + cross(h, memory));
//              y = norm2(h + ffn(h))                                       Vaswani et al. 2017
//   pre-norm:  h = x + attention(norm1(x));   h = h + cross(cross_norm(h), memory);
//              y = h + ffn(norm2(h))                                       Xiong et al. 2020
#include <cmath>

#include <tapehead/models.hpp>

#include "core/message.hpp"
#include "nn/options.hpp"

namespace tapehead {
namespace {

LayerResult run(const TransformerLayer& layer, const Tensor& x, const LayerRun& how, CallSite at) {
  const InModule here(layer.path, at);
  const Memory& memory = how.memory;
  if (layer.cross.has_value() != memory.states.defined()) {
    detail::fail<ValueError>(layer.cross ? "transformer_layer: this layer attends to a memory, and "
                                           "none is given; pass the encoder's output"
                                         : "transformer_layer: a memory is given, but this layer "
                                           "has no cross-attention; build it with Cross::yes");
  }
  const bool pre = layer.place == NormPlace::pre;
  LayerResult result;
  // One branch beside the residual stream.
  const auto add_branch = [&](const Tensor& stream, const Norm& norm, auto&& branch) {
    if (pre) return stream + layer.dropout(branch(norm(stream)), how.rng);
    return norm(stream + layer.dropout(branch(stream), how.rng));
  };
  Tensor h = add_branch(x, layer.norm1, [&](const Tensor& in) {
    KeyValueCache* cache = how.cache == nullptr ? nullptr : &how.cache->own;
    MultiHeadResult seen = layer.attention.run(
        in, in, in, {how.mask, how.rng, Tensor(), how.weights, how.patch.own, cache});
    result.weights = std::move(seen.weights);
    return seen.output;
  });
  if (layer.cross) {
    h = add_branch(h, *layer.cross_norm, [&](const Tensor& in) {
      KeyValueCache* cache = how.cache == nullptr ? nullptr : &how.cache->cross;
      // The memory's keys and values are made once.
      const bool known = cache != nullptr && cache->keys.defined();
      const Tensor states = known ? Tensor() : memory.states;
      MultiHeadResult seen =
          layer.cross->run(in, states, states,
                           {memory.mask, how.rng, Tensor(), how.weights, how.patch.cross, cache});
      result.cross_weights = std::move(seen.weights);
      return seen.output;
    });
  }
  if (layer.ffn) {
    h = add_branch(h, *layer.norm2, [&](const Tensor& in) { return (*layer.ffn)(in, how.rng); });
  }
  result.output = std::move(h);
  return result;
}

StackResult run(const TransformerStack& stack, const Tensor& x, const StackRun& how, CallSite at) {
  const InModule here(stack.path, at);
  if (how.cache != nullptr) how.cache->layers.resize(stack.layers.size());
  StackResult result{x, {}, {}};
  for (std::size_t i = 0; i < stack.layers.size(); ++i) {
    const TransformerLayer& layer = stack.layers[i];
    LayerRun one{how.mask, how.memory, how.rng, how.weights};
    if (how.patch) one.patch = how.patch(static_cast<std::int64_t>(i));
    if (how.cache != nullptr) one.cache = &how.cache->layers[i];
    LayerResult next = run(layer, result.output, one, at);
    result.output = std::move(next.output);
    if (how.weights == Weights::none) continue;
    result.weights.push_back(std::move(next.weights));
    if (layer.cross) result.cross_weights.push_back(std::move(next.cross_weights));
  }
  if (stack.final_norm) result.output = (*stack.final_norm)(result.output);
  return result;
}

MultiHeadOptions attention_options(const TransformerOptions& options) {
  MultiHeadOptions attention{.width = options.width,
                             .heads = options.heads,
                             .bias = options.bias,
                             .qkv_bias = options.qkv_bias,
                             .dropout = options.dropout.attention,
                             .init = detail::weight_init(options.init),
                             .output_init = detail::residual_init(options.init, options.layers),
                             .variant = options.variant};
  if (options.init == Initialiser::fan_in) {
    attention.init = init::fan_in_uniform();
    attention.bias_init = init::fan_in_uniform(options.width);
  }
  return attention;
}

// A memory is another sequence: distances to it mean nothing.
MultiHeadOptions cross_options(const TransformerOptions& options) {
  MultiHeadOptions cross = attention_options(options);
  cross.variant.positions = Positions::none;
  cross.variant.window = 0;
  cross.variant.modifier = nullptr;
  return cross;
}

FeedForwardOptions ffn_options(const TransformerOptions& options) {
  return {.width = options.width,
          .hidden = options.hidden,
          .activation = options.activation,
          .dropout = options.dropout.hidden,
          .bias = options.bias,
          .init = detail::weight_init(options.init),
          .down_init = detail::residual_init(options.init, options.layers)};
}

}  // namespace

namespace detail {

NormOptions norm_options(const TransformerOptions& options) {
  return {.kind = options.norm,
          .eps = options.norm_eps,
          .gain = options.norm_gain,
          .bias = options.bias};
}

Init weight_init(Initialiser init) {
  switch (init) {
    case Initialiser::gpt: return init::normal(0.02);
    case Initialiser::xavier: return init::xavier_uniform();
    case Initialiser::standard:
    case Initialiser::fan_in: break;
  }
  return nullptr;
}

// Each layer adds two terms to the residual stream, whose variance so stays as at the first layer:
// Radford et al. 2019, section 2.3.
Init residual_init(Initialiser init, std::int64_t layers) {
  if (init != Initialiser::gpt) return weight_init(init);
  return init::normal(0.02 / std::sqrt(2.0 * static_cast<double>(layers)));
}

LinearOptions output_options(Initialiser init, bool bias) {
  if (!weight_init(init)) return {.bias = bias};
  return {.bias = bias, .weight_init = weight_init(init), .bias_init = init::constant(0)};
}

}  // namespace detail

TransformerLayer::TransformerLayer(const Scope& scope, const TransformerOptions& options,
                                   Cross wanted)
    : attention(scope / "attention", attention_options(detail::checked(scope, options))),
      norm1(scope / "norm1", options.width, detail::norm_options(options)),
      dropout(options.dropout.branch),
      place(options.place),
      path(scope.path()) {
  if (options.activation != Activation::none) {
    norm2.emplace(scope / "norm2", options.width, detail::norm_options(options));
    ffn.emplace(scope / "ffn", ffn_options(options));
  }
  if (wanted == Cross::yes) {
    cross.emplace(scope / "cross", cross_options(options));
    cross_norm.emplace(scope / "cross_norm", options.width, detail::norm_options(options));
  }
}

Tensor TransformerLayer::operator()(const Tensor& x, const Mask& mask, Rng* rng,
                                    CallSite at) const {
  return tapehead::run(*this, x, {.mask = mask, .rng = rng}, at).output;
}

Tensor TransformerLayer::operator()(const Tensor& x, const Mask& mask, const Memory& memory,
                                    Rng* rng, CallSite at) const {
  return tapehead::run(*this, x, {.mask = mask, .memory = memory, .rng = rng}, at).output;
}

LayerResult TransformerLayer::with_weights(const Tensor& x, const Mask& mask, const Memory& memory,
                                           Rng* rng, CallSite at) const {
  return tapehead::run(*this, x, {mask, memory, rng, Weights::per_head}, at);
}

LayerResult TransformerLayer::run(const Tensor& x, const LayerRun& how, CallSite at) const {
  return tapehead::run(*this, x, how, at);
}

TransformerStack::TransformerStack(const Scope& scope, const TransformerOptions& options,
                                   TransformerLayer::Cross cross, FinalNorm final)
    : path(scope.path()) {
  detail::checked(scope, options);
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers.emplace_back(scope / "layers" / i, options, cross);
  }
  if (options.place == NormPlace::pre && final == FinalNorm::yes) {
    final_norm.emplace(scope / "final_norm", options.width, detail::norm_options(options));
  }
}

Tensor TransformerStack::operator()(const Tensor& x, const Mask& mask, Rng* rng,
                                    CallSite at) const {
  return tapehead::run(*this, x, {.mask = mask, .rng = rng}, at).output;
}

Tensor TransformerStack::operator()(const Tensor& x, const Mask& mask, const Memory& memory,
                                    Rng* rng, CallSite at) const {
  return tapehead::run(*this, x, {.mask = mask, .memory = memory, .rng = rng}, at).output;
}

StackResult TransformerStack::with_weights(const Tensor& x, const Mask& mask, const Memory& memory,
                                           Rng* rng, CallSite at) const {
  return tapehead::run(*this, x, {mask, memory, rng, Weights::per_head}, at);
}

StackResult TransformerStack::run(const Tensor& x, const StackRun& how, CallSite at) const {
  return tapehead::run(*this, x, how, at);
}

}  // namespace tapehead

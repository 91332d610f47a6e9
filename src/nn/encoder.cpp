// The encoder layer and the stack of them.
//   post-norm: h = norm1(x + attention(x));   y = norm2(h + ffn(h))        Vaswani et al. 2017
//   pre-norm:  h = x + attention(norm1(x));   y = h + ffn(norm2(h))        Xiong et al. 2020
#include "nn/options.hpp"

namespace tapehead {
namespace {

MultiHeadResult attend(const EncoderLayer& layer, const Tensor& x, const Mask& mask,
                       bool want_weights) {
  if (want_weights) return layer.attention.with_weights(x, x, x, mask);
  return {layer.attention(x, mask), Tensor()};
}

MultiHeadResult run(const EncoderLayer& layer, const Tensor& x, const Mask& mask, Rng* rng,
                    bool want_weights) {
  const InModule here(layer.path);
  if (layer.norm == NormPlace::pre) {
    const MultiHeadResult seen = attend(layer, layer.norm1(x), mask, want_weights);
    const Tensor h = x + layer.dropout(seen.output, rng);
    return {h + layer.dropout(layer.ffn(layer.norm2(h), rng), rng), seen.weights};
  }
  const MultiHeadResult seen = attend(layer, x, mask, want_weights);
  const Tensor h = layer.norm1(x + layer.dropout(seen.output, rng));
  return {layer.norm2(h + layer.dropout(layer.ffn(h, rng), rng)), seen.weights};
}

EncoderResult run(const Encoder& encoder, const Tensor& x, const Mask& mask, Rng* rng,
                  bool want_weights) {
  const InModule here(encoder.path);
  EncoderResult result{x, {}};
  for (const EncoderLayer& layer : encoder.layers) {
    MultiHeadResult next = run(layer, result.output, mask, rng, want_weights);
    result.output = std::move(next.output);
    if (want_weights) result.weights.push_back(std::move(next.weights));
  }
  if (encoder.final_norm) result.output = (*encoder.final_norm)(result.output);
  return result;
}

}  // namespace

EncoderLayer::EncoderLayer(const Scope& scope, const EncoderOptions& options)
    : attention(scope / "attention",
                {.width = detail::checked(scope, options).width, .heads = options.heads}),
      norm1(scope / "norm1", options.width),
      norm2(scope / "norm2", options.width),
      ffn(scope / "ffn", {.width = options.width,
                          .hidden = options.hidden,
                          .activation = options.activation,
                          .dropout = options.dropout}),
      dropout(options.dropout),
      norm(options.norm),
      path(scope.path()) {}

Tensor EncoderLayer::operator()(const Tensor& x, const Mask& mask, Rng* rng) const {
  return run(*this, x, mask, rng, false).output;
}

MultiHeadResult EncoderLayer::with_weights(const Tensor& x, const Mask& mask, Rng* rng) const {
  return run(*this, x, mask, rng, true);
}

Encoder::Encoder(const Scope& scope, const EncoderOptions& options) : path(scope.path()) {
  detail::checked(scope, options);
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers.emplace_back(scope / "layers" / i, options);
  }
  if (options.norm == NormPlace::pre) final_norm.emplace(scope / "final_norm", options.width);
}

Tensor Encoder::operator()(const Tensor& x, const Mask& mask, Rng* rng) const {
  return run(*this, x, mask, rng, false).output;
}

EncoderResult Encoder::with_weights(const Tensor& x, const Mask& mask, Rng* rng) const {
  return run(*this, x, mask, rng, true);
}

}  // namespace tapehead

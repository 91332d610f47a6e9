// p(y_t+1 | y_0 .. y_t, x) = softmax of row t of decode(y, encode(x)). Vaswani et al. 2017.
#include <tapehead/models.hpp>

#include "core/message.hpp"
#include "nn/options.hpp"

namespace tapehead {
namespace {

const EncoderDecoderOptions& checked(const Scope& scope, const EncoderDecoderOptions& options) {
  detail::positive(scope, "encoder_decoder", "symbols", options.symbols);
  detail::positive(scope, "encoder_decoder", "classes", options.classes);
  detail::checked(scope, options.stack);
  return options;
}

// Nothing comes after a query, so T5's buckets all serve what is before it.
TransformerOptions causal_stack(const Scope& scope, const EncoderDecoderOptions& options) {
  TransformerOptions stack = detail::with_positions(scope, options.stack, options.positions);
  stack.variant.t5_both_ways = false;
  return stack;
}

TokenInputOptions input_options(const EncoderDecoderOptions& options, std::int64_t symbols) {
  return {.symbols = symbols,
          .width = options.stack.width,
          .positions = detail::input_positions(options.positions),
          .max_length = options.max_length,
          .scaled = options.scaled_input,
          .dropout = options.stack.dropout.embedding,
          .init = options.stack.init};
}

Tensor logits(const EncoderDecoder& model, const Tensor& states) {
  return model.output ? (*model.output)(states)
                      : detail::tied_output(states, model.target_input.weight);
}

}  // namespace

EncoderDecoder::EncoderDecoder(const Scope& scope, const EncoderDecoderOptions& given)
    : options(checked(scope, given)),
      source_input(scope / "source", input_options(options, options.symbols)),
      encoder(scope / "encoder", detail::with_positions(scope, options.stack, options.positions)),
      target_input(scope / "target", input_options(options, options.classes)),
      decoder(scope / "decoder", causal_stack(scope, options), TransformerLayer::Cross::yes),
      path(scope.path()) {
  if (options.tied) return;
  output.emplace(scope / "output", options.stack.width, options.classes,
                 detail::output_options(options.stack.init, true));
}

Tensor EncoderDecoder::encode(const Tensor& source, const std::vector<std::int64_t>& lengths,
                              Rng* rng, CallSite at) const {
  const InModule here(path, at);
  return encoder(source_input(source, rng), detail::padding_mask(source, lengths), rng);
}

Tensor EncoderDecoder::decode(const Tensor& target, const Memory& memory, Rng* rng,
                              CallSite at) const {
  const InModule here(path, at);
  const Tensor x = target_input(target, rng);
  return logits(*this, decoder(x, Mask::causal(x.dim(1)), memory, rng));
}

Tensor EncoderDecoder::step(const Tensor& target, const Memory& memory, DecodingCache& cache,
                            CallSite at) const {
  const InModule here(path, at);
  const std::int64_t first = cache.length();
  const Tensor x = target_input(target, nullptr, first);
  const Mask mask = Mask::causal(x.dim(1), first + x.dim(1), Align::last);
  return logits(*this, decoder.run(x, {.mask = mask, .memory = memory, .cache = &cache}).output);
}

Tensor EncoderDecoder::operator()(const Tensor& source, const std::vector<std::int64_t>& lengths,
                                  const Tensor& target, Rng* rng, CallSite at) const {
  return decode(target, {encode(source, lengths, rng, at), detail::padding_mask(source, lengths)},
                rng, at);
}

StackResult EncoderDecoder::with_weights(const Tensor& source,
                                         const std::vector<std::int64_t>& lengths,
                                         const Tensor& target, CallSite at) const {
  const InModule here(path, at);
  const Tensor x = target_input(target);
  StackResult result = decoder.with_weights(
      x, Mask::causal(x.dim(1)), {encode(source, lengths), detail::padding_mask(source, lengths)});
  result.output = logits(*this, result.output);
  return result;
}

}  // namespace tapehead

// ids -> TokenInput -> layers -> logits at every position, or once for the sequence.
#include <tapehead/models.hpp>

#include "core/message.hpp"
#include "nn/options.hpp"

namespace tapehead {
namespace {

Tensor logits(const EncoderModel& model, const Tensor& states,
              const std::vector<std::int64_t>& lengths) {
  if (model.head) return (*model.head)(states);
  if (model.linear) return (*model.linear)(states);
  return (*model.pooled)(states, lengths);
}

}  // namespace

EncoderModel::EncoderModel(const Scope& scope, const EncoderModelOptions& given)
    : options(detail::checked(scope, given)),
      input(scope, {.symbols = options.symbols,
                    .width = options.encoder.width,
                    .positions = detail::input_positions(options.positions),
                    .max_length = options.max_length,
                    .one_hot = options.one_hot,
                    .dropout = options.encoder.dropout.embedding,
                    .init = options.encoder.init}),
      encoder(scope / "encoder", detail::with_positions(scope, options.encoder, options.positions)),
      path(scope.path()) {
  const Scope here = scope / "head";
  const std::int64_t width = options.encoder.width;
  switch (options.head) {
    case EncoderHead::mlp: head.emplace(here, width, options.classes); break;
    case EncoderHead::linear:
      linear.emplace(here, width, options.classes,
                     detail::output_options(options.encoder.init, true));
      break;
    case EncoderHead::pooled: pooled.emplace(here, width, options.classes); break;
  }
}

Tensor EncoderModel::operator()(const Tensor& ids, const Mask& mask, Rng* rng, CallSite at) const {
  const InModule here(path, at);
  return logits(*this, encoder(input(ids, rng), mask, rng), {});
}

Tensor EncoderModel::padded(const Tensor& ids, const std::vector<std::int64_t>& lengths, Rng* rng,
                            CallSite at) const {
  const InModule here(path, at);
  const Mask mask = detail::padding_mask(ids, lengths);
  return logits(*this, encoder(input(ids, rng), mask, rng), lengths);
}

StackResult EncoderModel::with_weights(const Tensor& ids, const Mask& mask, CallSite at) const {
  const InModule here(path, at);
  StackResult result = encoder.with_weights(input(ids), mask);
  result.output = logits(*this, result.output, {});
  return result;
}

StackResult EncoderModel::padded_with_weights(const Tensor& ids,
                                              const std::vector<std::int64_t>& lengths,
                                              CallSite at) const {
  const InModule here(path, at);
  StackResult result = encoder.with_weights(input(ids), detail::padding_mask(ids, lengths));
  result.output = logits(*this, result.output, lengths);
  return result;
}

StackResult EncoderModel::run(const Tensor& ids, const std::vector<std::int64_t>& lengths,
                              const StackRun& how, CallSite at) const {
  const InModule here(path, at);
  StackRun padded = how;
  padded.mask = how.mask & detail::padding_mask(ids, lengths);
  StackResult result = encoder.run(input(ids, how.rng), padded);
  result.output = logits(*this, result.output, lengths);
  return result;
}

}  // namespace tapehead

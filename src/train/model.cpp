// One of three models behind one call.
#include <fmt/format.h>

#include <tapehead/runs.hpp>

#include "core/message.hpp"

namespace tapehead {
namespace {

using Any = std::variant<EncoderModel, LanguageModel, EncoderDecoder>;

Any build(const Scope& scope, const ModelConfig& config) {
  if (config.kind == ModelKind::language_model) {
    if (config.symbols != config.classes) {
      detail::fail<ValueError>(
          fmt::format("a language model says what it reads: {} symbols and {} classes differ",
                      config.symbols, config.classes));
    }
    return LanguageModel(scope, {.symbols = config.symbols,
                                 .positions = config.positions,
                                 .max_length = config.max_length,
                                 .tied = config.tied,
                                 .output_bias = config.output_bias,
                                 .scaled_input = config.scaled,
                                 .input_norm = config.input_norm,
                                 .final_norm = config.final_norm,
                                 .stack = config.stack});
  }
  if (config.kind == ModelKind::encoder_decoder) {
    return EncoderDecoder(scope, {.symbols = config.symbols,
                                  .classes = config.classes,
                                  .positions = config.positions,
                                  .max_length = config.max_length,
                                  .tied = config.tied,
                                  .scaled_input = config.scaled,
                                  .stack = config.stack});
  }
  return EncoderModel(scope, {.symbols = config.symbols,
                              .classes = config.classes,
                              .positions = config.positions,
                              .max_length = config.max_length,
                              .one_hot = config.one_hot,
                              .head = config.kind == ModelKind::classifier ? EncoderHead::pooled
                                      : config.mlp_head                    ? EncoderHead::mlp
                                                                           : EncoderHead::linear,
                              .encoder = config.stack});
}

}  // namespace

Model::Model(const Scope& scope, const ModelConfig& config)
    : config_(config), model_(build(scope, config)) {}

const EncoderModel* Model::encoder() const { return std::get_if<EncoderModel>(&model_); }
const LanguageModel* Model::language_model() const { return std::get_if<LanguageModel>(&model_); }
const EncoderDecoder* Model::encoder_decoder() const {
  return std::get_if<EncoderDecoder>(&model_);
}

Tensor Model::operator()(const Batch& batch, Rng* rng) const {
  if (const LanguageModel* model = language_model()) return (*model)(batch.inputs, rng);
  if (const EncoderDecoder* model = encoder_decoder()) {
    return (*model)(batch.inputs, batch.lengths, batch.decoder, rng);
  }
  const Tensor logits = encoder()->padded(batch.inputs, batch.lengths, rng);
  if (config_.kind == ModelKind::encoder) return logits;
  return reshape(logits, {logits.dim(0), 1, logits.dim(1)});
}

StackResult Model::with_weights(const Batch& batch) const {
  if (const LanguageModel* model = language_model()) return model->with_weights(batch.inputs);
  if (const EncoderDecoder* model = encoder_decoder()) {
    return model->with_weights(batch.inputs, batch.lengths, batch.decoder);
  }
  const Mask mask =
      batch.lengths.empty() ? Mask() : Mask::lengths(batch.lengths, batch.inputs.dim(1));
  return encoder()->with_weights(batch.inputs, mask);
}

}  // namespace tapehead

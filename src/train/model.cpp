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
  if (config.tied)
    detail::fail<ValueError>("tied: an encoder reads and answers with tables of its own");
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

// A classifier's one answer to a sequence, as a sequence of one: [B,classes] -> [B,1,classes].
Tensor Model::as_sequence(const Tensor& logits) const {
  if (config_.kind != ModelKind::classifier) return logits;
  return reshape(logits, {logits.dim(0), 1, logits.dim(1)});
}

Tensor Model::operator()(const Batch& batch, Rng* rng) const {
  if (const LanguageModel* model = language_model()) return (*model)(batch.inputs, rng);
  if (const EncoderDecoder* model = encoder_decoder()) {
    return (*model)(batch.inputs, batch.lengths, batch.decoder, rng);
  }
  return as_sequence(encoder()->padded(batch.inputs, batch.lengths, rng));
}

StackResult Model::with_weights(const Batch& batch) const {
  if (const LanguageModel* model = language_model()) return model->with_weights(batch.inputs);
  if (const EncoderDecoder* model = encoder_decoder()) {
    return model->with_weights(batch.inputs, batch.lengths, batch.decoder);
  }
  StackResult result = encoder()->padded_with_weights(batch.inputs, batch.lengths);
  result.output = as_sequence(result.output);
  return result;
}

std::int64_t matrix_flops(const Param& param, const ModelConfig& config) {
  if (param.shape().rank() < 2) return 0;
  const std::string_view name = param.name();
  const bool encoder = config.kind == ModelKind::encoder || config.kind == ModelKind::classifier;
  const bool table = name.ends_with("input.weight") && !(encoder && config.one_hot);
  const bool looked_up = table || name.ends_with("positions.weight");
  const bool output = config.tied && (name == "input.weight" || name == "target.input.weight");
  return looked_up && !output ? 0 : 2 * param.shape().size();
}

}  // namespace tapehead

// The three models behind one call.
#include <tapehead/runs.hpp>

#include "support/catch.hpp"

using namespace tapehead;

TEST_CASE("looking inside a model gives the logits of using it, padded rows included") {
  for (const ModelKind kind : {ModelKind::encoder, ModelKind::classifier, ModelKind::language_model,
                               ModelKind::encoder_decoder}) {
    Params params(4, DType::f64);
    ModelConfig config{.kind = kind, .symbols = 5, .classes = 5, .max_length = 4};
    config.stack = {.layers = 2, .width = 8, .heads = 2, .hidden = 12};
    const Model model(params, config);
    const std::vector<std::int64_t> ids{1, 4, 2, 0, 3, 3, 0, 1};
    Batch batch{.inputs = tensor(std::span<const std::int64_t>(ids), {2, 4})};
    batch.lengths = {4, 2};
    batch.decoder = batch.inputs;
    const Tensor logits = model(batch);
    const StackResult inside = model.with_weights(batch);
    CHECK(logits.shape() == Shape{2, kind == ModelKind::classifier ? 1 : 4, 5});
    CHECK(same_bits(logits, inside.output));
    CHECK(inside.weights.size() == 2);
  }
}

TEST_CASE("what stands in the padding changes no logit of a classifier, seen from inside or not") {
  Params params(4, DType::f64);
  ModelConfig config{.kind = ModelKind::classifier, .symbols = 5, .classes = 3, .max_length = 4};
  config.stack = {.layers = 1, .width = 8, .heads = 2, .hidden = 12};
  const Model model(params, config);
  const auto logits = [&](std::int64_t padding) {
    const std::vector<std::int64_t> ids{1, 2, padding, padding};
    return model
        .with_weights(
            {.inputs = tensor(std::span<const std::int64_t>(ids), {1, 4}), .lengths = {2}})
        .output;
  };
  CHECK(same_bits(logits(0), logits(4)));
}

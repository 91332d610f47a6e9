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

TEST_CASE("FLOPs of a token are two for each element of what is multiplied with") {
  const auto total = [](const ModelConfig& config) {
    Params params(1);
    const Model model(params, config);
    std::int64_t sum = 0;
    for (const Param& param : params.all()) sum += matrix_flops(param, config);
    return sum;
  };
  ModelConfig config{.kind = ModelKind::language_model, .symbols = 7, .classes = 7};
  config.positions = Positions::learned;
  config.one_hot = false;
  config.stack = {.layers = 2, .width = 8, .heads = 2, .hidden = 24};
  // Four projections and two matrices of the feed-forward a layer; then the output.
  const std::int64_t layers = 2 * 2 * (4 * 8 * 8 + 2 * 8 * 24);
  CHECK(total(config) == layers + 2 * 8 * 7);
  config.tied = true;
  CHECK(total(config) == layers + 2 * 8 * 7);
  // One-hot ids are multiplied with, as the published encoder has it; TokenHead has two matrices.
  config = {.kind = ModelKind::encoder, .symbols = 7, .classes = 5};
  config.stack = {.layers = 2, .width = 8, .heads = 2, .hidden = 24};
  CHECK(total(config) == 2 * 7 * 8 + layers + 2 * (8 * 8 + 8 * 5));
}

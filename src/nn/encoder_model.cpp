// ids -> one-hot -> Linear -> + positions -> Encoder -> TokenHead -> logits.
#include <fmt/format.h>

#include "core/message.hpp"
#include "nn/options.hpp"

namespace tapehead {
namespace {

Tensor embed(const EncoderModel& model, const Tensor& ids) {
  detail::check_dtype("encoder_model", ids, DType::i64, "ids");
  if (ids.rank() != 2) {
    detail::fail<ShapeError>(fmt::format("encoder_model: ids are {}, but must be [batch, time]",
                                         to_string(ids.shape())));
  }
  const Tensor x =
      model.input(one_hot(ids, model.options.symbols, model.input.weight.dtype()));  // [B,T,D]
  if (model.learned) return (*model.learned)(x);
  if (!model.sinusoids.defined()) return x;
  const std::int64_t time = x.dim(1);
  const std::int64_t width = x.dim(2);
  const std::int64_t rows = model.sinusoids.dim(0);
  const Tensor positions = time == rows  ? model.sinusoids
                           : time < rows ? slice(model.sinusoids, 0, 0, time)
                                         : sinusoidal_positions(time, width, x.dtype());
  return x + reshape(positions, {1, time, width});
}

}  // namespace

EncoderModel::EncoderModel(const Scope& scope, const EncoderModelOptions& given)
    : options(detail::checked(scope, given)),
      input(scope / "input", options.symbols, options.encoder.width),
      encoder(scope / "encoder", options.encoder),
      head(scope / "head", options.encoder.width, options.classes),
      path(scope.path()) {
  if (options.positions == Positions::learned) {
    learned.emplace(scope / "positions", options.max_length, options.encoder.width);
  } else if (options.positions == Positions::sinusoidal) {
    sinusoids = sinusoidal_positions(options.max_length, options.encoder.width, scope.dtype());
  }
}

Tensor EncoderModel::operator()(const Tensor& ids, const Mask& mask, Rng* rng) const {
  const InModule here(path);
  return head(encoder(embed(*this, ids), mask, rng));
}

EncoderResult EncoderModel::with_weights(const Tensor& ids, const Mask& mask) const {
  const InModule here(path);
  EncoderResult result = encoder.with_weights(embed(*this, ids), mask);
  result.output = head(result.output);
  return result;
}

}  // namespace tapehead

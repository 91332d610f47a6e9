// ids -> rows of a table, or one-hot W + b
//     [-> times sqrt(D)] -> + positions [-> norm] [-> dropout].
#include <cmath>

#include <fmt/format.h>

#include <tapehead/models.hpp>

#include "core/message.hpp"
#include "nn/options.hpp"

namespace tapehead {
namespace {

const TokenInputOptions& checked(const Scope& scope, const TokenInputOptions& options) {
  detail::positive(scope, "token_input", "symbols", options.symbols);
  detail::positive(scope, "token_input", "width", options.width);
  detail::positive(scope, "token_input", "max_length", options.max_length);
  detail::probability(scope, "token_input", options.dropout);
  return options;
}

Init table_init(Initialiser init) {
  if (init == Initialiser::fan_in) return init::normal(1);
  return init == Initialiser::standard ? init::normal(0.02) : detail::weight_init(init);
}

Tensor with_positions(const TokenInput& input, const Tensor& x, std::int64_t first) {
  const std::int64_t width = x.dim(2);
  const std::int64_t end = first + x.dim(1);
  const bool learned = input.positions.defined();
  const std::int64_t rows = input.options.max_length;
  if (!learned && !input.sinusoids.defined()) return x;
  if (learned && end > rows) {
    detail::fail<ShapeError>(fmt::format(
        "token_input: a sequence of length {} is longer than the table of {} positions; "
        "shorten the input or build the model with a larger max_length",
        end, rows));
  }
  const Tensor table = learned       ? Tensor(input.positions)
                       : end <= rows ? input.sinusoids
                                     : sinusoidal_positions(end, width, x.dtype());
  const Tensor used = first == 0 && end == table.dim(0) ? table : slice(table, 0, first, end);
  return x + reshape(used, {1, x.dim(1), width});
}

}  // namespace

TokenInput::TokenInput(const Scope& scope, const TokenInputOptions& given)
    : options(checked(scope, given)), dropout(options.dropout), path(scope.path()) {
  const Scope here = scope / "input";
  const Shape table{options.symbols, options.width};
  if (options.one_hot) {
    const LinearOptions linear = detail::output_options(options.init, true);
    weight = here.param("weight", table, linear.weight_init);
    bias = here.param("bias", {options.width},
                      linear.bias_init ? linear.bias_init : init::fan_in_uniform(options.symbols),
                      Decay::no);
  } else {
    weight = here.param("weight", table, table_init(options.init));
  }
  if (options.positions == Positions::learned) {
    positions = (scope / "positions")
                    .param("weight", {options.max_length, options.width}, table_init(options.init));
  } else if (options.positions == Positions::sinusoidal) {
    sinusoids = sinusoidal_positions(options.max_length, options.width, scope.dtype());
  }
  if (options.norm) norm.emplace(scope / "input_norm", options.width, *options.norm);
}

Tensor TokenInput::operator()(const Tensor& ids, Rng* rng, std::int64_t first, CallSite at) const {
  const InModule here(path, at);
  detail::check_dtype("token_input", ids, DType::i64, "ids");
  if (ids.rank() != 2) {
    detail::fail<ShapeError>(
        fmt::format("token_input: ids are {}, but must be [batch, time]", to_string(ids.shape())));
  }
  Tensor x = options.one_hot ? linear(one_hot(ids, options.symbols, weight.dtype()), weight, bias)
                             : embedding(weight, ids);  // [B,T,D]
  if (options.scaled) x = x * std::sqrt(static_cast<double>(options.width));
  x = with_positions(*this, x, first);
  if (norm) x = (*norm)(x);
  return dropout(x, rng);
}

}  // namespace tapehead

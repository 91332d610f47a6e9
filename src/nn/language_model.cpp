// The decoder: p(x_t+1 | x_0 .. x_t) = softmax of row t of the logits. Radford et al. 2018.
#include <tapehead/models.hpp>

#include "core/message.hpp"
#include "nn/options.hpp"

namespace tapehead {
namespace {

const LanguageModelOptions& checked(const Scope& scope, const LanguageModelOptions& options) {
  detail::positive(scope, "language_model", "symbols", options.symbols);
  detail::checked(scope, options.stack);
  return options;
}

// Nothing comes after a query, so T5's buckets all serve what is before it.
TransformerOptions causal_stack(const Scope& scope, const LanguageModelOptions& options) {
  TransformerOptions stack = detail::with_positions(scope, options.stack, options.positions);
  stack.variant.t5_both_ways = false;
  return stack;
}

Tensor logits(const LanguageModel& model, const Tensor& states) {
  return model.output ? (*model.output)(states) : detail::tied_output(states, model.input.weight);
}

}  // namespace

namespace detail {

Tensor tied_output(const Tensor& x, const Tensor& table) {
  const Tensor rows = reshape(x, {x.dim(0) * x.dim(1), x.dim(2)});
  return reshape(matmul(rows, table, {.transpose_b = true}), {x.dim(0), x.dim(1), table.dim(0)});
}

}  // namespace detail

LanguageModel::LanguageModel(const Scope& scope, const LanguageModelOptions& given)
    : options(checked(scope, given)),
      input(scope, {.symbols = options.symbols,
                    .width = options.stack.width,
                    .positions = detail::input_positions(options.positions),
                    .max_length = options.max_length,
                    .scaled = options.scaled_input,
                    .norm = options.input_norm
                                ? std::optional<NormOptions>(detail::norm_options(options.stack))
                                : std::nullopt,
                    .dropout = options.stack.dropout.embedding,
                    .init = options.stack.init}),
      stack(
          scope / "stack", causal_stack(scope, options), TransformerLayer::Cross::no,
          options.final_norm ? TransformerStack::FinalNorm::yes : TransformerStack::FinalNorm::no),
      path(scope.path()) {
  if (options.tied) return;
  output.emplace(scope / "output", options.stack.width, options.symbols,
                 detail::output_options(options.stack.init, options.output_bias));
}

StackResult LanguageModel::run(const Tensor& ids, const StackRun& how, CallSite at) const {
  const InModule here(path, at);
  const std::int64_t first = how.cache == nullptr ? 0 : how.cache->length();
  const Tensor x = input(ids, how.rng, first);
  StackRun causal = how;
  causal.mask = how.mask & Mask::causal(x.dim(1), first + x.dim(1), Align::last);
  StackResult result = stack.run(x, causal);
  result.output = logits(*this, result.output);
  return result;
}

Tensor LanguageModel::operator()(const Tensor& ids, Rng* rng, CallSite at) const {
  return run(ids, {.rng = rng}, at).output;
}

Tensor LanguageModel::operator()(const Tensor& ids, const Mask& mask, Rng* rng, CallSite at) const {
  return run(ids, {.mask = mask, .rng = rng}, at).output;
}

StackResult LanguageModel::with_weights(const Tensor& ids, CallSite at) const {
  return run(ids, {.weights = Weights::per_head}, at);
}

Tensor LanguageModel::step(const Tensor& ids, DecodingCache& cache, CallSite at) const {
  return run(ids, {.cache = &cache}, at).output;
}

}  // namespace tapehead

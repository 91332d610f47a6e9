#include <tapehead/train.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead {
namespace {

double interval(std::int64_t right, std::int64_t count) {
  const auto n = static_cast<double>(count);
  const double p = static_cast<double>(right) / n;
  return 1.96 * std::sqrt(p * (1 - p) / n);
}

}  // namespace

double Evaluation::accuracy_interval() const { return interval(tokens_right, tokens); }
double Evaluation::exact_interval() const { return interval(sequences_right, sequences); }
double Evaluation::perplexity() const { return std::exp(loss); }
double Evaluation::bits() const { return loss / std::log(2.0); }

Evaluation count_right(const Tensor& logits, const Tensor& targets) {
  if (logits.rank() != 3 || targets.rank() != 2 || logits.shape().without(2) != targets.shape()) {
    detail::fail<ShapeError>(fmt::format(
        "count_right: needs logits [batch, time, classes] and targets [batch, time], got {} and {}",
        to_string(logits.shape()), to_string(targets.shape())));
  }
  const Tensor predicted = argmax(logits);
  const auto found = predicted.data<std::int64_t>();
  const auto wanted = targets.data<std::int64_t>();
  const auto length = static_cast<std::size_t>(targets.dim(1));

  Evaluation counts;
  counts.sequences = targets.dim(0);
  for (std::size_t row = 0; row < static_cast<std::size_t>(counts.sequences); ++row) {
    std::int64_t right = 0;
    std::int64_t asked = 0;
    for (std::size_t t = row * length; t < (row + 1) * length; ++t) {
      asked += wanted[t] == kIgnored ? 0 : 1;
      right += found[t] == wanted[t] ? 1 : 0;
    }
    counts.tokens += asked;
    counts.tokens_right += right;
    counts.sequences_right += right == asked ? 1 : 0;
  }
  return counts;
}

Evaluation evaluate(const SequenceModel& model, const Sequences& data, std::int64_t batch) {
  if (batch < 1) {
    detail::fail<ValueError>(fmt::format("evaluate: batch must be at least 1, got {}", batch));
  }
  if (!model) detail::fail<ValueError>("evaluate: the model is an empty function");
  if (!data.inputs.defined() || data.inputs.size() == 0) {
    detail::fail<ValueError>("evaluate: the split holds no tokens, so there is nothing to count");
  }
  Evaluation total;
  double loss = 0;
  for (std::int64_t begin = 0; begin < data.count(); begin += batch) {
    const std::int64_t end = std::min(begin + batch, data.count());
    const Batch part = data.take(begin, end);
    const Tensor logits = model(part, nullptr);
    loss += cross_entropy_sums(logits, part.targets, {.ignore = kIgnored}).sum.item();
    const Evaluation counts = count_right(logits, part.targets);
    total.tokens += counts.tokens;
    total.tokens_right += counts.tokens_right;
    total.sequences += counts.sequences;
    total.sequences_right += counts.sequences_right;
  }
  if (total.tokens > 0) total.loss = loss / static_cast<double>(total.tokens);
  return total;
}

}  // namespace tapehead

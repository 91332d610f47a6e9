#include <tapehead/generate.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead {

using detail::fail;

namespace {

using Ids = std::vector<std::int64_t>;

std::vector<double> last_row(const Tensor& logits) {
  const Tensor row = cast(slice(logits, 1, logits.dim(1) - 1, logits.dim(1)), DType::f64);
  return row.to_vector<double>();
}

Tensor one_row(std::span<const std::int64_t> ids) {
  return tensor(ids, {1, static_cast<std::int64_t>(ids.size())});
}

// What a model has seen, so that only new ids go through it.
class Past {
 public:
  // Whether other parameters made it, which are gone.
  bool forget_older(std::uint64_t version) {
    const bool older = version != version_;
    if (older) *this = {};
    version_ = version;
    return older;
  }

  // step(ids [1,n], cache) gives logits [1,n,V] of ids that come after those of the cache.
  template <class Step>
  std::vector<double> last_logits(std::span<const std::int64_t> ids, Step step) {
    if (ids.empty()) return last_row(step(one_row(ids), cache_));  // which refuses
    std::size_t same = 0;
    const std::size_t most = std::min(ids.size() - 1, ids_.size());
    while (same < most && ids_[same] == ids[same]) ++same;
    ids_.resize(same);
    cache_.truncate(static_cast<std::int64_t>(same));
    const std::vector<double> logits = last_row(step(one_row(ids.subspan(same)), cache_));
    ids_.assign(ids.begin(), ids.end());
    return logits;
  }

  Tensor memory;  // of a source, if there is one

 private:
  std::uint64_t version_ = 0;
  Ids ids_;
  DecodingCache cache_;
};

// Ids from the largest logit down; of equals the smaller id first.
std::vector<std::size_t> order_of(std::span<const double> logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  return order;
}

std::vector<double> log_probabilities(std::vector<double> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double z : logits) total += std::exp(z - most);
  for (double& z : logits) z -= most + std::log(total);
  return logits;
}

}  // namespace

NextToken next_token(const LanguageModel& model) {
  return [&model, past = std::make_shared<Past>()](std::span<const std::int64_t> ids) {
    const auto most = static_cast<std::size_t>(model.options.max_length);
    const bool limited = model.options.positions == Positions::learned;
    if (limited && ids.size() > most) ids = ids.last(most);
    (void)past->forget_older(model.input.weight.version());
    return past->last_logits(
        ids, [&](const Tensor& more, DecodingCache& cache) { return model.step(more, cache); });
  };
}

NextToken next_token(const EncoderDecoder& model, std::span<const std::int64_t> source) {
  const auto past = std::make_shared<Past>();
  const auto encode = [&model, past, source = one_row(source)] {
    const bool older = past->forget_older(model.target_input.weight.version());
    if (older || !past->memory.defined()) past->memory = detach(model.encode(source));
  };
  encode();  // a source that does not fit is refused here
  return [&model, past, encode](std::span<const std::int64_t> ids) {
    encode();
    return past->last_logits(ids, [&](const Tensor& more, DecodingCache& cache) {
      return model.step(more, {past->memory}, cache);
    });
  };
}

void check(const SamplingOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    fail<ValueError>(
        fmt::format("temperature must be finite and 0 or more, got {}", options.temperature));
  }
  if (options.top_k < 0) {
    fail<ValueError>(fmt::format("top-k must be 0 or more, got {}", options.top_k));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    fail<ValueError>(fmt::format("top-p must be above 0 and at most 1, got {}", options.top_p));
  }
}

std::int64_t sample(std::span<const double> logits, const SamplingOptions& options, Rng& rng) {
  check(options);
  if (logits.empty()) fail<ValueError>("sample: there are no logits to choose from");
  for (const double z : logits) {
    if (!std::isfinite(z)) {
      fail<NonFiniteError>("sample: a logit is NaN or infinite: the model's weights are no good");
    }
  }
  std::vector<std::size_t> order = order_of(logits);
  if (options.temperature == 0) return static_cast<std::int64_t>(order[0]);
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < order.size()) {
    order.resize(static_cast<std::size_t>(options.top_k));
  }
  std::vector<double> weights;
  double total = 0;
  for (const std::size_t id : order) {
    weights.push_back(std::exp((logits[id] - logits[order[0]]) / options.temperature));
    total += weights.back();
  }
  if (options.top_p < 1) {
    double reached = 0;
    std::size_t kept = 0;
    while (kept < weights.size() && reached < options.top_p * total) reached += weights[kept++];
    weights.resize(kept);
    total = reached;
  }
  double left = rng.uniform() * total;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return static_cast<std::int64_t>(order[i]);
  }
  return static_cast<std::int64_t>(order[weights.size() - 1]);  // rounding
}

std::vector<std::int64_t> generate(const NextToken& next, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options, Rng& rng) {
  check(options.sampling);
  if (prompt.empty()) fail<ValueError>("generate: the prompt is empty; begin with a start symbol");
  const std::size_t given = prompt.size();
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::int64_t id = sample(next(prompt), options.sampling, rng);
    if (options.stop && id == *options.stop) break;
    prompt.push_back(id);
    if (options.each) options.each(id);
  }
  prompt.erase(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(given));
  return prompt;
}

std::vector<Beam> beam_search(const NextToken& next, const std::vector<std::int64_t>& prompt,
                              std::int64_t tokens, std::optional<std::int64_t> stop,
                              std::int64_t width) {
  if (width < 1)
    fail<ValueError>(fmt::format("beam search: width must be 1 or more, got {}", width));
  if (prompt.empty()) fail<ValueError>("beam search: the prompt is empty");
  const auto better = [](const Beam& a, const Beam& b) {
    return a.log_probability > b.log_probability;
  };
  const auto cut = [&](std::vector<Beam>& beams) {
    std::stable_sort(beams.begin(), beams.end(), better);
    if (beams.size() > static_cast<std::size_t>(width)) {
      beams.resize(static_cast<std::size_t>(width));
    }
  };
  std::vector<Beam> open(1);
  std::vector<Beam> done;
  for (std::int64_t i = 0; i < tokens && !open.empty(); ++i) {
    std::vector<Beam> longer;
    for (const Beam& beam : open) {
      Ids ids = prompt;
      ids.insert(ids.end(), beam.ids.begin(), beam.ids.end());
      const std::vector<double> logs = log_probabilities(next(ids));
      for (std::size_t id = 0; id < logs.size(); ++id) {
        Beam one{beam.ids, beam.log_probability + logs[id]};
        if (stop && static_cast<std::int64_t>(id) == *stop) {
          done.push_back(std::move(one));
        } else {
          one.ids.push_back(static_cast<std::int64_t>(id));
          longer.push_back(std::move(one));
        }
      }
      cut(longer);
    }
    cut(done);
    open = std::move(longer);
    // Every further token costs probability: what is behind the worst finished one stays there.
    if (done.size() == static_cast<std::size_t>(width)) {
      std::erase_if(open, [&](const Beam& beam) { return !better(beam, done.back()); });
    }
  }
  done.insert(done.end(), open.begin(), open.end());
  cut(done);
  return done;
}

}  // namespace tapehead

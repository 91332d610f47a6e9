// induction: on a sequence whose second half repeats the first, a head of the second layer comes to
// look at the token behind the earlier occurrence of the present one.  Olsson et al. 2022. A single
// layer cannot know what stood before a key; but where the half is always 16 tokens long it need
// not know, and looks 15 positions back. So induction-varied repeats a part of random length.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/message.hpp"
#include "reproduce/catalog.hpp"

namespace tapehead::detail {

namespace {

struct Scores {
  double first = 0;  // after the first step
  double last = 0;
  std::int64_t reached = 0;  // first step measured above 0.4
};

constexpr std::int64_t kMeasureEvery = 20;

std::vector<Finding> run_induction(const Reproduction& self, const ReproduceOptions& options) {
  std::vector<Finding> findings;
  for (std::int64_t i = 0; i < seeds_of(self, options); ++i) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(i);
    for (const std::int64_t layers : {2, 1}) {
      Reproduction entry = self;
      entry.config.model.stack.layers = layers;
      RunConfig config = entry.config;
      config.fit.seed = seed;
      const Batch probe = load(config).data.test.take(0, 256);
      const std::vector<std::int64_t> periods = periods_of(probe);
      Scores scores;
      const auto trained =
          train_one(entry, options, seed, [&](const Model& model, const StepReport& report) {
            if (report.step != 1 && report.step % kMeasureEvery != 0) return;
            scores.last = induction_score(model.with_weights(probe).weights.back(), periods);
            if (report.step == 1) scores.first = scores.last;
            if (scores.reached == 0 && scores.last > 0.4) scores.reached = report.step;
          });
      if (!trained) return {};
      if (layers == 2) {
        findings.push_back(
            {fmt::format("score after step 600, seed {}", seed), "> 0.4",
             fmt::format("{:.3f} from {:.3f} after step 1; > 0.4 {}", scores.last, scores.first,
                         scores.reached == 0 ? std::string("never")
                                             : fmt::format("at step {}", scores.reached)),
             scores.last > 0.4});
      } else {
        findings.push_back({fmt::format("of one layer alone, seed {}", seed), "< 0.15",
                            fmt::format("{:.3f}", scores.last), scores.last < 0.15});
      }
    }
  }
  return findings;
}

Reproduction induction_entry(const char* name, const char* task, const char* what) {
  Reproduction entry{.name = name,
                     .what = what,
                     .source = "Olsson et al. 2022, in small",
                     .published = "score from about 0.07 to > 0.4 by step 600; one layer < 0.15",
                     .minutes = 0.2};
  RunConfig& config = entry.config;
  config.task = task;
  config.options = {.symbols = 28, .length = 32};
  config.model.positions = Positions::sinusoidal;
  config.model.one_hot = false;
  config.model.scaled = true;
  config.model.tied = true;
  config.model.output_bias = false;
  config.model.stack = {.layers = 2,
                        .width = 32,
                        .heads = 2,
                        .activation = Activation::none,
                        .norm = NormKind::none,
                        .bias = false,
                        .init = Initialiser::xavier};
  FitOptions& fit = config.fit;
  fit.steps = 600;
  fit.batch = 16;
  fit.lr = 1e-2;
  fit.schedule = Schedule::constant;
  fit.warmup = 0;
  fit.weight_decay = 0.01;
  fit.decay_all = true;
  fit.clip = std::numeric_limits<double>::infinity();
  fit.evaluate_every = 200;
  config.sizes = {.train = fit.steps * fit.batch, .validation = 256, .test = 256};
  entry.run = run_induction;
  return entry;
}

}  // namespace

std::vector<std::int64_t> periods_of(const Batch& batch) {
  std::vector<std::int64_t> periods;
  for (std::int64_t row = 0; row < batch.targets.dim(0); ++row) {
    std::int64_t t = 0;
    while (t + 1 < batch.targets.dim(1) && batch.targets.at({row, t}) == kIgnored) ++t;
    periods.push_back(t);
  }
  return periods;
}

double induction_score(const Tensor& weights, const std::vector<std::int64_t>& periods) {
  const bool shaped = weights.rank() == 4 && weights.dim(2) == weights.dim(3) &&
                      weights.dim(0) == std::ssize(periods);
  const auto within = [&](std::int64_t period) { return period >= 1 && period < weights.dim(2); };
  if (!shaped || periods.empty() || !std::all_of(periods.begin(), periods.end(), within)) {
    fail<ShapeError>(fmt::format(
        "induction_score: needs weights [batch, heads, time, time] and a period below time for "
        "each row, got {} and {} periods",
        to_string(weights.shape()), periods.size()));
  }
  double best = 0;
  for (std::int64_t head = 0; head < weights.dim(1); ++head) {
    double sum = 0;
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < weights.dim(0); ++row) {
      const std::int64_t period = periods[static_cast<std::size_t>(row)];
      for (std::int64_t t = period; t < weights.dim(2); ++t, ++count) {
        sum += weights.at({row, head, t, t - period + 1});
      }
    }
    best = std::max(best, sum / static_cast<double>(count));
  }
  return best;
}

Reproduction induction_reproduction() {
  return induction_entry(
      "induction", "repeat",
      "attention alone, 2 layers of 2 heads: the second half of 32 tokens is the "
      "first");
}

Reproduction induction_varied_reproduction() {
  return induction_entry(
      "induction-varied", "induction",
      "the same, but a part of 8 to 16 tokens repeats: place alone tells nothing");
}

}  // namespace tapehead::detail

// Many runs side by side.
#include <algorithm>
#include <cmath>
#include <limits>

#include <tapehead/trials.hpp>

#include "support/catch.hpp"
#include "train/median.hpp"

using namespace tapehead;

namespace {

RunConfig tiny() {
  RunConfig config = default_config("reverse");
  config.options.symbols = 4;
  config.options.length = 4;
  config.sizes = {.train = 256, .validation = 50, .test = 50};
  config.model.stack.width = 16;
  config.model.stack.hidden = 32;
  config.fit.seed = 3;
  config.fit.epochs = 6;
  config.fit.batch = 32;
  config.fit.warmup = 4;
  config.fit.lr = 5e-3;
  return config;
}

std::uint64_t alone(RunConfig config) {
  const Loaded problem = load(config);
  Params params(config.fit.seed);
  const Model model(params, config.model);
  return fit(
             params, [&](const Batch& batch, Rng* rng) { return model(batch, rng); }, problem.data,
             config.fit)
      .fingerprint;
}

Trial made_up(std::int64_t solved_at, std::vector<double> accuracies, double loss) {
  Trial trial;
  trial.begun = true;
  trial.solved_at = solved_at;
  for (const double accuracy : accuracies) {
    trial.result.validation.push_back(
        {.loss = loss,
         .tokens = 1000,
         .tokens_right = static_cast<std::int64_t>(std::lround(1000 * accuracy))});
  }
  return trial;
}

}  // namespace

TEST_CASE("trials side by side have the bits of the same runs alone") {
  const std::vector<RunConfig> configs = with_seeds(tiny(), 3);
  REQUIRE(configs.size() == 3);
  std::vector<std::size_t> done;
  TrialOptions options{.solved = 0.9, .threads = 2};
  options.done = [&](std::size_t index, const Trial&) { done.push_back(index); };
  const std::vector<Trial> trials = run_trials(configs, options);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(trials[i].config.fit.seed == 3 + i);
    CHECK(trials[i].result.fingerprint == alone(configs[i]));
    CHECK(trials[i].steps == std::vector<std::int64_t>{8, 16, 24, 32, 40, 48});
    // The first evaluation that is good enough.
    std::int64_t first = 0;
    for (std::size_t e = 0; e < 6 && first == 0; ++e) {
      if (trials[i].result.validation[e].accuracy() >= 0.9) first = trials[i].steps[e];
    }
    CHECK(trials[i].solved_at == first);
  }
  std::sort(done.begin(), done.end());
  CHECK(done == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("a trial that explodes is counted, the others go on") {
  std::vector<RunConfig> configs = with_seeds(tiny(), 2);
  configs[0].fit.lr = 1e30;
  configs[0].fit.clip = std::numeric_limits<double>::infinity();
  const std::vector<Trial> trials = run_trials(configs, {.threads = 2});
  CHECK_THAT(trials[0].error, ContainsSubstring("stopped the run"));
  CHECK(trials[0].solved_at == 0);
  CHECK(trials[1].error.empty());
  CHECK(trials[1].result.fingerprint == alone(configs[1]));
}

TEST_CASE("what one trial would refuse is known before any begins") {
  std::vector<RunConfig> configs = with_seeds(tiny(), 2);
  configs[1].model.stack.heads = 3;
  bool begun = false;
  TrialOptions options;
  options.done = [&](std::size_t, const Trial&) { begun = true; };
  CHECK_THROWS_AS(run_trials(configs, options), ValueError);
  configs[1] = configs[0];
  configs[1].fit.warmup = 1000;
  CHECK_THROWS_AS(run_trials(configs, options), ValueError);
  CHECK_FALSE(begun);
  CHECK_THROWS_AS(run_trials({}, {.solved = 0}), ValueError);
  CHECK_THROWS_AS(run_trials({}, {.solved = 1.5}), ValueError);
  CHECK_THROWS_AS(with_seeds(tiny(), 0), ValueError);
  RunConfig last = tiny();
  last.fit.seed = std::numeric_limits<std::uint64_t>::max();
  CHECK(with_seeds(last, 1).size() == 1);
  CHECK_THROWS_AS(with_seeds(last, 2), ValueError);
}

TEST_CASE("a summary has medians, range and curve") {
  const std::vector<Trial> trials{made_up(300, {0.2, 0.9, 1.0}, 4), made_up(0, {0.1, 0.3}, 9),
                                  made_up(100, {0.6, 1.0, 1.0}, 1), made_up(2000, {0.4, 0.5}, 2)};
  const TrialSummary s = summary(trials);
  CHECK((s.trials == 4 && s.solved == 3));
  CHECK((s.median == 300 && s.fewest == 100 && s.most == 2000));
  CHECK(s.loss == 3);  // half way between 2 and 4
  REQUIRE(s.curve.size() == 2);
  CHECK(s.curve[0] == Approx(0.3).epsilon(1e-15));
  CHECK(s.curve[1] == Approx(0.7).epsilon(1e-15));
  CHECK(s.accuracy == 0.75);  // of 1, 0.3, 1 and 0.5, each at its end
  CHECK(to_string(s) == "solved 3/4, median 300 steps [100-2,000]");
}

TEST_CASE("what failed or was stopped is counted and in no median") {
  std::vector<Trial> trials{made_up(100, {0.5, 1.0}, 2), made_up(0, {0.1}, 9),
                            made_up(0, {0.1, 0.2}, 9), Trial()};
  trials[1].error = "the loss is nan";
  trials[2].result.stopped = true;
  const TrialSummary s = summary(trials);
  CHECK((s.failed == 1 && s.unfinished == 2 && s.solved == 1));
  CHECK(s.loss == 2);
  CHECK(s.curve == std::vector<double>{0.5, 1.0});
  CHECK(to_string(s) == "solved 1/4, median 100 steps [100-100], 1 failed, 2 not finished");
  const TrialSummary none = summary(std::span(trials).subspan(1));
  CHECK(std::isnan(none.loss));
  CHECK(std::isnan(none.accuracy));
  CHECK(none.curve.empty());
  CHECK(to_string(none) == "solved 0/3, 1 failed, 2 not finished");
}

TEST_CASE("once it is told to stop, no further trial begins") {
  const std::atomic<int> stop{2};
  const std::vector<Trial> trials = run_trials(with_seeds(tiny(), 3), {.stop = &stop});
  for (const Trial& trial : trials) CHECK_FALSE(trial.begun);
  CHECK(trials[2].config.fit.seed == 5);
}

TEST_CASE("the median is the middle, or half way between the two of it") {
  CHECK(detail::median({3, 1, 2}) == 2);
  CHECK(detail::median({4, 1, 3, 2}) == 2.5);
  CHECK(detail::median({7}) == 7);
  CHECK(detail::median({}) == 0);
}

TEST_CASE("a setting is changed by the name it has in config.json") {
  RunConfig config = tiny();
  change_setting(config, "lr", "0.25");
  CHECK(config.fit.lr == 0.25);
  change_setting(config, "norm", "rms");
  CHECK(config.model.stack.norm == NormKind::rms);
  change_setting(config, "model.symbols", "7");
  CHECK(config.model.symbols == 7);
  change_setting(config, "tied", "true");
  CHECK(config.model.tied);
  CHECK_THROWS_WITH(change_setting(config, "seed", "-1"), ContainsSubstring("train.seed"));
  CHECK_THROWS_WITH(change_setting(config, "lr", "null"), ContainsSubstring("'null' is no value"));
  CHECK_THROWS_WITH(change_setting(config, "lr", "abc"),
                    ContainsSubstring("'abc' is no value for lr"));
  CHECK(config.fit.seed == 3);
  CHECK_THROWS_WITH(change_setting(config, "lrr", "1"), ContainsSubstring("did you mean 'lr'"));
  CHECK_THROWS_WITH(change_setting(config, "symbols", "1"),
                    ContainsSubstring("task.symbols, model.symbols"));
  CHECK_THROWS_WITH(change_setting(config, "width", "1.5"), ContainsSubstring("model.width"));
  CHECK_THROWS_WITH(change_setting(config, "norm", "batch"), ContainsSubstring("'batch'"));
  CHECK(config.model.stack.width == 16);
}

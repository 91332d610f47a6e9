// Options that published setups need: partial last batches, warm-up by tokens, schedules that end
// while they rise.
#include <cmath>
#include <limits>

#include <tapehead/runs.hpp>

#include "support/catch.hpp"

using namespace tapehead;

namespace {

struct Step {
  std::int64_t rows;
  std::int64_t tokens;
  double lr;
};

// The steps of 50 sequences of 6 tokens.
std::vector<Step> steps_of(const FitOptions& options) {
  RunConfig config;
  config.task = "reverse";
  config.options = {.symbols = 4, .length = 6};
  config.sizes = {.train = 50, .validation = 8, .test = 8};
  config.model.stack = {.layers = 1, .width = 8, .heads = 2, .hidden = 8};
  const Loaded problem = load(config);
  Params params(1);
  const Model model(params, config.model);
  std::vector<Step> steps;
  FitCallbacks callbacks;
  callbacks.step = [&](const StepReport& report) {
    steps.push_back({report.targets.dim(0), report.tokens, report.lr});
  };
  (void)fit(
      params, [&](const Batch& batch, Rng* rng) { return model(batch, rng); }, problem.data,
      options, callbacks);
  return steps;
}

}  // namespace

TEST_CASE("the sequences that an epoch leaves over are dropped, or make a smaller batch") {
  FitOptions options{.epochs = 2, .batch = 16, .warmup = 0};
  CHECK(steps_per_epoch(options, 50) == 3);
  CHECK(steps_of(options).size() == 6);

  options.keep_last = true;
  CHECK(steps_per_epoch(options, 50) == 4);
  CHECK(steps_per_epoch(options, 48) == 3);
  CHECK(step_count(options, 5) == 2);  // a batch that is never full
  const std::vector<Step> steps = steps_of(options);
  REQUIRE(steps.size() == 8);
  CHECK(steps[2].rows == 16);
  CHECK(steps[3].rows == 2);
  CHECK(steps[3].tokens == 50 * 6);
  CHECK(steps[7].tokens == 2 * 50 * 6);

  // 50 = 3 * 16 + 2: the second step of an epoch has one whole batch and a piece.
  options.accumulate = 2;
  const std::vector<Step> double_steps = steps_of(options);
  REQUIRE(double_steps.size() == 4);
  CHECK(double_steps[1].tokens == 50 * 6);
  CHECK(double_steps[1].rows == 2);
  // 3 batches of 16 leave 2 for the second step: its other two parts are empty.
  options.accumulate = 3;
  CHECK(steps_of(options).back().tokens == 2 * 50 * 6);
}

TEST_CASE("warm-up by tokens counts the targets of the step that is taken") {
  // Each step has 16 * 6 = 96 targets.
  const FitOptions options{.epochs = 2,
                           .batch = 16,
                           .lr = 1,
                           .schedule = Schedule::constant,
                           .warmup = 0,
                           .warmup_tokens = 384};
  const std::vector<Step> steps = steps_of(options);
  CHECK(steps[0].lr == 0.25);
  CHECK(steps[1].lr == 0.5);
  CHECK(steps[2].lr == 0.75);
  CHECK(steps[3].lr == 1);
  CHECK(steps[5].lr == 1);
  CHECK_THROWS_WITH(step_count({.warmup_tokens = -1}, 1000),
                    ContainsSubstring("warmup_tokens must be at least 0, got -1"));
}

TEST_CASE("inverse_sqrt may end while it rises, and is Noam's schedule") {
  // factor 1, width 512, warm-up 400: 512^-1/2 min(s^-1/2, s 400^-3/2).
  FitOptions options{.steps = 200,
                     .batch = 8,
                     .lr = 1 / std::sqrt(512.0 * 400.0),
                     .schedule = Schedule::inverse_sqrt,
                     .warmup = 400};
  CHECK(step_count(options, 50) == 200);
  CHECK(learning_rate(options, 1, 200) == Approx(5.524271728019903e-06).epsilon(1e-12));
  CHECK(learning_rate(options, 200, 200) == Approx(0.0011048543456039805).epsilon(1e-12));
  options.schedule = Schedule::cosine;
  CHECK_THROWS_WITH(step_count(options, 50), ContainsSubstring("longer than the run of 200"));
}

TEST_CASE("copy-rest gives the decoder its first token and asks for the others") {
  const Task task = make_task("copy-rest", {.symbols = 5, .length = 4});
  Rng rng(3);
  Example example;
  std::int64_t least = 9, most = 0;
  for (int i = 0; i < 200; ++i) {
    task.draw(rng, example);
    REQUIRE(example.input.size() == 4);
    REQUIRE(example.input[0] == 1);
    REQUIRE(example.decoder ==
            std::vector<std::int64_t>(example.input.begin(), example.input.end() - 1));
    REQUIRE(example.target ==
            std::vector<std::int64_t>(example.input.begin() + 1, example.input.end()));
    for (const std::int64_t id : example.target) {
      least = std::min(least, id);
      most = std::max(most, id);
    }
  }
  CHECK(least == 1);
  CHECK(most == 4);
  CHECK(task.chance == 0.25);
  CHECK_THROWS_WITH(make_task("copy-rest", {.symbols = 2}), ContainsSubstring("got 2 and 10"));
  CHECK_THROWS_WITH(make_task("copy-rest", {.length = 1}), ContainsSubstring("got 11 and 1"));
}

TEST_CASE("what setups need is part of the config") {
  RunConfig config;
  config.fit.keep_last = true;
  config.fit.warmup_tokens = 77;
  config.fit.decay_all = true;
  config.model.stack.init = Initialiser::fan_in;
  const RunConfig read = config_from_json(to_json(config));
  CHECK(read.fit.keep_last);
  CHECK(read.fit.warmup_tokens == 77);
  CHECK(read.fit.decay_all);
  CHECK(read.model.stack.init == Initialiser::fan_in);
  CHECK(differences(RunConfig(), config).size() == 4);
}

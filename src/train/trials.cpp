#include <tapehead/trials.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>

#include <fmt/format.h>

#include "core/jobs.hpp"
#include "core/message.hpp"
#include "report/progress_line.hpp"
#include "train/median.hpp"

namespace tapehead {

using detail::fail;
using detail::median;

std::vector<RunConfig> with_seeds(const RunConfig& config, std::int64_t count) {
  if (count < 1) fail<ValueError>(fmt::format("with_seeds: needs at least 1 seed, got {}", count));
  std::vector<RunConfig> configs;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.push_back(config);
    configs.back().fit.seed += static_cast<std::uint64_t>(i);
  }
  return configs;
}

namespace {

Trial one_trial(const RunConfig& given, const TrialOptions& options) {
  Trial trial{given, {}, {}, 0, ""};
  const Loaded problem = load(trial.config);
  Params params(trial.config.fit.seed);
  const Model model(params, trial.config.model);
  FitOptions fit_options = trial.config.fit;
  fit_options.threads = 0;
  fit_options.stop = options.stop;
  FitCallbacks callbacks;
  callbacks.step = [&](const StepReport& report) {
    if (report.validation == nullptr) return;
    trial.steps.push_back(report.step);
    if (trial.solved_at == 0 && report.validation->accuracy() >= options.solved)
      trial.solved_at = report.step;
  };
  try {
    trial.result = fit(params, std::cref(model), problem.data, fit_options, callbacks);
  } catch (const NonFiniteError& error) {
    trial.error = error.what();
    trial.solved_at = 0;
  }
  return trial;
}

bool only_seeds_differ(RunConfig a, const RunConfig& b) {
  a.fit.seed = b.fit.seed;
  return differences(a, b).empty();
}

// What a run would refuse is known before the first begins, without its weights' being trained.
void check(RunConfig config) {
  const Loaded problem = load(config);
  (void)step_count(config.fit, problem.data.train.count());
  Params params(config.fit.seed);
  (void)Model(params, config.model);
}

}  // namespace

std::vector<Trial> run_trials(const std::vector<RunConfig>& configs, const TrialOptions& options) {
  if (!(options.solved > 0 && options.solved <= 1)) {
    fail<ValueError>(fmt::format("run_trials: solved is an accuracy above 0, at most 1, got {}",
                                 options.solved));
  }
  std::vector<std::function<void()>> checks;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (i == 0 || !only_seeds_differ(configs[i - 1], configs[i]))
      checks.emplace_back([&config = configs[i]] { check(config); });
  }
  detail::run_jobs(checks, options.threads);

  std::vector<Trial> trials(configs.size());
  std::mutex mutex;
  std::vector<std::function<void()>> jobs;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    jobs.emplace_back([&, i] {
      trials[i] = one_trial(configs[i], options);
      const std::lock_guard<std::mutex> lock(mutex);
      if (options.done) options.done(i, trials[i]);
    });
  }
  detail::run_jobs(jobs, options.threads);
  return trials;
}

TrialSummary summary(std::span<const Trial> trials) {
  TrialSummary all;
  all.trials = std::ssize(trials);
  std::vector<double> steps;
  std::vector<double> losses;
  std::size_t evaluations = trials.empty() ? 0 : trials[0].result.validation.size();
  for (const Trial& trial : trials) {
    if (trial.solved_at > 0) steps.push_back(static_cast<double>(trial.solved_at));
    if (!trial.result.validation.empty()) losses.push_back(trial.result.validation.back().loss);
    evaluations = std::min(evaluations, trial.result.validation.size());
  }
  all.solved = std::ssize(steps);
  if (!steps.empty()) {
    all.median = std::llround(median(steps));
    all.fewest = std::llround(*std::min_element(steps.begin(), steps.end()));
    all.most = std::llround(*std::max_element(steps.begin(), steps.end()));
  }
  all.loss = median(losses);
  for (std::size_t e = 0; e < evaluations; ++e) {
    std::vector<double> accuracies;
    for (const Trial& trial : trials) accuracies.push_back(trial.result.validation[e].accuracy());
    all.curve.push_back(median(accuracies));
  }
  all.accuracy = all.curve.empty() ? 0 : all.curve.back();
  return all;
}

std::string to_string(const TrialSummary& s) {
  using report::thousands;
  std::string text = fmt::format("solved {}/{}", s.solved, s.trials);
  if (s.solved == 0) return text;
  return text + fmt::format(", median {} steps [{}-{}]", thousands(s.median), thousands(s.fewest),
                            thousands(s.most));
}

}  // namespace tapehead

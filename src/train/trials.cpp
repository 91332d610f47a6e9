#include <tapehead/trials.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
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
  if (static_cast<std::uint64_t>(count - 1) >
      std::numeric_limits<std::uint64_t>::max() - config.fit.seed) {
    fail<ValueError>(fmt::format("with_seeds: {} seeds from {} on are more than there are", count,
                                 config.fit.seed));
  }
  std::vector<RunConfig> configs;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.push_back(config);
    configs.back().fit.seed += static_cast<std::uint64_t>(i);
  }
  return configs;
}

namespace {

Trial one_trial(const RunConfig& given, const TrialOptions& options) {
  Trial trial;
  trial.config = given;
  trial.begun = true;
  try {
    const Loaded problem = load(trial.config);
    Params params(trial.config.fit.seed);
    const Model model(params, trial.config.model);
    FitOptions fit_options = trial.config.fit;
    fit_options.threads = 0;
    fit_options.stop = options.stop;
    fit_options.profile = nullptr;  // runs are side by side
    FitCallbacks callbacks;
    callbacks.step = [&](const StepReport& report) {
      if (report.validation == nullptr) return;
      trial.steps.push_back(report.step);
      if (trial.solved_at == 0 && report.validation->accuracy() >= options.solved)
        trial.solved_at = report.step;
    };
    trial.result = fit(params, std::cref(model), problem.data, fit_options, callbacks);
  } catch (const Error& error) {
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
  const auto stopped = [&] { return options.stop != nullptr && options.stop->load() != 0; };
  std::vector<std::function<void()>> checks;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (i > 0 && only_seeds_differ(configs[i - 1], configs[i])) continue;
    checks.emplace_back([&stopped, &config = configs[i]] {
      if (!stopped()) check(config);
    });
  }
  detail::run_jobs(checks, options.threads);

  std::vector<Trial> trials(configs.size());
  std::mutex mutex;
  std::vector<std::function<void()>> jobs;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    trials[i].config = configs[i];
    jobs.emplace_back([&, i] {
      if (stopped()) return;
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
  std::vector<const std::vector<Evaluation>*> evaluations;
  for (const Trial& trial : trials) {
    if (!trial.error.empty()) ++all.failed;
    if (!trial.begun || trial.result.stopped) ++all.unfinished;
    if (trial.solved_at > 0) steps.push_back(static_cast<double>(trial.solved_at));
    if (!trial.finished() || trial.result.validation.empty()) continue;
    losses.push_back(trial.result.validation.back().loss);
    evaluations.push_back(&trial.result.validation);
  }
  all.solved = std::ssize(steps);
  if (!steps.empty()) {
    all.median = std::llround(median(steps));
    all.fewest = std::llround(*std::min_element(steps.begin(), steps.end()));
    all.most = std::llround(*std::max_element(steps.begin(), steps.end()));
  }
  const auto at = [&](std::size_t e) {
    std::vector<double> accuracies;
    for (const std::vector<Evaluation>* one : evaluations) {
      if (e < one->size()) accuracies.push_back((*one)[e].accuracy());
    }
    return accuracies;
  };
  for (std::size_t e = 0; !evaluations.empty() && at(e).size() == evaluations.size(); ++e)
    all.curve.push_back(median(at(e)));
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  all.loss = losses.empty() ? kNothing : median(losses);
  std::vector<double> last;
  for (const std::vector<Evaluation>* one : evaluations) last.push_back(one->back().accuracy());
  all.accuracy = last.empty() ? kNothing : median(last);
  return all;
}

std::string to_string(const TrialSummary& s) {
  using report::thousands;
  std::string text = fmt::format("solved {}/{}", s.solved, s.trials);
  if (s.solved > 0) {
    text += fmt::format(", median {} steps [{}-{}]", thousands(s.median), thousands(s.fewest),
                        thousands(s.most));
  }
  if (s.failed > 0) text += fmt::format(", {} failed", thousands(s.failed));
  if (s.unfinished > 0) text += fmt::format(", {} not finished", thousands(s.unfinished));
  return text;
}

}  // namespace tapehead

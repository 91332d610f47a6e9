// Trials: many runs side by side, one a core: seeds, and settings crossed with seeds.
//
//   th::RunConfig config = th::default_config("sort");
//   std::vector<th::Trial> trials = th::run_trials(th::with_seeds(config, 10));
//   std::puts(to_string(th::summary(trials)).c_str());  // solved 9/10, median 1,120 steps [...]
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/runs.hpp>

namespace tapehead {

// Changes one setting by its name in config.json: "lr", or "model.symbols" where a name is in more
// than one part. Words may stand without quotes. ValueError for a name that is unknown or not
// unique, or a value of another type.
void change_setting(RunConfig& config, std::string_view name, std::string_view value);

// The config with seeds seed, seed + 1, ...
[[nodiscard]] std::vector<RunConfig> with_seeds(const RunConfig& config, std::int64_t count);

struct Trial {
  RunConfig config;
  FitResult result;
  std::vector<std::int64_t> steps;  // of each of result.validation
  std::int64_t solved_at = 0;       // step of the first evaluation that counts as solved; 0: none
  bool begun = false;               // not when it was stopped before
  std::string error;                // what ended it early, such as a loss of NaN; "" for nothing

  [[nodiscard]] bool finished() const { return begun && error.empty() && !result.stopped; }
};

struct TrialOptions {
  double solved = 0.99;                    // validation accuracy
  int threads = 0;                         // side by side; 0: threads()
  const std::atomic<int>* stop = nullptr;  // ends all of them after their step
  // After each trial, with its place in the list; from one thread at a time.
  std::function<void(std::size_t index, const Trial& trial)> done = nullptr;
};

// Every trial has the bits of the same run alone. An Error before any begins when one of them could
// not; one that fails later is counted, and the others go on.
[[nodiscard]] std::vector<Trial> run_trials(const std::vector<RunConfig>& configs,
                                            const TrialOptions& options = {});

struct TrialSummary {
  std::int64_t trials = 0;
  std::int64_t solved = 0;
  std::int64_t failed = 0;      // ended by an error
  std::int64_t unfinished = 0;  // stopped, or not begun
  // Steps to the solution, of those that found it; 0 when none did.
  std::int64_t median = 0;
  std::int64_t fewest = 0;
  std::int64_t most = 0;
  // Over those that finished; NaN when none did.
  double loss = 0;              // median of the last validation losses
  double accuracy = 0;          // median of the last validation accuracies
  std::vector<double> curve{};  // median validation accuracy at each evaluation that all reached
};
[[nodiscard]] TrialSummary summary(std::span<const Trial> trials);
// "solved 9/10, median 1,120 steps [900-1,600], 1 failed"
[[nodiscard]] std::string to_string(const TrialSummary& summary);

}  // namespace tapehead

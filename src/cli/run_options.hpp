// The options of a run on the command line: each changes a setting of the task's own default.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <tapehead/runs.hpp>

#include "cli/cli.hpp"

namespace tapehead::cli {

struct RunOptions {
  std::optional<std::int64_t> seed, epochs, steps, batch, accumulate, warmup, warmup_tokens,
      evaluate_every, patience, symbols, length, depth, train, validation, test, layers, width,
      heads, kv_heads, hidden;
  std::optional<double> lr, lr_end, clip, weight_decay, beta1, beta2, label_smoothing, minutes,
      dropout;
  std::string schedule, activation, norm, place, positions, init, data;
  bool bytes = false, tied = false, no_bias = false, keep_last = false, decay_all = false;

  // All of them but seed and threads.
  void add_to(Verb& verb);
  // Those that decide the task's sequences and the model.
  void add_model_to(Verb& verb);
  // What was given, into the config; Misuse for a word that is unknown. `given` tells whether an
  // option is on the command line.
  void apply(RunConfig& config, const std::function<bool(const char*)>& given) const;
};

}  // namespace tapehead::cli

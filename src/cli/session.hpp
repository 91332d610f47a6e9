// A training run as the program does it: banner, progress, the folder kept up to date, what was
// learnt. `train` begins one, `resume` goes on with one.
#pragma once

#include <optional>

#include <tapehead/runs.hpp>

#include "cli/cli.hpp"

namespace tapehead::cli {

struct Session {
  RunConfig config;
  Loaded problem;
  std::int64_t log_every = 100;
  bool profile = false;             // print where the time went
  std::optional<RunFolder> folder;  // none: nothing is saved
  std::optional<FitState> state;    // to go on from
};

// Trains `params` and shows what came out; returns the exit status.
int run_session(Session& session, Params& params, const Model& model, Output& out);

// "runs/a": the checkpoint of a run's folder, the file itself when it is one. Misuse when there is
// none.
[[nodiscard]] std::filesystem::path checkpoint_of(const std::string& run);

// A run that was saved: settings, vocabularies, weights.
struct Opened {
  Checkpoint checkpoint;
  Params params;
  Model model;
};
[[nodiscard]] Opened open_run(const std::string& run);

}  // namespace tapehead::cli

// Many runs of one task side by side: seeds, and settings crossed with seeds, as one table.
#pragma once

#include <string>
#include <vector>

#include <tapehead/trials.hpp>

#include "cli/cli.hpp"

namespace tapehead::cli {

struct Many {
  RunConfig config;
  std::int64_t seeds = 1;
  std::vector<std::string> sweep;  // "lr=1e-3,3e-3"
  double solved = 0.99;
  int threads = 0;
  bool shorten_warmup = true;  // to the run, where it is longer
};

// Misuse, before the first run begins, for what one of them would refuse. Status 1 when every run
// failed.
int run_many(const Many& many, Output& out);

}  // namespace tapehead::cli

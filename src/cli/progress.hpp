// What is seen of a training run while it goes on, on stderr: on a terminal one line that is
// rewritten and fits its width, elsewhere plain lines without control characters.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <tapehead/train.hpp>

#include "cli/cli.hpp"

namespace tapehead::cli {

class Progress {
 public:
  // `every`: steps between plain lines. Evaluations are told by epoch, or else by step.
  Progress(Output& out, std::int64_t epochs, std::int64_t every, bool by_epoch);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepReport& report);
  // Ends the line that is being rewritten, so that other text can follow.
  void finish();

 private:
  void draw(const std::string& line);

  Output& out_;
  std::int64_t epochs_;
  std::int64_t every_;
  bool by_epoch_;
  bool live_;              // stderr is a terminal that can rewrite a line
  std::size_t drawn_ = 0;  // characters of the line on the screen
  std::chrono::steady_clock::time_point last_ = {};
};

}  // namespace tapehead::cli

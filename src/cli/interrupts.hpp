// Ctrl-C (SIGINT) and SIGTERM while a verb runs: the first asks it to stop, the second ends the
// program at once. Files are replaced in one step, so neither can leave half of one.
#pragma once

#include <atomic>
#include <csignal>

namespace tapehead::cli {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // 0, or the number of the signal that came.
  [[nodiscard]] static const std::atomic<int>& flag();
  // 130 for SIGINT, 143 for SIGTERM.
  [[nodiscard]] static int exit_status() { return 128 + flag().load(); }

 private:
  struct sigaction previous_int_ = {};
  struct sigaction previous_term_ = {};
};

}  // namespace tapehead::cli

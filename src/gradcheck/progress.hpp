// How far a long check has come, and how to end it before it is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <vector>

#include <tapehead/catalog.hpp>

namespace tapehead::detail {

// Counts may be read while the jobs run.
struct Progress {
  std::atomic<std::int64_t> parts{0};  // into which the work was cut
  std::atomic<std::int64_t> done{0};   // of them
  std::atomic<std::int64_t> compared{0};
  std::atomic<std::int64_t> wrong{0};  // parts in which something was
  std::atomic<std::int64_t> evaluations{0};

  void add(std::int64_t newly_compared, bool anything_wrong) {
    compared += newly_compared;
    wrong += anything_wrong ? 1 : 0;
    ++done;
  }
};

// Thrown by the functions below once `stop` is not 0.
struct Stopped : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "stopped"; }
};

// The same entries, whose functions count how often they are called and throw when asked to stop.
// `stop` and `progress` must outlive them.
[[nodiscard]] std::vector<OpEntry> stoppable(std::vector<OpEntry> ops, const std::atomic<int>& stop,
                                             Progress& progress);
[[nodiscard]] std::vector<ModuleEntry> stoppable(std::vector<ModuleEntry> modules,
                                                 const std::atomic<int>& stop, Progress& progress);

}  // namespace tapehead::detail

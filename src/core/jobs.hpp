// Independent jobs side by side, such as whole checks or whole runs.
#pragma once

#include <functional>
#include <vector>

namespace tapehead::detail {

// Runs the jobs on `count` threads (0: as many as threads() says), each with kernels of one thread.
// The first exception is thrown again when all have ended.
void run_jobs(const std::vector<std::function<void()>>& jobs, int count = 0);

}  // namespace tapehead::detail

#include "core/threads.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#ifdef __linux__
#include <sched.h>
#endif

#include <fmt/format.h>

#include <tapehead/system.hpp>

#include "core/message.hpp"
#include "core/team.hpp"

namespace tapehead {
namespace {

thread_local int t_threads = 0;      // 0: the default
thread_local bool t_inside = false;  // this thread runs a chunk

int affinity() {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The container's limit in whole processors, rounded up; a large number without one. cgroup v2
// keeps "quota period" in cpu.max, v1 the two numbers in files of their own.
int cgroup_quota() {
  double quota = -1;
  double period = 0;
  std::string text;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> text >> period && text != "max") {
    quota = std::atof(text.c_str());
  } else if (std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
             p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
             q && p) {
    q >> quota;
    p >> period;
  }
  if (quota <= 0 || period <= 0) return 1 << 20;
  return std::max(1, static_cast<int>((quota + period - 1) / period));
}

int default_threads() {
  static const int count = [] {
    if (const char* wanted = std::getenv("OMP_NUM_THREADS");
        wanted != nullptr && std::atoi(wanted) > 0) {
      return std::min(std::atoi(wanted), 1024);
    }
    return std::min(affinity(), cgroup_quota());
  }();
  return count;
}

}  // namespace

int threads() { return t_threads > 0 ? t_threads : default_threads(); }

UseThreads::UseThreads(int count) : previous_(t_threads) {
  if (count < 0 || count > 1024) {
    detail::fail<ValueError>(
        fmt::format("threads: the count must be 0..1024 (0: the default), got {}", count));
  }
  t_threads = count;
}

UseThreads::~UseThreads() { t_threads = previous_; }

namespace detail {

bool inside_parallel() { return t_inside; }

AsHelper::AsHelper() : previous_(std::exchange(t_inside, true)) {}
AsHelper::~AsHelper() { t_inside = previous_; }

void parallel_chunks(std::int64_t count, std::int64_t chunk,
                     FunctionRef<void(std::int64_t, std::int64_t)> body) {
  const std::int64_t chunks = (count + chunk - 1) / chunk;
  const auto run = [&](std::int64_t i) { body(i * chunk, std::min(count, (i + 1) * chunk)); };
  const int team = static_cast<int>(std::min<std::int64_t>(threads(), chunks));
  if (team <= 1 || t_inside) {
    for (std::int64_t i = 0; i < chunks; ++i) run(i);
    return;
  }
  thread_local Team helpers;  // one for each thread that runs loops, for its life
  const AsHelper inside;
  helpers.run(chunks, team, Team::Body(run));
}

}  // namespace detail
}  // namespace tapehead

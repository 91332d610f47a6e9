#include "core/jobs.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include <tapehead/system.hpp>

namespace tapehead::detail {

void run_jobs(const std::vector<std::function<void()>>& jobs, int count) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&] {
    const UseThreads one(1);
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      try {
        jobs[i]();
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  };
  std::vector<std::thread> team;
  const int wanted = count > 0 ? count : threads();
  for (int t = 1; t < wanted && static_cast<std::size_t>(t) < jobs.size(); ++t)
    team.emplace_back(work);
  work();
  for (std::thread& thread : team) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace tapehead::detail

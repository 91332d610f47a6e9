// A team of helper threads that share out the chunks of one loop at a time.
//
// Whoever is free takes the next chunk, and the caller waits only for chunks that a helper has
// begun, never for a helper that did not come: on a machine whose processors are busy with other
// work, a loop then takes no longer than on one thread. (A barrier over all threads, as OpenMP has
// at the end of every loop, waits for the slowest to be scheduled: beside one busy neighbour it
// made the training of a small model on two threads up to 20 times slower than on one.)
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "core/threads.hpp"

namespace tapehead::detail {

class Team {
 public:
  using Body = FunctionRef<void(std::int64_t)>;

  Team() = default;
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // body(i) for each i of 0..count-1, on the caller and at most `threads` - 1 helpers. The body
  // must not throw. One caller at a time; helpers are started when they are first wanted.
  void run(std::int64_t count, int threads, Body body);

 private:
  // The state of the loop in one word, so that a claim is one compare-and-swap: the loop's number,
  // which makes a late claim on an earlier loop fail, and the items [low, high) that nobody has
  // taken. The caller takes from below and helpers from above, so with two threads each mostly
  // keeps to its half, whose data is in its cache from the loop before.
  struct Ticket {
    std::uint64_t word;
    static constexpr int kBits = 20;
    static constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;
    static Ticket of(std::uint64_t number, std::uint64_t low, std::uint64_t high) {
      return {number << (2 * kBits) | low << kBits | high};
    }
    [[nodiscard]] std::uint64_t number() const { return word >> (2 * kBits); }
    [[nodiscard]] std::uint64_t low() const { return word >> kBits & kMask; }
    [[nodiscard]] std::uint64_t high() const { return word & kMask; }
    [[nodiscard]] bool empty() const { return low() >= high(); }
  };

  bool take(bool from_below, std::uint64_t& item);
  void help(int helper);
  void wait_for_work(int helper);
  [[nodiscard]] bool wanted(int helper) const;
  void start_helpers(int count);

  std::atomic<std::uint64_t> ticket_{0};
  std::atomic<std::int64_t> done_{0};   // items of the present loop that have run
  std::atomic<int> helpers_wanted_{0};  // helpers 0..n-1 may take part in the present loop
  const Body* body_ = nullptr;          // valid while an item of the loop is not done
  std::uint64_t number_ = 0;

  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> asleep_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace tapehead::detail

#include "core/team.hpp"

#include <chrono>
#include <system_error>

namespace tapehead::detail {
namespace {

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Loops follow each other within microseconds; a helper looks out for the next one for this long
// before it goes to sleep, from which waking takes some 50 us.
constexpr std::chrono::microseconds kLookout{100};
constexpr int kLooksPerClock = 64;  // between two looks at the clock
constexpr int kLooksPerYield =
    256;  // a helper that was interrupted within its item needs a processor

}  // namespace

Team::~Team() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

bool Team::take(bool from_below, std::uint64_t& item) {
  Ticket now{ticket_.load(std::memory_order_acquire)};
  while (!now.empty()) {
    item = from_below ? now.low() : now.high() - 1;
    const Ticket next = from_below ? Ticket::of(now.number(), now.low() + 1, now.high())
                                   : Ticket::of(now.number(), now.low(), now.high() - 1);
    if (ticket_.compare_exchange_weak(now.word, next.word, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void Team::run(std::int64_t count, int threads, Body body) {
  // More items than a ticket can count are run in groups of neighbours.
  constexpr auto kMost = static_cast<std::int64_t>(Ticket::kMask);
  const std::int64_t group = (count + kMost - 1) / kMost;
  if (group > 1) {
    const auto several = [&](std::int64_t g) {
      for (std::int64_t i = g * group; i < count && i < (g + 1) * group; ++i) body(i);
    };
    return run((count + group - 1) / group, threads, Body(several));
  }
  start_helpers(threads - 1);
  body_ = &body;
  done_.store(0, std::memory_order_relaxed);
  helpers_wanted_.store(threads - 1, std::memory_order_relaxed);
  number_ = (number_ + 1) & ((std::uint64_t{1} << (64 - 2 * Ticket::kBits)) - 1);
  ticket_.store(Ticket::of(number_, 0, static_cast<std::uint64_t>(count)).word,
                std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst) > 0) {
    // Taking the mutex orders this after a helper's last look, so that no wake-up is lost.
    { const std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
  }
  std::uint64_t item = 0;
  while (take(true, item)) {
    body(static_cast<std::int64_t>(item));
    done_.fetch_add(1, std::memory_order_release);
  }
  for (int looks = 1; done_.load(std::memory_order_acquire) < count; ++looks) {
    pause();
    if (looks % kLooksPerYield == 0) std::this_thread::yield();
  }
}

bool Team::wanted(int helper) const {
  return helper < helpers_wanted_.load(std::memory_order_relaxed) &&
         !Ticket{ticket_.load(std::memory_order_seq_cst)}.empty();
}

void Team::help(int helper) {
  const AsHelper mark;
  while (!stop_.load(std::memory_order_relaxed)) {
    std::uint64_t item = 0;
    while (wanted(helper) && take(false, item)) {
      (*body_)(static_cast<std::int64_t>(item));
      done_.fetch_add(1, std::memory_order_release);
    }
    wait_for_work(helper);
  }
}

void Team::wait_for_work(int helper) {
  const auto start = std::chrono::steady_clock::now();
  for (int looks = 1;; ++looks) {
    if (wanted(helper) || stop_.load(std::memory_order_relaxed)) return;
    pause();
    if (looks % kLooksPerClock == 0 && std::chrono::steady_clock::now() - start > kLookout) break;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  asleep_.fetch_add(1, std::memory_order_seq_cst);
  wake_.wait(lock, [&] { return wanted(helper) || stop_.load(std::memory_order_relaxed); });
  asleep_.fetch_sub(1, std::memory_order_relaxed);
}

void Team::start_helpers(int count) {
  while (static_cast<int>(helpers_.size()) < count) {
    const int helper = static_cast<int>(helpers_.size());
    try {
      helpers_.emplace_back([this, helper] { help(helper); });
    } catch (const std::system_error&) {
      return;  // no more threads to be had: the caller runs what nobody takes
    }
  }
}

}  // namespace tapehead::detail

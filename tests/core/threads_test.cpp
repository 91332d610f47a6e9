#include "core/threads.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include <tapehead/error.hpp>
#include <tapehead/system.hpp>

#include "support/catch.hpp"

namespace th = tapehead;
using th::detail::parallel_for;

namespace {

// How often each of 0..count-1 was visited, and whether every chunk began at a multiple of its
// size.
std::vector<int> visits(std::int64_t count, std::int64_t chunk) {
  std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
  std::atomic<bool> aligned{true};
  parallel_for(count, chunk, [&](std::int64_t begin, std::int64_t end) {
    if (begin % chunk != 0 || end > count || (end != count && end != begin + chunk))
      aligned = false;
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
  });
  REQUIRE(aligned);
  return std::vector<int>(seen.begin(), seen.end());
}

}  // namespace

TEST_CASE("every chunk runs once, at the same places for any number of threads") {
  for (int threads : {1, 2, 3, 7}) {
    const th::UseThreads use(threads);
    for (std::int64_t count : {0, 1, 2, 63, 64, 65, 1000}) {
      for (std::int64_t chunk : {1, 7, 64, 2000}) {
        INFO(threads << " threads, " << count << " by " << chunk);
        REQUIRE(visits(count, chunk) == std::vector<int>(static_cast<std::size_t>(count), 1));
      }
    }
  }
}

TEST_CASE("more chunks than a ticket can count still run once each") {
  const th::UseThreads use(3);
  const std::int64_t count = (std::int64_t{1} << 21) + 5;
  REQUIRE(visits(count, 1) == std::vector<int>(static_cast<std::size_t>(count), 1));
}

TEST_CASE("thousands of short loops in a row lose no chunk") {
  const th::UseThreads use(4);
  std::int64_t total = 0;
  for (int loop = 0; loop < 20000; ++loop) {
    std::atomic<std::int64_t> sum{0};
    parallel_for(9, 1, [&](std::int64_t begin, std::int64_t) { sum += begin; });
    total += sum;
  }
  CHECK(total == 20000 * 36);
}

TEST_CASE("a loop inside a loop is serial, on the caller and on helpers alike") {
  const th::UseThreads use(4);
  std::vector<std::atomic<int>> seen(40);
  std::atomic<int> foreign{0};
  parallel_for(4, 1, [&](std::int64_t outer, std::int64_t) {
    const std::thread::id here = std::this_thread::get_id();
    if (!th::detail::inside_parallel()) ++foreign;
    parallel_for(10, 1, [&](std::int64_t inner, std::int64_t) {
      if (std::this_thread::get_id() != here) ++foreign;
      ++seen[static_cast<std::size_t>(outer * 10 + inner)];
    });
  });
  CHECK(foreign == 0);
  CHECK_FALSE(th::detail::inside_parallel());
  for (const auto& count : seen) REQUIRE(count == 1);
}

TEST_CASE("several threads run loops of their own at once, and end while others go on") {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&wrong, caller] {
      const th::UseThreads use(3);
      for (int loop = 0; loop < 500 * (caller + 1); ++loop) {
        std::atomic<int> sum{0};
        parallel_for(20, 3, [&](std::int64_t begin, std::int64_t end) {
          sum += static_cast<int>(end - begin);
        });
        if (sum != 20) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("a thread count belongs to its scope, and bad ones are refused") {
  const int before = th::threads();
  {
    const th::UseThreads use(5);
    CHECK(th::threads() == 5);
    CHECK_THROWS_AS(th::UseThreads(-1), th::Error);
    CHECK_THROWS_AS(th::UseThreads(1025), th::Error);
    CHECK(th::threads() == 5);
  }
  CHECK(th::threads() == before);
}

#include <cmath>
#include <limits>
#include <numbers>

#include <tapehead/optim.hpp>

#include "support/catch.hpp"

namespace th = tapehead;
namespace schedule = tapehead::schedule;

TEST_CASE("Noam's schedule rises to its peak at the end of the warm-up") {
  CHECK(schedule::noam(1, 1, 64, 400) == Approx(1.5625e-5).epsilon(1e-12));
  CHECK(schedule::noam(1, 400, 64, 400) == Approx(6.25e-3).epsilon(1e-12));
  CHECK(schedule::noam(1, 399, 64, 400) < 6.25e-3);
  CHECK(schedule::noam(1, 1600, 64, 400) == Approx(3.125e-3).epsilon(1e-12));  // 1 / (8 * 40)
  CHECK(schedule::noam(2, 4, 64, 0) == Approx(0.125));                         // 2 / (8 * 2)
}

TEST_CASE("warm-up reaches the full rate at its last step, and 0 means none") {
  CHECK(schedule::warmup(0.5, 1, 10) == Approx(0.05));
  CHECK(schedule::warmup(0.5, 10, 10) == 0.5);
  CHECK(schedule::warmup(0.5, 11, 10) == 0.5);
  CHECK(schedule::warmup(0.5, 1, 0) == 0.5);
  CHECK(schedule::constant(0.5, 7) == 0.5);
}

TEST_CASE("cosine and linear decay by hand") {
  CHECK(schedule::cosine(1, 5, 0, 10) == Approx(0.5));
  CHECK(schedule::cosine(1, 10, 0, 10) == 0);
  CHECK(schedule::cosine(1, 2, 5, 10) == Approx(0.4 * 0.5 * (1 + std::cos(std::numbers::pi / 5))));
  CHECK(schedule::cosine(1, 5, 0, 10, 0.2) == Approx(0.6));
  CHECK(schedule::cosine(1, 99, 0, 10, 0.2) == Approx(0.2));
  CHECK(schedule::linear(1, 1, 2, 10, 0.2) == Approx(0.5));
  CHECK(schedule::linear(1, 2, 2, 10, 0.2) == 1);
  CHECK(schedule::linear(1, 6, 2, 10, 0.2) == Approx(0.6));
  CHECK(schedule::linear(1, 10, 2, 10, 0.2) == Approx(0.2));
  CHECK(schedule::linear(1, 99, 2, 10) == 0);
}

TEST_CASE("no schedule gives NaN or infinity, for any pair of warm-up and total") {
  for (std::int64_t warmup = 0; warmup <= 12; ++warmup) {
    for (std::int64_t total = warmup; total <= 12; ++total) {
      for (std::int64_t step = 0; step <= 14; ++step) {
        for (const double rate :
             {schedule::warmup(0.5, step, warmup), schedule::cosine(0.5, step, warmup, total),
              schedule::linear(0.5, step, warmup, total), schedule::noam(0.5, step, 1, warmup)}) {
          CHECK((rate >= 0 && rate <= 0.5));
        }
        // The first step of a run that warms up is not wasted on a rate of 0.
        if (step == 1 && total > 1) {
          CHECK(schedule::cosine(0.5, step, warmup, total) > 0);
          CHECK(schedule::linear(0.5, step, warmup, total) > 0);
        }
      }
    }
  }
}

TEST_CASE("schedules refuse what has no meaning") {
  CHECK_THROWS_WITH(schedule::cosine(1, 1, 11, 10),
                    ContainsSubstring("10 steps") && ContainsSubstring("warm-up of 11"));
  CHECK_THROWS_AS(schedule::linear(1, 1, 11, 10), th::ValueError);
  CHECK_THROWS_AS(schedule::warmup(1, -1, 10), th::ValueError);
  CHECK_THROWS_AS(schedule::warmup(1, 1, -1), th::ValueError);
  CHECK_THROWS_AS(schedule::noam(1, 1, 0, 10), th::ValueError);
  CHECK_THROWS_AS(schedule::constant(-1, 1), th::ValueError);
  CHECK_THROWS_AS(schedule::linear(1, 1, 0, 10, std::numeric_limits<double>::quiet_NaN()),
                  th::ValueError);
  CHECK_THROWS_AS(schedule::constant(std::numeric_limits<double>::infinity(), 1), th::ValueError);
}

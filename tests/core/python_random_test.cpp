// Against Python itself: scripts/fixtures/python_random.py.
#include <numeric>
#include <string>
#include <vector>

#include <tapehead/error.hpp>
#include <tapehead/python_random.hpp>

#include "support/catch.hpp"
#include "support/fixture.hpp"

using namespace tapehead;

namespace {

template <class T>
std::vector<T> wanted(const Fixture& fixture, std::uint64_t seed, const char* name) {
  return fixture[std::to_string(seed) + "." + name].to_vector<T>();
}

}  // namespace

TEST_CASE("PythonRandom gives the bits of Python's random", "[core]") {
  const Fixture fixture("python_random");
  const std::uint64_t seed =
      GENERATE(std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{42}, std::uint64_t{0xffffffff},
               std::uint64_t{0x100000000}, ~std::uint64_t{0});
  CAPTURE(seed);
  PythonRandom random(seed);

  for (const std::int64_t bits : wanted<std::int64_t>(fixture, seed, "bits32")) {
    REQUIRE(random.bits32() == static_cast<std::uint64_t>(bits));
  }
  for (const double value : wanted<double>(fixture, seed, "random")) {
    REQUIRE(random.random() == value);
  }
  std::vector<std::int64_t> order(100);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  random.shuffle(std::span(order));
  CHECK(order == wanted<std::int64_t>(fixture, seed, "shuffle"));
  // A C library that rounds sine, cosine or logarithm another way may differ in the last bits.
  for (const double value : wanted<double>(fixture, seed, "gauss")) {
    REQUIRE(random.gauss(1.5, 0.08) == Approx(value).epsilon(0).margin(1e-15));
  }
  const std::vector<double> weights{0.0, 0.25, 0.5, 0.0, 3.25, 1e-3};
  for (const std::int64_t id : wanted<std::int64_t>(fixture, seed, "choices")) {
    REQUIRE(random.choice(weights) == static_cast<std::uint64_t>(id));
  }
  const std::int64_t one = 1;
  const std::vector<std::int64_t> limits{
      1, 2, 3, 1000, one << 31, one << 32, (one << 32) + 1, (one << 45) + 7, (one << 62) + 1};
  std::vector<std::int64_t> drawn;
  for (const std::int64_t n : limits) drawn.push_back(random.below(n));
  CHECK(drawn == wanted<std::int64_t>(fixture, seed, "below"));
  CHECK(random.gauss(0, 1) ==
        Approx(wanted<double>(fixture, seed, "left")[0]).epsilon(0).margin(1e-15));
}

TEST_CASE("PythonRandom refuses what has no answer", "[core]") {
  PythonRandom random(0);
  CHECK_THROWS_WITH(random.below(0), ContainsSubstring("n must be at least 1, got 0"));
  CHECK_THROWS_WITH(random.choice({}), ContainsSubstring("the 0 weights"));
  const std::vector<double> zeros{0, 0}, negative{2, -1};
  CHECK_THROWS_AS(random.choice(zeros), ValueError);
  CHECK_THROWS_AS(random.choice(negative), ValueError);
}

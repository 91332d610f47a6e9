#include "support/catch.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/vector_math.hpp"

using namespace tapehead::detail;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// In a loop of its own, as kernels call it: most elements go through vector code, the last few do
// not.
std::vector<float> exp_of(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = vector_exp(x[i]);
  return y;
}

// The distance to the true value in units of the last place of a float there.
double ulps(float found, double truth) {
  int exponent = 0;
  (void)std::frexp(truth, &exponent);
  return std::abs(static_cast<double>(found) - truth) /
         std::ldexp(1.0, std::max(exponent, -125) - 24);
}

}  // namespace

TEST_CASE("vector_exp is within 2 ulp over the whole range") {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 4001)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (float v = -104; v < 89; v += 0.001f)
    x.push_back(v);  // where the result is neither 0 nor inf
  const std::vector<float> y = exp_of(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double truth = std::exp(static_cast<double>(x[i]));
    INFO("x = " << x[i]);
    if (std::isnan(x[i])) {
      REQUIRE(std::isnan(y[i]));
    } else if (std::isinf(static_cast<float>(truth))) {
      REQUIRE(y[i] == kInf);
    } else {
      worst = std::max(worst, ulps(y[i], truth));
    }
  }
  CHECK(worst <= 1.25);  // 1.01 measured: a wrong digit in a coefficient shows
}

TEST_CASE("vector_exp at the ends and at 0") {
  const std::vector<float> y =
      exp_of({0.0f, -0.0f, kInf, -kInf, 1e30f, -1e30f, 88.72283f, 88.72284f, -103.98f, -103.97f,
              std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()});
  CHECK(y[0] == 1.0f);
  CHECK(y[1] == 1.0f);
  CHECK(y[2] == kInf);
  CHECK(y[3] == 0.0f);
  CHECK(y[4] == kInf);
  CHECK(y[5] == 0.0f);
  CHECK(y[6] < kInf);  // ln of the largest float is 88.7228391
  CHECK(y[7] == kInf);
  CHECK(y[8] == 0.0f);  // below ln(2^-150) = -103.9721
  CHECK(y[9] == std::numeric_limits<float>::denorm_min());
  CHECK(std::isnan(y[10]));
  CHECK(std::isnan(y[11]));
  CHECK(vector_exp(1.0) == std::exp(1.0));
}

TEST_CASE("An element's bits do not depend on its place in the loop") {
  for (std::size_t n = 1; n <= 67; ++n) {
    const std::vector<float> y = exp_of(std::vector<float>(n, -1.2345f));
    for (float v : y)
      REQUIRE(std::bit_cast<std::uint32_t>(v) == std::bit_cast<std::uint32_t>(y[0]));
  }
}

TEST_CASE("Lanes add up and find the largest") {
  for (std::int64_t n = 0; n <= 70; ++n) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(i * 7 % 31) - 40);
    double sum = 0;
    float largest = -kInf;
    for (float v : x) {
      sum += v;
      largest = std::max(largest, v);
    }
    REQUIRE(lane_sum(n, [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; }) == sum);
    REQUIRE(lane_max(x.data(), n) == largest);
  }
  for (std::size_t place = 0; place < 70; ++place) {
    std::vector<double> x(70, -5.0);
    x[place] = 3;
    REQUIRE(lane_max(x.data(), 70) == 3);
  }
  // 2^24 + 1 is not a float.
  const std::vector<float> large{16777216.0f, 1.0f};
  CHECK(lane_sum(2, [&](std::int64_t i) { return large[static_cast<std::size_t>(i)]; }) ==
        16777217.0);
}

// The f32 curves against the standard library in f64, over their whole range.
#include "core/vector_curves.hpp"

#include <limits>

#include "support/catch.hpp"

using namespace tapehead::detail;

namespace {

struct Worst {
  double absolute = 0;
  double relative = 0;
};

Worst worst_error(float (*curve)(float), double (*truth)(double), double from, double to) {
  Worst worst;
  const int steps = 200000;
  for (int i = 0; i <= steps; ++i) {
    const auto x = static_cast<float>(from + (to - from) * i / steps);
    const double wanted = truth(static_cast<double>(x));
    const double error = std::abs(static_cast<double>(curve(x)) - wanted);
    worst.absolute = std::max(worst.absolute, error);
    if (wanted != 0) worst.relative = std::max(worst.relative, error / std::abs(wanted));
  }
  return worst;
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("f32 curves stay within a few units in the last place") {
  const double ulp = 0x1p-24 * 2;  // largest distance of neighbours, relative
  CHECK(worst_error(vector_sigmoid<float>, sigmoid, -80, 80).relative < 3 * ulp);
  CHECK(worst_error(vector_tanh, std::tanh, -12, 12).relative < 2 * ulp);
  CHECK(worst_error(vector_tanh, std::tanh, -1e-3, 1e-3).relative < 2 * ulp);
  CHECK(worst_error(vector_log1p, std::log1p, 0, 1).relative < 2 * ulp);
  CHECK(worst_error(vector_log1p, std::log1p, 0, 1e-4).relative < 2 * ulp);
  CHECK(worst_error(vector_normal_cdf, normal_cdf, -12, 12).absolute < 2.2e-7);
  CHECK(worst_error(vector_normal_cdf, normal_cdf, -6, 0).relative < 3e-6);
}

TEST_CASE("f32 curves at the ends of the range") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(vector_sigmoid(kInf) == 1);
  CHECK(vector_sigmoid(-kInf) == 0);
  CHECK(vector_tanh(kInf) == 1);
  CHECK(vector_tanh(-kInf) == -1);
  CHECK(vector_tanh(0.0f) == 0);
  CHECK(vector_normal_cdf(kInf) == 1);
  CHECK(vector_normal_cdf(-kInf) == 0);
  CHECK(vector_normal_cdf(0.0f) == Approx(0.5).epsilon(3e-7));
  CHECK(std::isnan(vector_sigmoid(nan)));
  CHECK(std::isnan(vector_tanh(nan)));
  CHECK(std::isnan(vector_log1p(nan)));
  CHECK(vector_log1p(0.0f) == 0);
  CHECK(std::isnan(vector_normal_cdf(nan)));
}

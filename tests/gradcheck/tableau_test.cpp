// The error bar: honest for functions whose derivative is known in closed form, and never so wide
// that it says nothing.
#include "gradcheck/tableau.hpp"

#include <cmath>

#include "gradcheck/checker.hpp"
#include "support/catch.hpp"

using namespace tapehead;
using detail::Tableau;

TEST_CASE("two exact rows of a quadratic error give the limit", "[gradcheck]") {
  // g(h) = 5 + 3 h^2: T[1][1] = 5 exactly.
  Tableau t(2);
  t.add(1, 8, 0);
  t.add(0.5, 5.75, 0);
  t.add(0.25, 5.1875, 0);
  CHECK(t.best().value == 5);
  CHECK(t.best().truncation == 0);
  CHECK(t.best().rounding <= 5 * 2.3e-16);
}

TEST_CASE("rounding of the rows is carried to the entry by its weights", "[gradcheck]") {
  // T[2][2] = (64 g(h/4) - 20 g(h/2) + g(h)) / 45, both of whose parents are 5.
  Tableau t(2);
  t.add(1, 8, 0.3);
  t.add(0.5, 5.75, 0.3);
  // T[1][1] = 5 lies 3 from its parent 8; T[1][0] = 5.75 only 2.25 from the row above.
  CHECK(t.best().value == 5.75);
  CHECK(t.best().truncation == 2.25);
  t.add(0.25, 5.1875, 0.3);
  CHECK(t.best().value == Approx(5).epsilon(1e-15));
  CHECK(t.best().truncation == 0);
  const double norm = std::sqrt(64.0 * 64 + 20 * 20 + 1) / 45;
  CHECK(t.best().rounding == Approx(0.3 * norm).epsilon(1e-12));
}

TEST_CASE("at steps lost in rounding the bar does not shrink", "[gradcheck]") {
  // The same wrong value twice would look like convergence; the deviation says otherwise.
  Tableau t(2);
  t.add(1e-12, 7, 1e-3);
  t.add(5e-13, 7, 2e-3);
  t.add(2.5e-13, 7, 4e-3);
  CHECK(t.best().bar >= 1e-3);
}

namespace {

struct Known {
  const char* name;
  double (*f)(double);
  double (*slope)(double);
  double low;
  double high;
};

double bump(double x) { return 1 / (1 + 25 * x * x); }
double bump_slope(double x) { return -50 * x * bump(x) * bump(x); }

const std::vector<Known>& known_functions() {
  static const std::vector<Known> list{
      {"exp", [](double x) { return std::exp(x); }, [](double x) { return std::exp(x); }, -5, 5},
      {"sin", [](double x) { return std::sin(x); }, [](double x) { return std::cos(x); }, -7, 7},
      {"sin 20x", [](double x) { return std::sin(20 * x); },
       [](double x) { return 20 * std::cos(20 * x); }, -2, 2},
      {"log", [](double x) { return std::log(x); }, [](double x) { return 1 / x; }, 1e-3, 4},
      {"sqrt", [](double x) { return std::sqrt(x); }, [](double x) { return 0.5 / std::sqrt(x); },
       1e-3, 4},
      {"1/x", [](double x) { return 1 / x; }, [](double x) { return -1 / (x * x); }, 0.01, 3},
      {"tanh", [](double x) { return std::tanh(x); },
       [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); }, -4, 4},
      {"bump", bump, bump_slope, -2, 2},
      {"x^5", [](double x) { return x * x * x * x * x; },
       [](double x) { return 5 * x * x * x * x; }, -2, 2},
      {"1000 + sin", [](double x) { return 1000 + std::sin(x); },
       [](double x) { return std::cos(x); }, -3, 3},
      {"cancelling", [](double x) { return std::exp(x) - 1 - x; },
       [](double x) { return std::exp(x) - 1; }, -1, 1},
  };
  return list;
}

}  // namespace

TEST_CASE("the true error lies within three bars at least 99 times of 100", "[gradcheck]") {
  Rng rng(11);
  for (const Known& known : known_functions()) {
    constexpr int kPoints = 500;
    std::vector<double> x;
    for (int i = 0; i < kPoints; ++i) x.push_back(rng.uniform(known.low, known.high));
    const auto f = [&](const std::vector<Tensor>& in) {
      std::vector<double> y;
      std::vector<double> slope;
      for (const double v : in[0].data<double>()) {
        y.push_back(known.f(v));
        slope.push_back(known.slope(v));
      }
      const Tensor slopes = tensor(std::span<const double>(slope), in[0].shape());
      Tensor out = record("known", tensor(std::span<const double>(y), in[0].shape()))
                       .input(in[0], [slopes](const Tensor& dy) {
                         std::vector<double> g;
                         for (std::int64_t i = 0; i < dy.size(); ++i)
                           g.push_back(dy.at_flat(i) * slopes.at_flat(i));
                         return tensor(std::span<const double>(g), dy.shape());
                       });
      return std::vector<Tensor>{out};
    };
    GradcheckOptions options;
    options.worst = kPoints;
    const GradcheckReport r =
        gradcheck(f, {tensor(std::span<const double>(x), {kPoints})}, options);
    INFO(known.name << "\n" << r.message);
    CHECK(r.compared == 2 * kPoints);
    CHECK(r.status == GradcheckStatus::pass);
    CHECK(static_cast<double>(r.within_three_bars) >= 0.99 * static_cast<double>(r.compared));
    CHECK(r.tensors.at(0).widest_relative < 1e-9);
  }
}

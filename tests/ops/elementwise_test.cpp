// Values and slopes of elementwise functions against PyTorch, textbook formulas and numbers worked
// out by hand.
#include <cmath>
#include <limits>
#include <numbers>

#include <tapehead/ops.hpp>

#include "support/catch.hpp"
#include "support/fixture.hpp"
#include "support/gradient.hpp"

using namespace tapehead;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

void check_close(const Tensor& found, const Tensor& wanted, double tolerance) {
  const Comparison result = compare(found, wanted, {tolerance, tolerance});
  INFO(result.message);
  CHECK(result.equal);
}

struct Curve {
  const char* name;
  Tensor (*op)(const Tensor&);
};
const Curve kFixtureCurves[] = {{"gelu", plain<gelu>},         {"gelu_tanh", plain<gelu_tanh>},
                                {"silu", plain<silu>},         {"softplus", plain<softplus>},
                                {"erf", plain<tapehead::erf>}, {"sigmoid", plain<sigmoid>}};

}  // namespace

TEST_CASE("activations and their gradients equal PyTorch's") {
  const Fixture fixture("gelu");
  for (const Curve& curve : kFixtureCurves) {
    INFO(curve.name);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const double tolerance = dtype == DType::f64 ? 1e-14 : 1e-6;
      const std::string name = curve.name;
      const Tensor x = fixture.get("input", dtype);
      const Tensor dy = fixture.get("cotangent", dtype);
      check_close(curve.op(x), fixture.get(name + ".output", dtype), tolerance);
      check_close(gradient_of(curve.op, x, dy), fixture.get(name + ".grad.input", dtype),
                  tolerance);
    }
  }
}

TEST_CASE("functions equal their textbook formulas in both dtypes") {
  struct Case {
    const char* name;
    TensorFunction op;
    double (*value)(double);
    double (*slope)(double);
  };
  const Case cases[] = {
      {"exp", [](const Tensor& x) { return exp(x); }, [](double x) { return std::exp(x); },
       [](double x) { return std::exp(x); }},
      {"log", [](const Tensor& x) { return log(x); }, [](double x) { return std::log(x); },
       [](double x) { return 1 / x; }},
      {"sqrt", [](const Tensor& x) { return sqrt(x); }, [](double x) { return std::sqrt(x); },
       [](double x) { return 0.5 / std::sqrt(x); }},
      {"pow 2.5", [](const Tensor& x) { return pow(x, 2.5); },
       [](double x) { return x * x * std::sqrt(x); },
       [](double x) { return 2.5 * x * std::sqrt(x); }},
      {"pow -1", [](const Tensor& x) { return pow(x, -1); }, [](double x) { return 1 / x; },
       [](double x) { return -1 / (x * x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); },
       [](double x) { return 1 - 2 / (std::exp(2 * x) + 1); },
       [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); },
       [](double x) { return 1 / (1 + std::exp(-x)); },
       [](double x) { return 1 / (2 + std::exp(x) + std::exp(-x)); }},
  };
  const Tensor points = tensor({0.1, 0.75, 1, 1.5, 2, 3.25});
  for (const Case& c : cases) {
    INFO(c.name);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const double tolerance = dtype == DType::f64 ? 1e-14 : 1e-6;
      const Tensor x = cast(points, dtype);
      const Tensor y = c.op(x);
      const Tensor dx = gradient_of(c.op, x);
      for (std::int64_t i = 0; i < x.size(); ++i) {
        CHECK(y.at({i}) == Approx(c.value(x.at({i}))).epsilon(tolerance).margin(tolerance));
        CHECK(dx.at({i}) == Approx(c.slope(x.at({i}))).epsilon(tolerance).margin(tolerance));
      }
    }
  }
}

TEST_CASE("second derivatives of smooth functions") {
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto normal = [](double x) {
    return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  };
  struct Case {
    const char* name;
    TensorFunction op;
    std::function<double(double)> second;
  };
  const Case cases[] = {
      {"exp", [](const Tensor& x) { return exp(x); }, [](double x) { return std::exp(x); }},
      {"log", [](const Tensor& x) { return log(x); }, [](double x) { return -1 / (x * x); }},
      {"sqrt", [](const Tensor& x) { return sqrt(x); },
       [](double x) { return -0.25 / (x * std::sqrt(x)); }},
      {"pow 3", [](const Tensor& x) { return pow(x, 3); }, [](double x) { return 6 * x; }},
      {"tanh", [](const Tensor& x) { return tanh(x); },
       [](double x) { return -2 * std::tanh(x) / (std::cosh(x) * std::cosh(x)); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); },
       [=](double x) { return logistic(x) * logistic(-x) * (logistic(-x) - logistic(x)); }},
      {"erf", [](const Tensor& x) { return erf(x); },
       [](double x) { return -4 * x * std::exp(-x * x) * std::numbers::inv_sqrtpi; }},
      {"softplus", [](const Tensor& x) { return softplus(x); },
       [=](double x) { return logistic(x) * logistic(-x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); },
       [=](double x) { return normal(x) * (2 - x * x); }},
      {"silu", [](const Tensor& x) { return silu(x); },
       [=](double x) {
         return logistic(x) * logistic(-x) * (2 + x * (logistic(-x) - logistic(x)));
       }},
      {"1 / x", [](const Tensor& x) { return 1.0 / x; }, [](double x) { return 2 / (x * x * x); }},
      {"x * x * x", [](const Tensor& x) { return x * x * x; }, [](double x) { return 6 * x; }},
      {"relu of x^3", [](const Tensor& x) { return relu(pow(x, 3)); },
       [](double x) { return 6 * x; }},
      {"abs of -x^3", [](const Tensor& x) { return abs(-pow(x, 3)); },
       [](double x) { return 6 * x; }},
      {"clamp of x^2", [](const Tensor& x) { return clamp(x * x, -1, 100); },
       [](double) { return 2; }},
      {"maximum of x^3 and -1", [](const Tensor& x) { return maximum(pow(x, 3), -1); },
       [](double x) { return 6 * x; }},
      {"maximum of x^3 and -x", [](const Tensor& x) { return maximum(pow(x, 3), -x); },
       [](double x) { return 6 * x; }},
      {"where of x^3", [](const Tensor& x) { return where(greater(x, 0), pow(x, 3), x); },
       [](double x) { return 6 * x; }},
  };
  const Tensor x = tensor({0.25, 0.75, 1.5, 2.5}, DType::f64);
  const Tensor direction = tensor({1, -2, 0.5, 3}, DType::f64);
  for (const Case& c : cases) {
    INFO(c.name);
    const Derivatives found = derivatives_of(c.op, x, direction);
    check_close(found.first, gradient_of(c.op, x), 1e-14);
    for (std::int64_t i = 0; i < x.size(); ++i) {
      INFO("x = " << x.at({i}));
      CHECK(found.second.at({i}) ==
            Approx(direction.at({i}) * c.second(x.at({i}))).epsilon(1e-12).margin(1e-14));
    }
  }
}

TEST_CASE("the second derivative of gelu_tanh follows its first, far out too") {
  const double h = 1e-5;
  const Tensor x = tensor({-20, -9, -2, -0.5, 0, 0.5, 2, 9, 20}, DType::f64);
  const Derivatives found = derivatives_of(plain<gelu_tanh>, x, ones(x.shape(), DType::f64));
  check_close(found.first, gradient_of(plain<gelu_tanh>, x), 1e-14);
  const Tensor difference =
      (gradient_of(plain<gelu_tanh>, x + h) - gradient_of(plain<gelu_tanh>, x - h)) / (2 * h);
  check_close(found.second, difference, 1e-9);
}

TEST_CASE("functions of the logistic family do not overflow") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = tensor({-1e30, -1000, 0, 100, 1000, 1e30}, dtype);
    const std::vector<double> zero_half_one{0, 0, 0.5, 1, 1, 1};
    const Tensor slopes = gradient_of(plain<softplus>, x);
    for (std::int64_t i = 0; i < 6; ++i) {
      const double step = zero_half_one[static_cast<std::size_t>(i)];
      CHECK(sigmoid(x).at({i}) == step);
      CHECK(slopes.at({i}) == step);
      CHECK(tanh(x).at({i}) == 2 * step - 1);
      CHECK(std::isfinite(gradient_of(plain<sigmoid>, x).at({i})));
      CHECK(std::isfinite(gradient_of(plain<tapehead::tanh>, x).at({i})));
      for (Tensor (*op)(const Tensor&) : {plain<silu>, plain<gelu>, plain<gelu_tanh>}) {
        CHECK(op(x).at({i}) == Approx(i > 2 ? x.at({i}) : 0).margin(1e-30));
        CHECK(gradient_of(op, x).at({i}) == Approx(step).margin(1e-30));
      }
    }
    // softplus(100) = 100 + e^-100, of which nothing is left after rounding.
    CHECK(softplus(x).at({0}) == 0);
    CHECK(softplus(x).at({2}) == Approx(std::log(2.0)).epsilon(1e-6));
    CHECK(softplus(x).at({3}) == 100);
    CHECK(softplus(x).at({5}) == x.at({5}));
  }
}

TEST_CASE("gelu keeps its digits in the left tail") {
  // -6 Phi(-6) = -6 * 9.865876450376946e-10, from tables of the normal distribution.
  CHECK(gelu(tensor(-6, DType::f64)).item() == Approx(-5.9195258702261676e-09).epsilon(1e-13));
  CHECK(gelu(tensor(-6)).item() == Approx(-5.9195258702261676e-09).epsilon(1e-5));
}

TEST_CASE("slopes of pow with a constant exponent") {
  const auto slope = [](double x, double p) {
    return gradient_of([p](const Tensor& v) { return pow(v, p); }, tensor(x, DType::f64)).item();
  };
  CHECK(slope(0, 2) == 0);
  CHECK(slope(0, 1) == 1);
  CHECK(slope(0, 1.875) == 0);
  CHECK(slope(0, 0) == 0);
  CHECK(slope(-5, 3) == 75);
  CHECK(slope(-5, 2) == -10);
  CHECK(slope(4, 0.5) == 0.25);
  CHECK(slope(0, 0.5) == kInf);
  CHECK(pow(tensor(0), 0).item() == 1);
  CHECK(pow(tensor(-5), 3).item() == -125);
  CHECK(pow(tensor(-2), -2).item() == 0.25);
  CHECK_THROWS_WITH(pow(tensor(1), kNaN), ContainsSubstring("pow: the exponent is NaN"));
}

TEST_CASE("pow to the first power is a node of its own") {
  Tape tape;
  const Tensor x = tape.watch(tensor({2, 3}));
  const Tensor y = pow(x, 1);
  CHECK(y.node() != x.node());
  CHECK(same_bits(tape.backward(sum(y * y))[x], tensor({4, 6})));
}

TEST_CASE("functions of real numbers refuse the other dtypes by name") {
  const Tensor ids = tensor({1, 2}, DType::i64);
  using Function = Tensor (*)(const Tensor&);
  const Function functions[] = {
      plain<tapehead::exp>, plain<tapehead::log>,  plain<tapehead::sqrt>,
      plain<tapehead::abs>, plain<tapehead::tanh>, plain<tapehead::sigmoid>,
      plain<tapehead::erf>, plain<softplus>,       plain<sign>,
      plain<relu>,          plain<gelu>,           plain<gelu_tanh>,
      plain<silu>};
  for (const Function op : functions) {
    CHECK_THROWS_AS(op(ids), DTypeError);
    CHECK_THROWS_AS(op(Tensor()), ValueError);
  }
  CHECK_THROWS_WITH(gelu(ids), ContainsSubstring("gelu: x must be f32 or f64, but is i64"));
  CHECK_THROWS_AS(maximum(ids, ids), DTypeError);
}

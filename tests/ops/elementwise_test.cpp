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
const Curve kFixtureCurves[] = {{"gelu", gelu},         {"gelu_tanh", gelu_tanh},
                                {"silu", silu},         {"softplus", softplus},
                                {"erf", tapehead::erf}, {"sigmoid", sigmoid}};

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
  const Derivatives found = derivatives_of(gelu_tanh, x, ones(x.shape(), DType::f64));
  check_close(found.first, gradient_of(gelu_tanh, x), 1e-14);
  const Tensor difference =
      (gradient_of(gelu_tanh, x + h) - gradient_of(gelu_tanh, x - h)) / (2 * h);
  check_close(found.second, difference, 1e-9);
}

TEST_CASE("functions of the logistic family do not overflow") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = tensor({-1e30, -1000, 0, 100, 1000, 1e30}, dtype);
    const std::vector<double> zero_half_one{0, 0, 0.5, 1, 1, 1};
    const Tensor slopes = gradient_of(softplus, x);
    for (std::int64_t i = 0; i < 6; ++i) {
      const double step = zero_half_one[static_cast<std::size_t>(i)];
      CHECK(sigmoid(x).at({i}) == step);
      CHECK(slopes.at({i}) == step);
      CHECK(tanh(x).at({i}) == 2 * step - 1);
      CHECK(std::isfinite(gradient_of(sigmoid, x).at({i})));
      CHECK(std::isfinite(gradient_of(tapehead::tanh, x).at({i})));
      for (const auto op : {silu, gelu, gelu_tanh}) {
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

TEST_CASE("every way to write relu has slope 0 at the kink") {
  const Tensor x = tensor({-1, 0, 2});
  const Tensor wanted = tensor({0, 0, 1});
  CHECK(same_bits(gradient_of(relu, x), wanted));
  CHECK(same_bits(gradient_of([](const Tensor& v) { return maximum(v, 0); }, x), wanted));
  CHECK(same_bits(gradient_of([](const Tensor& v) { return clamp(v, 0, kInf); }, x), wanted));
  CHECK(same_bits(
      gradient_of([](const Tensor& v) { return where(greater(v, 0), v, zeros({})); }, x), wanted));
  CHECK(same_bits(gradient_of([](const Tensor& v) { return 0.5 * (v + abs(v)); }, x),
                  tensor({0, 0.5, 1})));  // abs: 0 at 0, and the 0.5 of the other half
  CHECK(same_bits(relu(x), tensor({0, 0, 2})));
}

TEST_CASE("clamp, maximum with a number, abs and sign") {
  const Tensor x = tensor({-3, -1, -0.5, 0, 1, 4});
  CHECK(same_bits(clamp(x, -1, 1), tensor({-1, -1, -0.5, 0, 1, 1})));
  CHECK(same_bits(gradient_of([](const Tensor& v) { return clamp(v, -1, 1); }, x),
                  tensor({0, 0, 1, 1, 0, 0})));
  CHECK(same_bits(maximum(x, -0.5), tensor({-0.5, -0.5, -0.5, 0, 1, 4})));
  CHECK(same_bits(gradient_of([](const Tensor& v) { return maximum(v, -0.5); }, x),
                  tensor({0, 0, 0, 1, 1, 1})));
  CHECK(same_bits(abs(x), tensor({3, 1, 0.5, 0, 1, 4})));
  CHECK(same_bits(gradient_of(tapehead::abs, x), tensor({-1, -1, -1, 0, 1, 1})));
  CHECK(same_bits(sign(x), tensor({-1, -1, -1, 0, 1, 1})));
  CHECK(same_bits(gradient_of(sign, x), zeros({6})));
  CHECK_THROWS_WITH(clamp(x, 1, -1), ContainsSubstring("clamp: low must be at most high"));
  CHECK_THROWS_AS(clamp(x, kNaN, 1), ValueError);
  CHECK_THROWS_AS(maximum(x, kNaN), ValueError);
}

TEST_CASE("NaN stays NaN through piecewise functions, infinities pass") {
  const Tensor x = tensor({kNaN, -kInf, kInf});
  for (const TensorFunction& f :
       {TensorFunction(relu), TensorFunction(tapehead::abs), TensorFunction(sign),
        TensorFunction([](const Tensor& v) { return clamp(v, 0, kInf); }),
        TensorFunction([](const Tensor& v) { return maximum(v, 0); }),
        TensorFunction([](const Tensor& v) { return maximum(v, zeros({3})); }),
        TensorFunction([](const Tensor& v) { return maximum(zeros({3}), v); })}) {
    CHECK(std::isnan(f(x).at({0})));
  }
  CHECK(relu(x).at({1}) == 0);
  CHECK(relu(x).at({2}) == kInf);
  CHECK(gradient_of(relu, x).at({2}) == 1);
}

TEST_CASE("maximum of two tensors shares the gradient of a tie") {
  const Tensor a = tensor({1, 2, 3});
  const Tensor b = tensor({3, 2, 1});
  Tape tape;
  const Tensor wa = tape.watch(a);
  const Tensor wb = tape.watch(b);
  const Tensor y = maximum(wa, wb);
  CHECK(same_bits(y, tensor({3, 2, 3})));
  const Gradients gradients = tape.backward(y, tensor({10, 20, 30}));
  CHECK(same_bits(gradients[wa], tensor({0, 10, 30})));
  CHECK(same_bits(gradients[wb], tensor({10, 10, 0})));
}

TEST_CASE("maximum sums the gradient of a stretched operand") {
  const Tensor dx = gradient_of(
      [](const Tensor& row) {
        return maximum(tensor({{1, 5}, {3, 1}, {2, 2}}), row);
      },
      tensor({{2, 2}}), tensor({{1, 2}, {4, 8}, {16, 32}}));
  // Column 0: 1 < 2 takes 1, 3 > 2 nothing, a tie half of 16. Column 1: nothing, 8, half of 32.
  CHECK(same_bits(dx, tensor({{9, 24}})));
}

TEST_CASE("the root at 0 has an infinite slope, and none where it was not selected") {
  const Tensor x = tensor({0, 4}, DType::f64);
  CHECK(same_bits(gradient_of([](const Tensor& v) { return sqrt(v); }, x),
                  tensor({kInf, 0.25}, DType::f64)));
  const auto guarded = [](const Tensor& v) {
    return where(greater(v, 0), sqrt(v), zeros({}, DType::f64));
  };
  CHECK(same_bits(gradient_of(guarded, x), tensor({0, 0.25}, DType::f64)));
  const auto log_guarded = [](const Tensor& v) { return masked_fill(log(v), equal(v, 0), -9); };
  CHECK(same_bits(gradient_of(log_guarded, x), tensor({0, 0.25}, DType::f64)));
  const auto inverse = [](const Tensor& v) { return masked_fill(1.0 / v, equal(v, 0), 0); };
  CHECK(compare(gradient_of(inverse, x), tensor({0, -0.0625}, DType::f64)));  // -0 is fine
  const auto power = [](const Tensor& v) { return masked_fill(pow(v, -0.5), equal(v, 0), 0); };
  CHECK(same_bits(gradient_of(power, x), tensor({0, -0.0625}, DType::f64)));
}

TEST_CASE("a term that is not selected cannot poison the gradient") {
  const Tensor target = tensor({0, kNaN});
  const Tensor chosen = less(tensor({0, 1}), 1);
  const auto by_where = [&](const Tensor& x) {
    return sum(where(chosen, (x - target) * (x - target), zeros({})));
  };
  const auto by_pow = [&](const Tensor& x) {
    return sum(masked_fill(pow(x - target, 2), logical_not(chosen), 0));
  };
  CHECK(same_bits(gradient_of(by_where, zeros({2})), zeros({2})));
  CHECK(same_bits(gradient_of(by_pow, zeros({2})), zeros({2})));
  // ln(1 + e^x) written out overflows in f32 at 100; its slope there is inf / inf.
  const auto naive = [](const Tensor& x) {
    return masked_fill(log(1.0 + exp(x)), greater(x, 50), 0);
  };
  CHECK(same_bits(gradient_of(naive, tensor({0, 100})), tensor({0.5, 0})));
}

TEST_CASE("a NaN in the cotangent stays where it belongs") {
  const Tensor condition = less(tensor({0, 1}), 1);
  const Tensor dy = tensor({1, kNaN});
  CHECK(same_bits(gradient_of([&](const Tensor& a) { return where(condition, a, zeros({2})); },
                              tensor({5, 6}), dy),
                  tensor({1, 0})));
  CHECK(same_bits(
      gradient_of([&](const Tensor& b) { return where(logical_not(condition), zeros({2}), b); },
                  tensor({5, 6}), dy),
      tensor({1, 0})));
  CHECK(same_bits(
      gradient_of([&](const Tensor& x) { return masked_fill(x, logical_not(condition), 3); },
                  tensor({5, 6}), dy),
      tensor({1, 0})));
  CHECK(same_bits(gradient_of(relu, tensor({1, -1}), dy), tensor({1, 0})));
}

TEST_CASE("where and masked_fill copy and broadcast") {
  const Tensor condition = tensor(std::vector<bool>{true, false, true}, {1, 3});
  const Tensor a = tensor({{1}, {2}});
  CHECK(same_bits(where(condition, a, tensor(-7)), tensor({{1, -7, 1}, {2, -7, 2}})));
  const Tensor nan_row = tensor({{kNaN, 5, kNaN}});
  CHECK(same_bits(where(condition, a, nan_row), tensor({{1, 5, 1}, {2, 5, 2}})));
  const Tensor da = gradient_of([&](const Tensor& v) { return where(condition, v, nan_row); }, a,
                                tensor({{1, 2, 4}, {8, 16, 32}}));
  CHECK(same_bits(da, tensor({{5}, {40}})));
  const Tensor db = gradient_of([&](const Tensor& v) { return where(condition, a, v); }, nan_row,
                                tensor({{1, 2, 4}, {8, 16, 32}}));
  CHECK(same_bits(db, tensor({{0, 18, 0}})));
  const Tensor scalar = gradient_of([&](const Tensor& v) { return where(condition, a, v); },
                                    tensor(0), tensor({{1, 2, 4}, {8, 16, 32}}));
  CHECK(same_bits(scalar, tensor(18)));

  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(same_bits(masked_fill(x, condition, -1e9), tensor({{-1e9, 2, -1e9}, {-1e9, 5, -1e9}})));
  CHECK(
      same_bits(masked_fill(x, condition, -kInf), tensor({{-kInf, 2, -kInf}, {-kInf, 5, -kInf}})));
  CHECK(same_bits(masked_fill(x, tensor(std::vector<bool>{true}, {}), 0), zeros({2, 3})));
  CHECK(same_bits(gradient_of([&](const Tensor& v) { return masked_fill(v, condition, 9); }, x),
                  tensor({{0, 1, 0}, {0, 1, 0}})));
  const Tensor ids = tensor(std::vector<std::int64_t>{1, 2, 3}, {1, 3});
  CHECK(masked_fill(ids, condition, 0).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, 2, 0});
}

TEST_CASE("where and masked_fill refuse what is not a condition and shapes that do not fit") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(where(x, x, x), DTypeError);
  CHECK_THROWS_WITH(where(x, x, x), ContainsSubstring("where: the condition must be boolean") &&
                                        ContainsSubstring("not_equal(m, 0)"));
  CHECK_THROWS_WITH(masked_fill(x, x, 0),
                    ContainsSubstring("masked_fill: the mask must be boolean, but is f32"));
  CHECK_THROWS_AS(masked_fill(x, cast(x, DType::i64), 0), DTypeError);
  CHECK_THROWS_WITH(masked_fill(zeros({1, 3}), cast(x, DType::boolean), 0),
                    ContainsSubstring("mask [2, 3] is larger than x [1, 3]") &&
                        ContainsSubstring("broadcast_to"));
  CHECK_THROWS_AS(masked_fill(x, cast(zeros({3}), DType::boolean), 0), ShapeError);
  CHECK_THROWS_AS(where(cast(x, DType::boolean), zeros({2, 4}), x), ShapeError);
  CHECK_THROWS_AS(where(cast(x, DType::boolean), x, cast(x, DType::f64)), DTypeError);
  CHECK_THROWS_AS(where(Tensor(), x, x), ValueError);
}

TEST_CASE("gradients of stretched operands are summed back") {
  const auto both = [](const Tensor& a, const Tensor& b, const Tensor& dy,
                       Tensor (*op)(const Tensor&, const Tensor&)) {
    Tape tape;
    const Tensor wa = tape.watch(a);
    const Tensor wb = tape.watch(b);
    const Gradients gradients = tape.backward(op(wa, wb), dy);
    return std::pair<Tensor, Tensor>(gradients[wa], gradients[wb]);
  };
  const auto column =
      both(tensor({{1}, {2}}), tensor({{10, 20, 30}}), tensor({{1, 2, 3}, {4, 5, 6}}), add);
  CHECK(same_bits(column.first, tensor({{6}, {15}})));
  CHECK(same_bits(column.second, tensor({{5, 7, 9}})));
  const auto rows = both(ones({3, 4}), ones({1, 4}), ones({3, 4}), mul);
  CHECK(same_bits(rows.second, tensor({{3, 3, 3, 3}})));
  const auto single = both(tensor({{2}}), ones({5, 4}), ones({5, 4}), mul);
  CHECK(same_bits(single.first, tensor({{20}})));
  CHECK(same_bits(single.second, full({5, 4}, 2)));
  const auto scalar = both(tensor(4), full({2, 3}, 2), ones({2, 3}), div);
  CHECK(same_bits(scalar.first, tensor(3)));          // six times 1 / 2
  CHECK(same_bits(scalar.second, full({2, 3}, -1)));  // -4 / 2^2
}

TEST_CASE("comparisons of every dtype") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64}) {
    const Tensor a = tensor({1, 2, 3}, dtype);
    const Tensor b = tensor({2, 2, 2}, dtype);
    const auto bits = [](const Tensor& x) { return x.to_vector<bool>(); };
    CHECK(equal(a, b).dtype() == DType::boolean);
    CHECK(bits(equal(a, b)) == std::vector<bool>{false, true, false});
    CHECK(bits(not_equal(a, b)) == std::vector<bool>{true, false, true});
    CHECK(bits(less(a, b)) == std::vector<bool>{true, false, false});
    CHECK(bits(less_equal(a, b)) == std::vector<bool>{true, true, false});
    CHECK(bits(greater(a, b)) == std::vector<bool>{false, false, true});
    CHECK(bits(greater_equal(a, b)) == std::vector<bool>{false, true, true});
    CHECK(bits(equal(a, 2)) == bits(equal(a, b)));
    CHECK(bits(not_equal(a, 2)) == bits(not_equal(a, b)));
    CHECK(bits(less(a, 2)) == bits(less(a, b)));
    CHECK(bits(less_equal(a, 2)) == bits(less_equal(a, b)));
    CHECK(bits(greater(a, 2)) == bits(greater(a, b)));
    CHECK(bits(greater_equal(a, 2)) == bits(greater_equal(a, b)));
    CHECK(bits(greater(a, 1.5)) == std::vector<bool>{false, true, true});
  }
  const Tensor flags = tensor(std::vector<bool>{true, false}, {2});
  CHECK(equal(flags, logical_not(flags)).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK(equal(flags, 1).to_vector<bool>() == std::vector<bool>{true, false});
}

TEST_CASE("comparisons: stretching, NaN, numbers rounded to the dtype, errors") {
  CHECK(greater(tensor({{1}, {3}}), tensor({{0, 2}})).to_vector<bool>() ==
        std::vector<bool>{true, false, true, true});
  const Tensor nan = tensor({kNaN});
  CHECK_FALSE(equal(nan, nan).item());
  CHECK(not_equal(nan, nan).item());
  CHECK_FALSE(less(nan, 0).item());
  CHECK_FALSE(greater_equal(nan, 0).item());
  CHECK(equal(full({}, 0.1), 0.1).item());
  CHECK(equal(full({}, 0.1, DType::f64), 0.1).item());
  CHECK_THROWS_AS(equal(tensor({1}), tensor({1}, DType::f64)), DTypeError);
  CHECK_THROWS_WITH(less(zeros({2, 3}), zeros({3})), ContainsSubstring("less: ranks differ"));
  CHECK_THROWS_AS(less(Tensor(), 1), ValueError);
}

TEST_CASE("logic of booleans") {
  const Tensor a = tensor(std::vector<bool>{false, false, true, true}, {4});
  const Tensor b = tensor(std::vector<bool>{false, true, false, true}, {4});
  CHECK(logical_and(a, b).to_vector<bool>() == std::vector<bool>{false, false, false, true});
  CHECK(logical_or(a, b).to_vector<bool>() == std::vector<bool>{false, true, true, true});
  CHECK(logical_not(a).to_vector<bool>() == std::vector<bool>{true, true, false, false});
  CHECK_THROWS_AS(logical_and(zeros({4}), b), DTypeError);
  CHECK_THROWS_AS(logical_or(a, zeros({4})), DTypeError);
  CHECK_THROWS_AS(logical_not(tensor({1}, DType::i64)), DTypeError);
}

TEST_CASE("functions of real numbers refuse the other dtypes by name") {
  const Tensor ids = tensor({1, 2}, DType::i64);
  using Function = Tensor (*)(const Tensor&);
  const Function functions[] = {tapehead::exp, tapehead::log,  tapehead::sqrt,
                                tapehead::abs, tapehead::tanh, tapehead::sigmoid,
                                tapehead::erf, softplus,       sign,
                                relu,          gelu,           gelu_tanh,
                                silu};
  for (const Function op : functions) {
    CHECK_THROWS_AS(op(ids), DTypeError);
    CHECK_THROWS_AS(op(Tensor()), ValueError);
  }
  CHECK_THROWS_WITH(gelu(ids), ContainsSubstring("gelu: x must be f32 or f64, but is i64"));
  CHECK_THROWS_AS(maximum(ids, ids), DTypeError);
}

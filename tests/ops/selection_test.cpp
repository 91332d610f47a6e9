// Kinks, ties, selection and comparisons: what is chosen, and what must not leak from what is not.
#include <cmath>
#include <limits>

#include <tapehead/ops.hpp>

#include "support/catch.hpp"
#include "support/gradient.hpp"

using namespace tapehead;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("every way to write relu has slope 0 at the kink") {
  const Tensor x = tensor({-1, 0, 2});
  const Tensor wanted = tensor({0, 0, 1});
  CHECK(same_bits(gradient_of(plain<relu>, x), wanted));
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
  CHECK(same_bits(gradient_of(plain<tapehead::abs>, x), tensor({-1, -1, -1, 0, 1, 1})));
  CHECK(same_bits(sign(x), tensor({-1, -1, -1, 0, 1, 1})));
  CHECK(same_bits(gradient_of(plain<sign>, x), zeros({6})));
  CHECK_THROWS_WITH(clamp(x, 1, -1), ContainsSubstring("clamp: low must be at most high"));
  CHECK_THROWS_AS(clamp(x, kNaN, 1), ValueError);
  CHECK_THROWS_AS(maximum(x, kNaN), ValueError);
}

TEST_CASE("NaN stays NaN through piecewise functions, infinities pass") {
  const Tensor x = tensor({kNaN, -kInf, kInf});
  for (const TensorFunction& f :
       {TensorFunction(plain<relu>), TensorFunction(plain<tapehead::abs>),
        TensorFunction(plain<sign>),
        TensorFunction([](const Tensor& v) { return clamp(v, 0, kInf); }),
        TensorFunction([](const Tensor& v) { return maximum(v, 0); }),
        TensorFunction([](const Tensor& v) { return maximum(v, zeros({3})); }),
        TensorFunction([](const Tensor& v) { return maximum(zeros({3}), v); })}) {
    CHECK(std::isnan(f(x).at({0})));
  }
  CHECK(relu(x).at({1}) == 0);
  CHECK(relu(x).at({2}) == kInf);
  CHECK(gradient_of(plain<relu>, x).at({2}) == 1);
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
  CHECK(same_bits(gradient_of(plain<relu>, tensor({1, -1}), dy), tensor({1, 0})));
  // At the second element nothing of these depends on x.
  const Tensor x = tensor({1, -1});
  for (const TensorFunction& f :
       {TensorFunction([](const Tensor& v) { return maximum(v, 0); }),
        TensorFunction([](const Tensor& v) { return clamp(v, 0, 2); }),
        TensorFunction([](const Tensor& v) { return maximum(v, zeros({2})); }),
        TensorFunction([](const Tensor& v) { return maximum(zeros({2}), v); })}) {
    CHECK(same_bits(gradient_of(f, x, dy), tensor({1, 0})));
  }
  CHECK(same_bits(gradient_of(plain<tapehead::abs>, tensor({1, 0}), dy), tensor({1, 0})));
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
      both(tensor({{1}, {2}}), tensor({{10, 20, 30}}), tensor({{1, 2, 3}, {4, 5, 6}}), plain<add>);
  CHECK(same_bits(column.first, tensor({{6}, {15}})));
  CHECK(same_bits(column.second, tensor({{5, 7, 9}})));
  const auto rows = both(ones({3, 4}), ones({1, 4}), ones({3, 4}), plain<mul>);
  CHECK(same_bits(rows.second, tensor({{3, 3, 3, 3}})));
  const auto single = both(tensor({{2}}), ones({5, 4}), ones({5, 4}), plain<mul>);
  CHECK(same_bits(single.first, tensor({{20}})));
  CHECK(same_bits(single.second, full({5, 4}, 2)));
  const auto scalar = both(tensor(4), full({2, 3}, 2), ones({2, 3}), plain<div>);
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

// Reductions against textbook loops in f64 and numbers worked out by hand.
#include <algorithm>
#include <cmath>
#include <limits>

#include <tapehead/ops.hpp>
#include <tapehead/random.hpp>

#include "support/catch.hpp"
#include "support/gradient.hpp"

using namespace tapehead;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Reduces x over `axes` with a function of the list of numbers behind each result.
std::vector<double> reduced_by_hand(const Tensor& x, const std::vector<int>& axes,
                                    const std::function<double(const std::vector<double>&)>& f) {
  std::vector<bool> reduced(static_cast<std::size_t>(x.rank()), false);
  for (const int axis : axes) reduced[static_cast<std::size_t>(axis)] = true;
  std::int64_t results = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!reduced[static_cast<std::size_t>(axis)]) results *= x.dim(axis);
  }
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(results));
  for (std::int64_t i = 0; i < x.size(); ++i) {
    std::int64_t rest = i;
    std::int64_t place = 0;
    std::int64_t stride = 1;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % x.dim(axis);
      rest /= x.dim(axis);
      if (reduced[static_cast<std::size_t>(axis)]) continue;
      place += index * stride;
      stride *= x.dim(axis);
    }
    groups[static_cast<std::size_t>(place)].push_back(x.at_flat(i));
  }
  std::vector<double> values;
  for (const auto& group : groups) values.push_back(f(group));
  return values;
}

double largest(const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); }
double smallest(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }
double total(const std::vector<double>& v) {
  double t = 0;
  for (const double each : v) t += each;
  return t;
}
double length(const std::vector<double>& v) {
  double t = 0;
  for (const double each : v) t += each * each;
  return std::sqrt(t);
}
double log_of_sum(const std::vector<double>& v) {
  double t = 0;
  for (const double each : v) t += std::exp(each);
  return std::log(t);
}

}  // namespace

TEST_CASE("reductions over every set of axes") {
  struct Case {
    const char* name;
    Tensor (*op)(const Tensor&, const Axes&, Reduced, CallSite);
    double (*by_hand)(const std::vector<double>&);
  };
  const Case cases[] = {
      {"sum", sum, total},
      {"mean", mean,
       [](const std::vector<double>& v) { return total(v) / static_cast<double>(v.size()); }},
      {"max", max, largest},
      {"min", min, smallest},
      {"norm", norm, length},
      {"logsumexp", logsumexp, log_of_sum}};
  const std::vector<std::vector<int>> axis_sets{{},     {0},    {1},    {2},       {3},
                                                {0, 1}, {0, 2}, {1, 3}, {0, 1, 3}, {0, 1, 2, 3}};
  for (const DType dtype : {DType::f32, DType::f64}) {
    Rng rng(1);
    const Tensor x = uniform({3, 5, 17, 2}, rng, -3, 3, dtype);
    for (const Case& c : cases) {
      for (const auto& axes : axis_sets) {
        INFO(c.name << " over " << axes.size() << " axes");
        const Tensor y = c.op(x, Axes(axes), Reduced::drop, {});
        const std::vector<double> wanted = reduced_by_hand(x, axes, c.by_hand);
        REQUIRE(y.size() == static_cast<std::int64_t>(wanted.size()));
        CHECK(y.rank() == 4 - static_cast<int>(axes.size()));
        double worst = 0;
        for (std::int64_t i = 0; i < y.size(); ++i) {
          worst = std::max(worst, std::abs(y.at_flat(i) - wanted[static_cast<std::size_t>(i)]));
        }
        CHECK(worst <= (dtype == DType::f64 ? 1e-12 : 1e-5));
        CHECK(c.op(x, Axes(axes), Reduced::keep, {}).rank() == 4);
      }
    }
  }
}

TEST_CASE("long reductions are cut into pieces") {
  // 100,003 numbers i mod 7 in one column and, apart, in three: sum, largest, first of the largest.
  const std::int64_t n = 100003;
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i % 7));
  const Tensor line = tensor(std::span<const double>(values), {n});
  CHECK(sum(line).item() == 300006);  // 14286 whole weeks of 21, and 0
  CHECK(max(line).item() == 6);
  CHECK(argmax(line).item() == 6);
  CHECK(norm(line).item() == Approx(std::sqrt(14286 * 91.0)));
  CHECK(logsumexp(line).item() ==
        Approx(std::log(14286 * (1 + std::exp(1.0) + std::exp(2.0) + std::exp(3.0) + std::exp(4.0) +
                                 std::exp(5.0) + std::exp(6.0)) +
                        1)));
  const Tensor table = broadcast_to(reshape(line, {n, 1}), {n, 3});
  CHECK(same_bits(sum(table, 0), full({3}, 300006, DType::f64)));
  CHECK(same_bits(max(table, 0), full({3}, 6, DType::f64)));
}

TEST_CASE("max and min share the gradient among ties") {
  const Tensor x = tensor({{3, 1, 3}, {-2, -2, -2}});
  CHECK(same_bits(max(x, 1), tensor({3, -2})));
  CHECK(same_bits(min(x, 1), tensor({1, -2})));
  const Tensor dy = tensor({6, 3});
  CHECK(same_bits(gradient_of([](const Tensor& v) { return max(v, 1); }, x, dy),
                  tensor({{3, 0, 3}, {1, 1, 1}})));
  CHECK(same_bits(gradient_of([](const Tensor& v) { return min(v, 1); }, x, dy),
                  tensor({{0, 6, 0}, {1, 1, 1}})));
  CHECK(same_bits(gradient_of([](const Tensor& v) { return max(v); }, x),
                  tensor({{0.5, 0, 0.5}, {0, 0, 0}})));
  // d2/dx2 of max(x^3) is 6 x at the winner.
  const Derivatives cubic = derivatives_of([](const Tensor& v) { return max(pow(v, 3)); },
                                           tensor({1, 2}, DType::f64), ones({2}, DType::f64));
  CHECK(same_bits(cubic.second, tensor({0, 12}, DType::f64)));
}

TEST_CASE("a NaN wins, and infinities are numbers") {
  const Tensor x = tensor({{1, kNaN, 5, kNaN}, {-kInf, -kInf, -kInf, -kInf}, {kInf, 0, kInf, 1}});
  CHECK(std::isnan(max(x, 1).at({0})));
  CHECK(std::isnan(min(x, 1).at({0})));
  CHECK(max(x, 1).at({1}) == -kInf);
  CHECK(min(x, 1).at({2}) == 0);
  CHECK(max(x, 1).at({2}) == kInf);
  CHECK(argmax(x).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 0});
  // A NaN in any of the lanes of the loop.
  for (std::int64_t at = 0; at < 20; ++at) {
    std::vector<float> values(20, 1.0f);
    values[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(max(tensor(std::span<const float>(values), {20})).item()));
    CHECK(std::isnan(min(tensor(std::span<const float>(values), {20})).item()));
  }
}

TEST_CASE("argmax takes the first of equals on any axis") {
  const Tensor x = tensor({{1, 4, 4}, {7, 4, 0}});
  CHECK(argmax(x).dtype() == DType::i64);
  CHECK(argmax(x).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(argmax(x, 0).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 0});
  CHECK(argmax(x, 0, keep).shape() == Shape{1, 3});
  CHECK(argmax(cast(x, DType::i64)).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(argmax(zeros({0, 3})).shape() == Shape{0});
  CHECK_THROWS_AS(argmax(x, 2), IndexError);
}

TEST_CASE("reductions over nothing") {
  const Tensor x = zeros({0, 3});
  CHECK(same_bits(sum(x, 0), zeros({3})));
  CHECK(sum(x).item() == 0);
  CHECK(norm(x).item() == 0);
  CHECK(logsumexp(x).item() == -kInf);
  CHECK(same_bits(logsumexp(x, 0), full({3}, -kInf)));
  CHECK(gradient_of([](const Tensor& v) { return logsumexp(v, 0); }, x).shape() == Shape{0, 3});
  CHECK(gradient_of([](const Tensor& v) { return norm(v); }, x).shape() == Shape{0, 3});
  CHECK(max(x, 1).shape() == Shape{0});
  CHECK(gradient_of([](const Tensor& v) { return max(v, 1); }, x).shape() == Shape{0, 3});
  CHECK_THROWS_WITH(max(x, 0), ContainsSubstring("max: shape [0, 3] has no elements along axis 0"));
  CHECK_THROWS_AS(min(x), ShapeError);
  CHECK_THROWS_AS(mean(x, 0), ShapeError);
  CHECK_THROWS_AS(argmax(x, 0), ShapeError);
}

TEST_CASE("norm and its gradient, 0 for the zero vector") {
  const Tensor x = tensor({{3, 4}, {0, 0}}, DType::f64);
  CHECK(same_bits(norm(x, 1), tensor({5, 0}, DType::f64)));
  const Tensor dx =
      gradient_of([](const Tensor& v) { return norm(v, 1); }, x, tensor({10, 7}, DType::f64));
  CHECK(compare(dx, tensor({{6, 8}, {0, 0}}, DType::f64), {1e-15, 0}));
  CHECK(norm(full({4}, 1e30)).item() == Approx(2e30));  // the squares would not fit f32
  // Along (a, b) at (3, 4): d2|x| = ((4a - 3b)^2) / 125; the gradient of the first component along
  // itself is 16/125, along the second -12/125.
  const Derivatives found = derivatives_of([](const Tensor& v) { return norm(v); },
                                           tensor({3, 4}, DType::f64), tensor({1, 0}, DType::f64));
  CHECK(compare(found.second, tensor({16.0 / 125, -12.0 / 125}, DType::f64), {1e-14, 0}));
  const Derivatives at_zero = derivatives_of([](const Tensor& v) { return norm(v); },
                                             zeros({2}, DType::f64), ones({2}, DType::f64));
  CHECK(same_bits(at_zero.first, zeros({2}, DType::f64)));
  CHECK(same_bits(abs(at_zero.second), zeros({2}, DType::f64)));
}

TEST_CASE("logsumexp far out, at infinity, and its gradient") {
  const auto total_of = [](const Tensor& v) { return logsumexp(v, -1); };
  CHECK(total_of(tensor({1000, 1000})).item() == Approx(1000 + std::log(2.0)));
  CHECK(total_of(tensor({-1000, -1000})).item() == Approx(-1000 + std::log(2.0)));
  const Tensor x =
      tensor({{0, std::log(3.0), -kInf}, {-kInf, -kInf, -kInf}, {kInf, 1, kInf}}, DType::f64);
  const Tensor y = total_of(x);
  CHECK(y.at({0}) == Approx(std::log(4.0)));
  CHECK(y.at({1}) == -kInf);
  CHECK(y.at({2}) == kInf);
  const Tensor wanted = tensor({{0.25, 0.75, 0}, {0, 0, 0}, {0.5, 0, 0.5}}, DType::f64);
  CHECK(compare(gradient_of(total_of, x), wanted, {1e-15, 1e-16}));
  CHECK(std::isnan(total_of(tensor({1, kNaN})).item()));
  // Second derivative: diag(p) - p p^T, here times (1, 0) with p = (1/4, 3/4).
  const Derivatives found =
      derivatives_of(total_of, tensor({0, std::log(3.0)}, DType::f64), tensor({1, 0}, DType::f64));
  CHECK(compare(found.second, tensor({3.0 / 16, -3.0 / 16}, DType::f64), {1e-14, 0}));
  const Derivatives blocked =
      derivatives_of(total_of, full({2}, -kInf, DType::f64), ones({2}, DType::f64));
  CHECK(same_bits(abs(blocked.second), zeros({2}, DType::f64)));
}

TEST_CASE("reductions name what they refuse") {
  CHECK_THROWS_AS(max(zeros({2, 3}), 2), IndexError);
  CHECK_THROWS_AS(norm(zeros({2, 3}), {0, 0}), ValueError);
  CHECK_THROWS_WITH(logsumexp(zeros({2}, DType::i64)),
                    ContainsSubstring("logsumexp: x must be f32 or f64, but is i64"));
  CHECK_THROWS_AS(argmax(Tensor()), ValueError);
  CHECK_THROWS_AS(min(Tensor()), ValueError);
}

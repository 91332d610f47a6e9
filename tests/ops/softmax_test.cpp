#include <cmath>
#include <limits>

#include <tapehead/ops.hpp>
#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"

namespace th = tapehead;
using th::DType;
using th::Shape;
using th::Tensor;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool near(const Tensor& found, const Tensor& wanted, double relative, double absolute = 0) {
  const th::Comparison c = th::compare(found, wanted, {relative, absolute});
  if (!c) UNSCOPED_INFO(c.message);
  return c.equal;
}

// sum(f(x) * dy) differentiated by x.
template <class F>
Tensor gradient(F f, const Tensor& x, const Tensor& dy, bool differentiable = false) {
  th::Tape tape({differentiable});
  const Tensor watched = tape.watch(x);
  return th::detach(tape.backward(f(watched), dy)[watched]);
}

}  // namespace

TEST_CASE("softmax and log_softmax of hand-made logits") {
  // e^x = 1, 2, 5: weights 1/8, 2/8, 5/8, wherever the row stands.
  for (const double offset : {0.0, 1e4, -1e4}) {
    const Tensor x =
        th::tensor({offset, offset + std::log(2.0), offset + std::log(5.0)}, DType::f64);
    CHECK(near(th::softmax(x), th::tensor({0.125, 0.25, 0.625}, DType::f64), 1e-11));
    CHECK(near(th::log_softmax(x),
               th::tensor({std::log(0.125), std::log(0.25), std::log(0.625)}, DType::f64), 1e-11));
  }
  CHECK(th::same_bits(th::softmax(th::tensor({{0, 0, 0, 0}})),
                      th::tensor({{0.25, 0.25, 0.25, 0.25}})));
}

TEST_CASE("softmax along any axis is the textbook loop") {
  th::Rng rng(3);
  const Tensor x = th::uniform({3, 5, 17}, rng, -20, 20, DType::f64);
  const Tensor dy = th::uniform({3, 5, 17}, rng, -1, 1, DType::f64);
  for (const int axis : {0, 1, 2, -1, -2, -3}) {
    const int a = axis < 0 ? axis + 3 : axis;
    std::vector<double> weights(255);
    std::vector<double> logs(255);
    std::vector<double> dx(255);
    std::vector<double> dx_logs(255);
    const std::int64_t strides[] = {85, 17, 1};
    const std::int64_t n = x.dim(axis);
    for (std::int64_t i = 0; i < 255; ++i) {
      const std::int64_t step = strides[a];
      const std::int64_t first = i - i / step % n * step;
      double total = 0;
      double dot = 0;
      double sum = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        const double e = std::exp(x.at_flat(first + k * step));  // |x| < 20: no overflow
        total += e;
        dot += e * dy.at_flat(first + k * step);
        sum += dy.at_flat(first + k * step);
      }
      const auto at = static_cast<std::size_t>(i);
      weights[at] = std::exp(x.at_flat(i)) / total;
      logs[at] = x.at_flat(i) - std::log(total);
      dx[at] = weights[at] * (dy.at_flat(i) - dot / total);
      dx_logs[at] = dy.at_flat(i) - weights[at] * sum;
    }
    const auto wanted = [&](const std::vector<double>& v) {
      return th::tensor(std::span<const double>(v), x.shape());
    };
    const auto soft = [axis](const Tensor& t) { return th::softmax(t, axis); };
    const auto log_soft = [axis](const Tensor& t) { return th::log_softmax(t, axis); };
    INFO("axis " << axis);
    CHECK(near(soft(x), wanted(weights), 1e-12));
    CHECK(near(log_soft(x), wanted(logs), 1e-12, 1e-14));
    for (const bool differentiable : {false, true}) {
      CHECK(near(gradient(soft, x, dy, differentiable), wanted(dx), 1e-10, 1e-14));
      CHECK(near(gradient(log_soft, x, dy, differentiable), wanted(dx_logs), 1e-10, 1e-14));
    }
    const Tensor x32 = th::cast(x, DType::f32);
    const Tensor dy32 = th::cast(dy, DType::f32);
    CHECK(near(th::cast(soft(x32), DType::f64), wanted(weights), 1e-5, 1e-12));
    CHECK(near(th::cast(log_soft(x32), DType::f64), wanted(logs), 1e-5, 1e-6));
    CHECK(near(th::cast(gradient(soft, x32, dy32), DType::f64), wanted(dx), 1e-5, 1e-7));
    CHECK(near(th::cast(gradient(log_soft, x32, dy32), DType::f64), wanted(dx_logs), 1e-5, 1e-6));
  }
}

TEST_CASE("a blocked logit has weight and gradient exactly 0") {
  // p_2 (delta - p) with p = 1/4 over the four open classes.
  const Tensor x = th::tensor({1, -kInf, 1, 1, 1}, DType::f64);
  const Tensor dy = th::tensor({0, 0, 1, 0, 0}, DType::f64);
  const auto soft = [](const Tensor& t) { return th::softmax(t); };
  CHECK(th::same_bits(th::softmax(x), th::tensor({0.25, 0, 0.25, 0.25, 0.25}, DType::f64)));
  const Tensor wanted = th::tensor({-0.0625, 0, 0.1875, -0.0625, -0.0625}, DType::f64);
  for (const bool differentiable : {false, true}) {
    CHECK(near(gradient(soft, x, dy, differentiable), wanted, 0, 0));
    // What a later op sends back to a weight of 0 (1/0 from a logarithm, 0 * inf) stays out.
    for (const double poison : {kNaN, kInf, -kInf}) {
      CHECK(near(gradient(soft, x, th::tensor({0, poison, 1, 0, 0}, DType::f64), differentiable),
                 wanted, 0, 0));
    }
  }
  const Tensor x32 = th::cast(x, DType::f32);
  CHECK(th::same_bits(th::softmax(x32), th::tensor({0.25, 0, 0.25, 0.25, 0.25})));
}

TEST_CASE("a row that is all -inf gives zeros and no gradient") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool differentiable : {false, true}) {
      const Tensor x = th::tensor({{-kInf, -kInf, -kInf}, {0, 0, -kInf}}, dtype);
      const Tensor dy = th::tensor({{1, 2, 3}, {1, 0, 0}}, dtype);
      CHECK(near(th::softmax(x), th::tensor({{0, 0, 0}, {0.5, 0.5, 0}}, dtype), 0));
      CHECK(near(gradient([](const Tensor& t) { return th::softmax(t); }, x, dy, differentiable),
                 th::tensor({{0, 0, 0}, {0.25, -0.25, 0}}, dtype), 1e-7));
      CHECK(
          near(th::log_softmax(x),
               th::tensor({{-kInf, -kInf, -kInf}, {-std::log(2.0), -std::log(2.0), -kInf}}, dtype),
               1e-7));
      CHECK(
          near(gradient([](const Tensor& t) { return th::log_softmax(t); }, x, dy, differentiable),
               th::tensor({{0, 0, 0}, {0.5, -0.5, 0}}, dtype), 1e-6));
    }
  }
  // Along another axis: the first column is all -inf.
  const Tensor x = th::tensor({{-kInf, 0}, {-kInf, 0}}, DType::f64);
  CHECK(near(th::softmax(x, 0), th::tensor({{0, 0.5}, {0, 0.5}}, DType::f64), 0));
}

TEST_CASE("softmax of an empty axis or of no rows is empty") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{10, 0}, Shape{0, 5}, Shape{0}, Shape{2, 0, 3}}) {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const Tensor x = th::zeros(shape, dtype);
        CHECK(th::softmax(x, axis).shape() == shape);
        CHECK(th::log_softmax(x, axis).shape() == shape);
        CHECK(gradient([=](const Tensor& t) { return th::softmax(t, axis); }, x, x).shape() ==
              shape);
        CHECK(gradient([=](const Tensor& t) { return th::log_softmax(t, axis); }, x, x).shape() ==
              shape);
      }
    }
  }
}

TEST_CASE("a NaN or +inf logit shows in its own row and in no other") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double bad : {kNaN, kInf}) {
      const Tensor x = th::tensor({{bad, -kInf, 0}, {1, 1, -kInf}, {bad, -kInf, -kInf}}, dtype);
      const Tensor y = th::softmax(x);
      CHECK(std::isnan(y.at({0, 0})));
      CHECK(std::isnan(y.at({2, 0})));
      CHECK(y.at({1, 0}) == 0.5);
      CHECK(y.at({1, 2}) == 0);
      CHECK(std::isnan(th::log_softmax(x).at({0, 0})));
      CHECK(std::isnan(th::log_softmax(x).at({2, 0})));
    }
  }
}

TEST_CASE("softmax weights of long f32 rows sum to 1") {
  th::Rng rng(11);
  const Tensor x = th::uniform({3, 50001}, rng, -5, 5);
  const Tensor total = th::sum(th::cast(th::softmax(x), DType::f64), 1);
  for (std::int64_t row = 0; row < 3; ++row) CHECK(total.at({row}) == Approx(1).margin(1e-6));
}

TEST_CASE("softmax gives the same bits on any number of threads") {
  th::Rng rng(4);
  const Tensor x = th::uniform({400, 301}, rng, -5, 5);
  const Tensor dy = th::uniform({400, 301}, rng, -1, 1);
  const auto all = [&] {
    std::vector<Tensor> results;
    for (const int axis : {0, 1}) {
      const auto soft = [axis](const Tensor& t) { return th::softmax(t, axis); };
      const auto log_soft = [axis](const Tensor& t) { return th::log_softmax(t, axis); };
      results.push_back(soft(x));
      results.push_back(log_soft(x));
      results.push_back(gradient(soft, x, dy));
      results.push_back(gradient(log_soft, x, dy));
    }
    return results;
  };
  const th::UseThreads one(1);
  const std::vector<Tensor> alone = all();
  for (const int count : {2, 3, 7}) {
    const th::UseThreads several(count);
    const std::vector<Tensor> shared = all();
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(th::same_bits(alone[i], shared[i]));
  }
}

TEST_CASE("softmax refuses what it cannot take") {
  CHECK_THROWS_AS(th::softmax(th::tensor(3)), th::IndexError);
  CHECK_THROWS_AS(th::softmax(th::zeros({2, 3}), 2), th::IndexError);
  CHECK_THROWS_WITH(th::log_softmax(th::zeros({2, 3}), -3), ContainsSubstring("log_softmax"));
  CHECK_THROWS_AS(th::softmax(th::arange(3)), th::DTypeError);
  CHECK_THROWS_AS(th::softmax(Tensor()), th::ValueError);
}

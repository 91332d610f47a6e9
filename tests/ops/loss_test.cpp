#include <cmath>
#include <limits>
#include <vector>

#include <tapehead/ops.hpp>
#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"
#include "support/fixture.hpp"

namespace th = tapehead;
using th::DType;
using th::Tensor;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool near(const Tensor& found, const Tensor& wanted, double relative, double absolute = 0) {
  const th::Comparison c = th::compare(found, wanted, {relative, absolute});
  if (!c) UNSCOPED_INFO(c.message);
  return c.equal;
}

Tensor ids(const std::vector<std::int64_t>& values) {
  return th::tensor(std::span<const std::int64_t>(values),
                    {static_cast<std::int64_t>(values.size())});
}

struct Result {
  double loss;
  Tensor gradient;
};

Result mean_loss(const Tensor& logits, const Tensor& targets,
                 const th::CrossEntropyOptions& options = {}, bool differentiable = false) {
  th::Tape tape({differentiable});
  const Tensor x = tape.watch(logits);
  const Tensor loss = th::cross_entropy(x, targets, options);
  return {loss.item(), th::detach(tape.backward(loss)[x])};
}

}  // namespace

TEST_CASE("cross_entropy agrees with PyTorch") {
  const Fixture fixture("cross_entropy");
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double relative = dtype == DType::f64 ? 1e-13 : 1e-5;
    const double absolute = dtype == DType::f64 ? 1e-15 : 1e-7;
    for (const bool differentiable : {false, true}) {
      for (const std::string c : {"a", "b"}) {
        INFO("case " << c);
        th::Tape tape({differentiable});
        const Tensor logits = tape.watch(fixture.get("logits", dtype));
        const th::CrossEntropyOptions options{static_cast<std::int64_t>(fixture["ignore"].item()),
                                              fixture[c + ".smoothing"].item()};
        const th::CrossEntropy loss = th::cross_entropy_sums(logits, fixture["targets"], options);
        CHECK(loss.count == 5);
        CHECK(loss.mean.item() == Approx(fixture[c + ".mean"].item()).epsilon(relative));
        CHECK(loss.sum.item() == Approx(fixture[c + ".sum"].item()).epsilon(relative));
        CHECK(near(th::detach(tape.backward(loss.mean)[logits]),
                   fixture.get(c + ".grad.logits", dtype), relative, absolute));
      }
    }
  }
}

TEST_CASE("mean and sum of cross_entropy_sums both have a gradient") {
  // Two rows of two equal logits: d sum = p - [target] = (-1/2, 1/2); the mean has half of it.
  for (const bool differentiable : {false, true}) {
    th::Tape tape({differentiable});
    const Tensor x = tape.watch(th::zeros({2, 2}, DType::f64));
    const th::CrossEntropy loss = th::cross_entropy_sums(x, ids({0, 1}));
    const Tensor both = loss.sum + 10.0 * loss.mean;
    CHECK(both.item() == Approx(12 * std::log(2.0)));
    const Tensor wanted = th::tensor({{-3, 3}, {3, -3}}, DType::f64);
    CHECK(near(th::detach(tape.backward(both)[x]), wanted, 1e-15));
  }
}

TEST_CASE("the mean is over the rows that count") {
  const Tensor logits = th::zeros({3, 4}, DType::f64);
  const Result r = mean_loss(logits, ids({2, -1, 0}), {.ignore = -1});
  CHECK(r.loss == Approx(std::log(4.0)));  // 0.924196 if divided by 3
  const double p = 0.25;
  CHECK(near(
      r.gradient,
      th::tensor(
          {{p / 2, p / 2, (p - 1) / 2, p / 2}, {0, 0, 0, 0}, {(p - 1) / 2, p / 2, p / 2, p / 2}},
          DType::f64),
      1e-15));
  // A sample that is masked throughout adds nothing to the count of the other's four tokens.
  const Tensor two = th::zeros({2, 4, 4});
  const std::vector<std::int64_t> targets{0, 1, 2, 3, -1, -1, -1, -1};
  const th::CrossEntropy loss = th::cross_entropy_sums(
      two, th::tensor(std::span<const std::int64_t>(targets), {2, 4}), {.ignore = -1});
  CHECK(loss.count == 4);
  CHECK(loss.mean.item() == Approx(std::log(4.0)));
}

TEST_CASE("nothing that counts: loss 0, count 0, gradient 0") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool differentiable : {false, true}) {
      for (const double smoothing : {0.0, 0.1}) {
        th::Tape tape({differentiable});
        const Tensor x = tape.watch(th::full({5, 10}, kNaN, dtype));
        const th::CrossEntropy loss =
            th::cross_entropy_sums(x, ids({-1, -1, -1, -1, -1}), {-1, smoothing});
        CHECK(loss.count == 0);
        CHECK(loss.mean.item() == 0);
        CHECK(loss.sum.item() == 0);
        CHECK(near(th::detach(tape.backward(loss.mean)[x]), th::zeros({5, 10}, dtype), 0));
      }
      for (const th::Shape& shape : {th::Shape{0, 10}, th::Shape{0, 0}, th::Shape{3, 0, 7}}) {
        th::Tape tape({differentiable});
        const Tensor x = tape.watch(th::zeros(shape, dtype));
        const th::CrossEntropy loss =
            th::cross_entropy_sums(x, th::cast(th::zeros(shape.without(-1)), DType::i64));
        CHECK(loss.count == 0);
        CHECK(loss.mean.item() == 0);
        CHECK(tape.backward(loss.mean)[x].shape() == shape);
      }
      const Result none =
          mean_loss(th::zeros({2, 0}, dtype), ids({7, 7}), {.ignore = 7}, differentiable);
      CHECK(none.loss == 0);
    }
  }
}

TEST_CASE("a target outside the classes is refused with position, value and count") {
  const Tensor logits = th::zeros({2, 3, 5});
  const std::vector<std::int64_t> low{0, 1, 2, 3, -4, 4};
  const Tensor targets = th::tensor(std::span<const std::int64_t>(low), {2, 3});
  CHECK_THROWS_AS(th::cross_entropy(logits, targets, {.ignore = -1}), th::IndexError);
  CHECK_THROWS_WITH(th::cross_entropy(logits, targets, {.ignore = -1}),
                    ContainsSubstring("target -4 at [1, 1]") && ContainsSubstring("0..4") &&
                        ContainsSubstring("V = 5") && ContainsSubstring("ignored value -1"));
  CHECK_THROWS_WITH(th::cross_entropy(th::zeros({2, 5}), ids({0, 5})),
                    ContainsSubstring("target 5 at [1]"));
  CHECK_THROWS_AS(th::cross_entropy_sums(th::zeros({2, 5}), ids({0, -1})), th::IndexError);
  CHECK_THROWS_AS(th::cross_entropy(th::zeros({1, 0}), ids({0})), th::IndexError);
}

TEST_CASE("cross_entropy refuses shapes and options that do not fit") {
  const Tensor logits = th::zeros({3, 1});
  CHECK_THROWS_AS(th::cross_entropy(th::zeros({3, 4}), ids({1})), th::ShapeError);
  CHECK_THROWS_WITH(th::cross_entropy(th::zeros({2, 3, 4}), ids({1, 2, 3})),
                    ContainsSubstring("[2, 3, classes 4]") && ContainsSubstring("[3]"));
  CHECK_THROWS_AS(th::cross_entropy(logits, th::reshape(ids({0, 0, 0}), {3, 1})), th::ShapeError);
  CHECK_THROWS_AS(th::cross_entropy(th::tensor(1), ids({0})), th::ShapeError);
  CHECK_THROWS_AS(th::cross_entropy(logits, th::zeros({3})), th::DTypeError);
  CHECK_THROWS_AS(th::cross_entropy(th::arange(3), ids({0, 0, 0})), th::DTypeError);
  for (const double smoothing : {-0.1, 1.0, kNaN}) {
    CHECK_THROWS_AS(th::cross_entropy(logits, ids({0, 0, 0}), {std::nullopt, smoothing}),
                    th::ValueError);
  }
  // One row of its own: rank 1 logits and a scalar target.
  CHECK(th::cross_entropy(th::zeros({4}), th::cast(th::tensor(2), DType::i64)).item() ==
        Approx(std::log(4.0)));
}

TEST_CASE("a class whose logit is -inf has no probability and does no harm") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool differentiable : {false, true}) {
      const Result sure = mean_loss(th::tensor({{-kInf, 0}}, dtype), ids({1}), {}, differentiable);
      CHECK(sure.loss == 0);
      CHECK(near(sure.gradient, th::zeros({1, 2}, dtype), 0));
      const Result half =
          mean_loss(th::tensor({{-kInf, 0, 0}}, dtype), ids({1}), {}, differentiable);
      CHECK(half.loss == Approx(std::log(2.0)).epsilon(1e-7));
      CHECK(near(half.gradient, th::tensor({{0, -0.5, 0.5}}, dtype), 1e-7));
      // The target itself: a loss of +inf, and the gradient p - [target].
      const Result lost =
          mean_loss(th::tensor({{-kInf, 0, 0}}, dtype), ids({0}), {}, differentiable);
      CHECK(lost.loss == kInf);
      CHECK(near(lost.gradient, th::tensor({{-1, 0.5, 0.5}}, dtype), 1e-7));
      // Smoothing asks for a share of every class, so the loss truly is +inf.
      const Result smooth = mean_loss(th::tensor({{-kInf, 0, 0}}, dtype), ids({1}),
                                      {std::nullopt, 0.3}, differentiable);
      CHECK(smooth.loss == kInf);
      CHECK(near(smooth.gradient, th::tensor({{-0.1, -0.3, 0.4}}, dtype), 1e-6));
      const Result dead =
          mean_loss(th::tensor({{-kInf, -kInf}, {0, 0}}, dtype), ids({1, 0}), {}, differentiable);
      CHECK(dead.loss == kInf);
      CHECK(near(dead.gradient, th::tensor({{0, 0}, {-0.25, 0.25}}, dtype), 1e-7));
    }
  }
}

TEST_CASE("`ignore` skips rows; it takes no class out of the softmax") {
  const Tensor logits = th::ones({2, 3}, DType::f64);
  const th::CrossEntropy loss = th::cross_entropy_sums(logits, ids({0, 1}), {.ignore = 0});
  CHECK(loss.count == 1);
  CHECK(loss.mean.item() == Approx(std::log(3.0)));
}

TEST_CASE("rows that do not count are not read") {
  for (const bool differentiable : {false, true}) {
    const Result r = mean_loss(th::tensor({{kNaN, kInf}, {0, 0}}, DType::f64), ids({-1, 0}),
                               {-1, 0.5}, differentiable);
    CHECK(r.loss == Approx(std::log(2.0)));
    CHECK(near(r.gradient, th::tensor({{0, 0}, {-0.25, 0.25}}, DType::f64), 1e-15));
  }
}

TEST_CASE("a NaN logit that counts shows in the loss") {
  CHECK(std::isnan(th::cross_entropy(th::tensor({{0, kNaN}}), ids({0})).item()));
  CHECK(std::isnan(th::cross_entropy(th::tensor({{-kInf, kNaN}}), ids({0})).item()));
  CHECK(std::isnan(th::cross_entropy(th::tensor({{-kInf, kNaN}}), ids({1})).item()));
}

TEST_CASE("logits of any size have a finite loss") {
  // ln(1 + e^-d) + [wrong] d at a difference d of two logits.
  for (const double d : {1e4, 1e30, 1e38}) {
    CHECK(th::cross_entropy(th::tensor({{d, 0}}), ids({0})).item() == 0);
    CHECK(th::cross_entropy(th::tensor({{d, 0}}), ids({1})).item() == Approx(d));
    CHECK(th::cross_entropy(th::tensor({{-d, 0}}), ids({0})).item() == Approx(d));
  }
}

TEST_CASE("probabilities given as logits show by a loss that stays above ln(e + 2) - 1") {
  const double floor = std::log(std::exp(1.0) + 2) - 1;
  CHECK(floor == Approx(0.551445).epsilon(1e-6));
  CHECK(th::cross_entropy(th::tensor({{1, 0, 0}}, DType::f64), ids({0})).item() == Approx(floor));
}

TEST_CASE("cross_entropy is the textbook loop for every width") {
  th::Rng rng(12);
  for (const std::int64_t classes : {1, 2, 7, 15, 16, 17, 67, 1000}) {
    const std::int64_t rows = 5;
    const Tensor logits = th::uniform({rows, classes}, rng, -8, 8, DType::f64);
    std::vector<std::int64_t> targets;
    for (std::int64_t i = 0; i < rows; ++i) targets.push_back(rng.below(classes));
    double wanted = 0;
    std::vector<double> slopes;
    for (std::int64_t i = 0; i < rows; ++i) {
      double total = 0;
      for (std::int64_t j = 0; j < classes; ++j) total += std::exp(logits.at({i, j}));
      const std::int64_t t = targets[static_cast<std::size_t>(i)];
      wanted += std::log(total) - logits.at({i, t});
      for (std::int64_t j = 0; j < classes; ++j) {
        slopes.push_back((std::exp(logits.at({i, j})) / total - (j == t ? 1 : 0)) / 5);
      }
    }
    const Tensor gradient = th::tensor(std::span<const double>(slopes), {rows, classes});
    INFO(classes << " classes");
    const Result wide = mean_loss(logits, ids(targets));
    CHECK(wide.loss == Approx(wanted / 5).epsilon(1e-13));
    CHECK(near(wide.gradient, gradient, 1e-12, 1e-16));
    const Result narrow = mean_loss(th::cast(logits, DType::f32), ids(targets));
    CHECK(narrow.loss == Approx(wanted / 5).epsilon(1e-6));
    CHECK(near(th::cast(narrow.gradient, DType::f64), gradient, 1e-5, 1e-7));
  }
}

TEST_CASE("losses over many chunks are the textbook sums") {
  th::Rng rng(6);
  const std::int64_t rows = 4003;
  const Tensor logits = th::uniform({rows, 11}, rng, -3, 3, DType::f64);
  const Tensor other = th::uniform({rows, 11}, rng, 0, 1, DType::f64);
  std::vector<std::int64_t> targets;
  double cross = 0;
  double squared = 0;
  double binary = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    targets.push_back(rng.below(11));
    double total = 0;
    for (std::int64_t j = 0; j < 11; ++j) {
      const double x = logits.at({i, j});
      const double t = other.at({i, j});
      total += std::exp(x);
      squared += (x - t) * (x - t);
      binary += std::log(1 + std::exp(x)) - x * t;
    }
    cross += std::log(total) - logits.at({i, targets.back()});
  }
  const double elements = static_cast<double>(rows * 11);
  CHECK(th::cross_entropy_sums(logits, ids(targets)).sum.item() == Approx(cross).epsilon(1e-12));
  CHECK(th::mse(logits, other).item() == Approx(squared / elements).epsilon(1e-12));
  CHECK(th::binary_cross_entropy(logits, other).item() == Approx(binary / elements).epsilon(1e-12));
}

TEST_CASE("losses give the same bits on any number of threads") {
  th::Rng rng(5);
  const Tensor logits = th::uniform({5001, 11}, rng, -3, 3);
  std::vector<std::int64_t> targets;
  for (int i = 0; i < 5001; ++i) targets.push_back(rng.below(11));
  const Tensor other = th::uniform({5001, 11}, rng);
  const auto all = [&] {
    const Result r = mean_loss(logits, ids(targets), {3, 0.1});
    return std::vector<Tensor>{th::full({}, r.loss, DType::f64), r.gradient, th::mse(logits, other),
                               th::binary_cross_entropy(logits, other)};
  };
  const th::UseThreads one(1);
  const std::vector<Tensor> alone = all();
  for (const int count : {2, 3, 7}) {
    const th::UseThreads several(count);
    const std::vector<Tensor> shared = all();
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(th::same_bits(alone[i], shared[i]));
  }
}

TEST_CASE("mse and binary_cross_entropy agree with PyTorch") {
  const Fixture fixture("cross_entropy");
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double relative = dtype == DType::f64 ? 1e-13 : 1e-5;
    const double absolute = dtype == DType::f64 ? 1e-16 : 1e-7;
    for (const bool differentiable : {false, true}) {
      const auto get = [&](const std::string& name) { return fixture.get(name, dtype); };
      th::Tape tape({differentiable});
      const Tensor p = tape.watch(get("mse.prediction"));
      const Tensor t = tape.watch(get("mse.target"));
      const Tensor x = tape.watch(get("bce.logits"));
      const Tensor squared = th::mse(p, t);
      const Tensor binary = th::binary_cross_entropy(x, get("bce.targets"));
      CHECK(near(th::detach(squared), get("mse.mean"), relative));
      CHECK(near(th::detach(binary), get("bce.mean"), relative));
      const th::Gradients g = tape.backward(squared + binary);
      CHECK(near(th::detach(g[p]), get("mse.grad.prediction"), relative, absolute));
      CHECK(near(th::detach(g[t]), get("mse.grad.target"), relative, absolute));
      CHECK(near(th::detach(g[x]), get("bce.grad.logits"), relative, absolute));
    }
  }
}

TEST_CASE("losses never broadcast") {
  CHECK_THROWS_WITH(th::mse(th::zeros({3, 1}), th::zeros({3})),
                    ContainsSubstring("[3, 1]") && ContainsSubstring("[3]"));
  CHECK_THROWS_AS(th::mse(th::zeros({3, 1}), th::zeros({1, 3})), th::ShapeError);
  CHECK_THROWS_AS(th::mse(th::zeros({3}), th::tensor(0)), th::ShapeError);
  CHECK_THROWS_WITH(th::binary_cross_entropy(th::zeros({4, 1}), th::zeros({4})),
                    ContainsSubstring("[4, 1]") && ContainsSubstring("[4]"));
  CHECK_THROWS_AS(th::mse(th::zeros({3}), th::zeros({3}, DType::f64)), th::DTypeError);
  CHECK_THROWS_AS(th::mse(th::arange(3), th::arange(3)), th::DTypeError);
}

TEST_CASE("binary_cross_entropy holds at the ends") {
  const auto one = [](double x, double t, DType dtype) {
    return th::binary_cross_entropy(th::full({1}, x, dtype), th::full({1}, t, dtype)).item();
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    CHECK(one(0, 0.25, dtype) == Approx(std::log(2.0)));
    CHECK(one(kInf, 1, dtype) == 0);
    CHECK(one(-kInf, 0, dtype) == 0);
    CHECK(one(kInf, 0, dtype) == kInf);
    CHECK(one(-kInf, 0.5, dtype) == kInf);
    CHECK(one(1e30, 1, dtype) == 0);
    CHECK(one(1e30, 0.5, dtype) == Approx(5e29));
    CHECK(one(-40, 0, dtype) == Approx(std::exp(-40.0)));  // log1p, not log of 1 + tiny
    CHECK(std::isnan(one(kNaN, 0, dtype)));
    CHECK(std::isnan(one(kNaN, 1, dtype)));
  }
}

TEST_CASE("binary_cross_entropy takes probabilities as targets, and nothing else") {
  const Tensor logits = th::zeros({3});
  for (const double t : {-0.1, 1.1, kNaN}) {
    CHECK_THROWS_AS(th::binary_cross_entropy(logits, th::tensor({0, 1, t})), th::ValueError);
  }
  CHECK_THROWS_WITH(th::binary_cross_entropy(logits, th::tensor({0, 2, 0})),
                    ContainsSubstring("target 1") && ContainsSubstring("is 2"));
}

TEST_CASE("mse and binary_cross_entropy of nothing are 0") {
  for (const bool differentiable : {false, true}) {
    th::Tape tape({differentiable});
    const Tensor x = tape.watch(th::zeros({0, 3}));
    const Tensor loss =
        th::mse(x, th::zeros({0, 3})) + th::binary_cross_entropy(x, th::zeros({0, 3}));
    CHECK(loss.item() == 0);
    CHECK(tape.backward(loss)[x].shape() == th::Shape{0, 3});
  }
}

#include <array>
#include <cmath>
#include <limits>

#include <tapehead/ops.hpp>
#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"
#include "support/fixture.hpp"

namespace th = tapehead;
using th::DType;
using th::Tensor;

namespace {

bool near(const Tensor& found, const Tensor& wanted, double relative, double absolute = 0) {
  const th::Comparison c = th::compare(found, wanted, {relative, absolute});
  if (!c) UNSCOPED_INFO(c.message);
  return c.equal;
}

struct Result {
  Tensor y, dx, dgain, dbias;
};

Result layer(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps, const Tensor& dy,
             bool differentiable = false) {
  th::Tape tape({differentiable});
  const Tensor wx = tape.watch(x);
  const Tensor wgain = tape.watch(gain);
  const Tensor wbias = tape.watch(bias);
  const Tensor y = th::layer_norm(wx, wgain, wbias, eps);
  const th::Gradients g = tape.backward(y, dy);
  return {th::detach(y), th::detach(g[wx]), th::detach(g[wgain]), th::detach(g[wbias])};
}

Result rms(const Tensor& x, const Tensor& gain, double eps, const Tensor& dy,
           bool differentiable = false) {
  th::Tape tape({differentiable});
  const Tensor wx = tape.watch(x);
  const Tensor wgain = tape.watch(gain);
  const Tensor y = th::rms_norm(wx, wgain, eps);
  const th::Gradients g = tape.backward(y, dy);
  return {th::detach(y), th::detach(g[wx]), th::detach(g[wgain]), Tensor()};
}

}  // namespace

TEST_CASE("layer_norm and rms_norm agree with PyTorch") {
  const Fixture fixture("layer_norm");
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double relative = dtype == DType::f64 ? 1e-12 : 1e-5;
    const double absolute = dtype == DType::f64 ? 1e-13 : 5e-6;
    const auto get = [&](const std::string& name) { return fixture.get(name, dtype); };
    for (const bool differentiable : {false, true}) {
      for (const std::string c : {"a", "b"}) {
        INFO("case " << c);
        const Result r = layer(get("input"), get("gain"), get("bias"), fixture[c + ".eps"].item(),
                               get("cotangent"), differentiable);
        CHECK(near(r.y, get(c + ".output"), relative, absolute));
        CHECK(near(r.dx, get(c + ".grad.input"), relative, absolute));
        CHECK(near(r.dgain, get(c + ".grad.gain"), relative, absolute));
        CHECK(near(r.dbias, get(c + ".grad.bias"), relative, absolute));
      }
      const Result r = rms(get("input"), get("gain"), fixture["rms.eps"].item(), get("cotangent"),
                           differentiable);
      CHECK(near(r.y, get("rms.output"), relative, absolute));
      CHECK(near(r.dx, get("rms.grad.input"), relative, absolute));
      CHECK(near(r.dgain, get("rms.grad.gain"), relative, absolute));
    }
  }
}

TEST_CASE("a constant row: output is the bias, gradient is that of eps alone") {
  // h = 0, dx = (g - mean g) / sqrt(eps), 1 / sqrt(1e-5) = 316.2278.
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double value : {2.0, 0.1, 0.0, -1e6}) {
      const Tensor x = th::full({4}, value, dtype);
      const Tensor bias = th::tensor({1, -2, 3, 0.5}, dtype);
      const Tensor dy = th::tensor({1, 0, 0, 0}, dtype);
      const Result r = layer(x, th::ones({4}, dtype), bias, 1e-5, dy);
      CHECK(th::same_bits(r.y, bias));
      CHECK(near(r.dx, th::tensor({237.1708, -79.0569, -79.0569, -79.0569}, dtype), 1e-6));
      CHECK(near(r.dgain, th::zeros({4}, dtype), 0));
      CHECK(near(r.dbias, dy, 0));
    }
  }
}

TEST_CASE("eps stands inside the root") {
  // (0 - 0.5) / sqrt(0.25 + 0.25); outside the root it would be 0.5 / (0.5 + 0.25) = 0.667.
  const Tensor y = th::layer_norm(th::tensor({0, 1}, DType::f64), th::ones({2}, DType::f64),
                                  th::zeros({2}, DType::f64), 0.25);
  CHECK(near(y, th::tensor({-std::sqrt(0.5), std::sqrt(0.5)}, DType::f64), 1e-15));
  // mean x^2 = 8: 4 / sqrt(8 + 1) and 0.
  const Tensor z = th::rms_norm(th::tensor({4, 0}, DType::f64), th::ones({2}, DType::f64), 1);
  CHECK(near(z, th::tensor({4.0 / 3, 0}, DType::f64), 1e-15));
}

TEST_CASE("one column: the bias comes out, and nothing goes back to x or gain") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double value : {1e6, 0.1, 1e30}) {
      const Result r = layer(th::full({3, 1}, value, dtype), th::full({1}, 1.7, dtype),
                             th::full({1}, 3, dtype), 1e-5, th::tensor({{0.3}, {-1}, {7}}, dtype));
      CHECK(near(r.y, th::full({3, 1}, 3, dtype), 0));
      CHECK(near(r.dx, th::zeros({3, 1}, dtype), 0));
      CHECK(near(r.dgain, th::zeros({1}, dtype), 0));
      CHECK(near(r.dbias, th::full({1}, 6.3, dtype), 1e-6));
    }
  }
}

TEST_CASE("the sum of a normalised row is constant, so a plain sum has no gradient") {
  th::Rng rng(1);
  const Tensor x = th::uniform({5, 67}, rng, -2, 2);
  const Result r = layer(x, th::ones({67}), th::zeros({67}), 1e-5, th::ones({5, 67}));
  CHECK(near(r.dx, th::zeros({5, 67}), 0, 1e-6));
}

TEST_CASE("rows of any magnitude that f32 holds are normalised") {
  for (const double size : {1e30, 3e38, 1e-3}) {
    const double eps = 1e-20;
    const Result r =
        layer(th::tensor({size, -size}), th::ones({2}), th::zeros({2}), eps, th::tensor({1, 0}));
    CHECK(near(r.y, th::tensor({1, -1}), 1e-6));
    CHECK(near(r.dgain, th::tensor({1, 0}), 1e-6));
    // g - mean g - h mean(g h) = (1, 0) - 1/2 - (1, -1)/2 = 0.
    CHECK(near(r.dx, th::zeros({2}), 0, 1e-6));
    const Result s = rms(th::tensor({size, -size}), th::ones({2}), eps, th::tensor({1, 0}));
    CHECK(near(s.y, th::tensor({1, -1}), 1e-6));
    CHECK(near(s.dgain, th::tensor({1, 0}), 1e-6));
  }
  // A large common offset costs no digits: the row is exact in f32, and so is its variance 2/3.
  const Tensor y =
      th::layer_norm(th::tensor({1000001, 1000002, 1000003}), th::ones({3}), th::zeros({3}), 1e-9);
  CHECK(near(y, th::tensor({-std::sqrt(1.5), 0, std::sqrt(1.5)}), 1e-6));
}

TEST_CASE("norms of no rows and of no columns") {
  for (const bool differentiable : {false, true}) {
    const Result none = layer(th::zeros({0, 3}), th::ones({3}), th::ones({3}), 1e-5,
                              th::zeros({0, 3}), differentiable);
    CHECK(none.y.shape() == th::Shape{0, 3});
    CHECK(near(none.dgain, th::zeros({3}), 0));
    CHECK(near(none.dbias, th::zeros({3}), 0));
    const Result empty = layer(th::zeros({2, 0}), th::ones({0}), th::ones({0}), 1e-5,
                               th::zeros({2, 0}), differentiable);
    CHECK(empty.dx.shape() == th::Shape{2, 0});
    const Result r =
        rms(th::zeros({4, 0, 3}), th::ones({3}), 1e-5, th::zeros({4, 0, 3}), differentiable);
    CHECK(near(r.dgain, th::zeros({3}), 0));
  }
}

TEST_CASE("gradients of gain and bias are summed over all rows") {
  // Rows alternate between (1, -1) and (-1, 1): h is x / sqrt(1 + eps), and dy repeats (3, 4),
  // (5, 6). Per pair of rows dgain is (3 - 5, -4 + 6) / sqrt(1 + eps) and dbias (8, 10).
  const std::int64_t pairs = 20000;
  std::vector<double> x;
  std::vector<double> dy;
  for (std::int64_t i = 0; i < pairs; ++i) {
    x.insert(x.end(), {1, -1, -1, 1});
    dy.insert(dy.end(), {3, 4, 5, 6});
  }
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto rows = [&](const std::vector<double>& values) {
      return th::cast(th::tensor(std::span<const double>(values), {2 * pairs, 2}), dtype);
    };
    const Result r = layer(rows(x), th::ones({2}, dtype), th::zeros({2}, dtype), 3, rows(dy));
    CHECK(near(r.dgain, th::tensor({-20000, 20000}, dtype), 1e-12));
    CHECK(near(r.dbias, th::tensor({160000, 200000}, dtype), 1e-12));
    const Result s = rms(rows(x), th::ones({2}, dtype), 3, rows(dy));
    CHECK(near(s.dgain, th::tensor({-20000, 20000}, dtype), 1e-12));
  }
}

TEST_CASE("norms give the same bits on any number of threads") {
  th::Rng rng(8);
  const Tensor x = th::uniform({3001, 37}, rng, -2, 2);
  const Tensor gain = th::uniform({37}, rng);
  const Tensor bias = th::uniform({37}, rng);
  const Tensor dy = th::uniform({3001, 37}, rng, -1, 1);
  const auto all = [&] {
    const Result a = layer(x, gain, bias, 1e-5, dy);
    const Result b = rms(x, gain, 1e-5, dy);
    return std::array<Tensor, 7>{a.y, a.dx, a.dgain, a.dbias, b.y, b.dx, b.dgain};
  };
  const th::UseThreads one(1);
  const auto alone = all();
  for (const int count : {2, 3, 7}) {
    const th::UseThreads several(count);
    const auto shared = all();
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(th::same_bits(alone[i], shared[i]));
  }
}

TEST_CASE("norms refuse what they cannot take") {
  const Tensor x = th::zeros({2, 5, 4});
  const Tensor four = th::ones({4});
  for (const double eps : {0.0, -1e-5, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(th::layer_norm(x, four, four, eps), th::ValueError);
    CHECK_THROWS_AS(th::rms_norm(x, four, eps), th::ValueError);
  }
  CHECK_THROWS_WITH(th::layer_norm(x, th::ones({5}), four),
                    ContainsSubstring("layer_norm: gain") && ContainsSubstring("[2, 5, width 4]") &&
                        ContainsSubstring("[5]"));
  CHECK_THROWS_WITH(th::layer_norm(x, four, th::ones({1})), ContainsSubstring("bias"));
  CHECK_THROWS_AS(th::rms_norm(x, th::ones({1, 4})), th::ShapeError);
  CHECK_THROWS_AS(th::rms_norm(th::tensor(1), th::ones({1})), th::ShapeError);
  CHECK_THROWS_AS(th::layer_norm(x, th::ones({4}, DType::f64), four), th::DTypeError);
  CHECK_THROWS_AS(th::layer_norm(th::arange(4), four, four), th::DTypeError);
}

#include "ops/attention_support.hpp"

#include <limits>

using namespace attention_test;

namespace {

struct Row {
  std::vector<double> y, dx;
};

Row run_row(const std::vector<double>& x, const std::vector<double>& dy, const Mask& mask,
            DType dtype) {
  const auto as_row = [dtype](const std::vector<double>& values) {
    const Shape shape{1, 1, 1, static_cast<std::int64_t>(values.size())};
    return cast(tensor(std::span<const double>(values), shape), dtype);
  };
  Tape tape;
  const Tensor watched = tape.watch(as_row(x));
  const Tensor y = masked_softmax(watched, mask);
  const Gradients g = tape.backward(y, as_row(dy));
  return {numbers(y), numbers(g[watched])};
}

Mask blocking(const std::vector<bool>& keys) {
  return Mask::block(tensor(keys, Shape{static_cast<std::int64_t>(keys.size())}), "key");
}

}  // namespace

TEST_CASE("masked_softmax: a blocked class leaves the denominator and gets no gradient") {
  // Five equal logits, class 1 blocked, loss = probability of class 2: dx = p2 (delta - p).
  const Mask mask = blocking({false, true, false, false, false});
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double inf = std::numeric_limits<double>::infinity();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const double at_blocked : {3.0, 1e30, inf, -inf, nan}) {
      const Row r = run_row({3, at_blocked, 3, 3, 3}, {0, at_blocked, 1, 0, 0}, mask, dtype);
      CHECK(r.y == std::vector<double>{0.25, 0, 0.25, 0.25, 0.25});
      CHECK(r.dx == std::vector<double>{-0.0625, 0, 0.1875, -0.0625, -0.0625});
    }
  }
}

TEST_CASE("masked_softmax: a row that sees nothing is 0, and so is its gradient") {
  const Row r = run_row({1, 2, 3}, {1, -1, 2}, Mask::none(), DType::f32);
  CHECK(r.y == std::vector<double>{0, 0, 0});
  CHECK(r.dx == std::vector<double>{0, 0, 0});
}

TEST_CASE("masked_softmax: two visible scores by hand") {
  // softmax(0, ln 3) = 1/4, 3/4; dx = p (dy - (1/4 * 2 + 3/4 * 6)) = p (dy - 5).
  const Row r =
      run_row({9, 0, std::log(3.0)}, {7, 2, 6}, blocking({true, false, false}), DType::f64);
  CHECK(r.y[0] == 0);
  CHECK(r.y[1] == Approx(0.25).epsilon(1e-12));
  CHECK(r.y[2] == Approx(0.75).epsilon(1e-12));
  CHECK(r.dx[0] == 0);
  CHECK(r.dx[1] == Approx(-0.75).epsilon(1e-12));
  CHECK(r.dx[2] == Approx(0.75).epsilon(1e-12));
}

TEST_CASE("masked_softmax: rows sum to 1, per sample and head") {
  Rng rng(4, Stream::check);
  const Tensor x = randn({3, 2, 70, 70}, rng);
  const Mask mask = Mask::causal(70) & Mask::lengths({70, 0, 30}, 70);
  const Tensor y = masked_softmax(x, mask);
  for (std::int64_t row = 0; row < 3 * 2 * 70; ++row) {
    double total = 0;
    for (std::int64_t s = 0; s < 70; ++s) {
      const double p = y.at_flat(row * 70 + s);
      total += p;
      if (!mask.sees(row / 140, row / 70 % 2, row % 70, s)) REQUIRE(p == 0);
    }
    REQUIRE(total == (row / 140 == 1 ? Approx(0).margin(0) : Approx(1).margin(1e-6)));
  }
}

TEST_CASE("masked_softmax refuses what does not fit") {
  CHECK_THROWS_WITH(masked_softmax(zeros({3, 4}), Mask()),
                    ContainsSubstring("[batch, heads, queries, keys], got [3, 4]"));
  CHECK_THROWS_WITH(
      masked_softmax(zeros({1, 1, 3, 4}), Mask::causal(3)),
      ContainsSubstring("masked_softmax: mask causal(3)") && ContainsSubstring("keys 3 is not 4"));
  CHECK_THROWS_AS(masked_softmax(arange(4), Mask()), DTypeError);
}

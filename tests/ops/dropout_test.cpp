#include <cmath>
#include <limits>

#include <tapehead/ops.hpp>
#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"

namespace th = tapehead;
using th::DType;
using th::Rng;
using th::Tensor;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("dropout with p = 0 is the identity and draws nothing") {
  Rng rng(3, th::Stream::dropout);
  const Tensor x = th::tensor({1.5, -0.0, 3, kNaN});
  CHECK(th::same_bits(th::dropout(x, 0, rng), x));
  CHECK(rng.counter() == 0);
  th::Tape tape;
  const Tensor watched = tape.watch(x);
  const Tensor dy = th::tensor({1, 2, 3, 4});
  CHECK(th::same_bits(tape.backward(th::dropout(watched, 0, rng), dy)[watched], dy));
}

TEST_CASE("dropout with p = 1 is 0, and so is its gradient") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Rng rng(3, th::Stream::dropout);
    th::Tape tape;
    const Tensor x = tape.watch(th::tensor({1, -2, kNaN, 0}, dtype));
    const Tensor y = th::dropout(x, 1, rng);
    CHECK(th::same_bits(th::detach(y), th::zeros({4}, dtype)));
    const th::Gradients g = tape.backward(y, th::tensor({1, kNaN, 1, 1}, dtype));
    CHECK(th::same_bits(g[x], th::zeros({4}, dtype)));
  }
}

TEST_CASE("dropout refuses a p that is no probability, before it draws") {
  Rng rng(3, th::Stream::dropout);
  const Tensor x = th::ones({2});
  for (const double p : {-0.1, 1.0000001, 2.0, -10.0, kNaN}) {
    CHECK_THROWS_AS(th::dropout(x, p, rng), th::ValueError);
  }
  CHECK_THROWS_WITH(th::dropout(x, 2, rng), ContainsSubstring("0..1, got 2"));
  CHECK_THROWS_AS(th::dropout(th::arange(2), 0.5, rng), th::DTypeError);
  CHECK(rng.counter() == 0);
}

TEST_CASE("element i of dropout is decided by draw i of the stream") {
  Rng rng(9, th::Stream::dropout);
  rng.seek(1000);
  const Rng before = rng;
  const Tensor x = th::ones({30, 1001}, DType::f64);
  const double p = 0.3;
  th::Tape tape;
  const Tensor watched = tape.watch(x);
  const Tensor y = th::dropout(watched, p, rng);
  CHECK(rng.counter() == 1000 + 30030);
  const Tensor dx = tape.backward(y, th::scale(x, 2))[watched];
  std::int64_t wrong = 0;
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const bool keeps = before.uniform_at(static_cast<std::uint64_t>(i)) >= p;
    kept += keeps ? 1 : 0;
    const double wanted = keeps ? 1 / 0.7 : 0;
    if (std::abs(y.at_flat(i) - wanted) > 1e-15) ++wrong;
    if (std::abs(dx.at_flat(i) - 2 * wanted) > 1e-15) ++wrong;
  }
  CHECK(wrong == 0);
  // 0.7 of 30030 within five standard deviations of sqrt(30030 * 0.21) = 79.
  CHECK(std::abs(static_cast<double>(kept) - 21021) < 400);
}

TEST_CASE("dropout of the next step is another one") {
  Rng rng(9, th::Stream::dropout);
  const Tensor x = th::ones({100});
  const Tensor first = th::dropout(x, 0.5, rng);
  CHECK(!th::same_bits(first, th::dropout(x, 0.5, rng)));
  rng.seek(0);
  CHECK(th::same_bits(first, th::dropout(x, 0.5, rng)));
}

TEST_CASE("what dropout drops is gone, NaN or not") {
  Rng rng(9, th::Stream::dropout);
  const Rng before = rng;
  th::Tape tape;
  const Tensor x = tape.watch(th::full({64}, kNaN));
  const Tensor y = th::dropout(x, 0.5, rng);
  const Tensor dx = tape.backward(y, th::full({64}, kNaN))[x];
  for (std::int64_t i = 0; i < 64; ++i) {
    const bool keeps = before.uniform_at(static_cast<std::uint64_t>(i)) >= 0.5;
    CHECK(std::isnan(y.at_flat(i)) == keeps);
    CHECK(std::isnan(dx.at_flat(i)) == keeps);
  }
}

TEST_CASE("dropout is differentiated twice with the same choice") {
  // L = sum dropout(x)^2: dL/dx = 2 c^2 x and d2L/dx2 = 2 c^2 with c = 1/(1 - p) where kept.
  Rng rng(21, th::Stream::dropout);
  th::Tape tape({.differentiable = true});
  const Tensor x = tape.watch(th::full({50}, 3, DType::f64));
  const Tensor y = th::dropout(x, 0.75, rng);
  const Tensor first = tape.backward(th::sum(y * y))[x];
  const Tensor second = tape.backward(th::sum(first))[x];
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    const bool keeps = y.at_flat(i) != 0;
    kept += keeps ? 1 : 0;
    CHECK(first.at_flat(i) == (keeps ? 96 : 0));
    CHECK(second.at_flat(i) == (keeps ? 32 : 0));
  }
  CHECK(kept > 0);
  CHECK(kept < 50);
}

TEST_CASE("dropout gives the same bits on any number of threads") {
  const Tensor x = th::ones({70001});
  Rng rng(2, th::Stream::dropout);
  const th::UseThreads one(1);
  const Tensor alone = th::dropout(x, 0.1, rng);
  for (const int count : {2, 3}) {
    const th::UseThreads several(count);
    rng.seek(0);
    CHECK(th::same_bits(alone, th::dropout(x, 0.1, rng)));
  }
}

TEST_CASE("dropout of nothing draws nothing") {
  Rng rng(2, th::Stream::dropout);
  CHECK(th::dropout(th::zeros({0, 3}), 0.5, rng).shape() == th::Shape{0, 3});
  CHECK(rng.counter() == 0);
}

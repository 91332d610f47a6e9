#include "nn/support.hpp"

namespace th = tapehead;
using th::DType;
using th::Tensor;

TEST_CASE("sinusoidal positions by hand, for an odd width too") {
  const Tensor odd = th::sinusoidal_positions(2, 5, DType::f64);
  // Angles 1, 10000^-0.4 = 0.0251189 and 10000^-0.8 = 0.000630957.
  const double row1[] = {0.841471, 0.540302, 0.025116, 0.999685, 0.000631};
  for (int i = 0; i < 5; ++i) {
    CHECK(odd.at({0, i}) == (i % 2 == 0 ? 0 : 1));
    CHECK(odd.at({1, i}) == Approx(row1[i]).margin(5e-7));
  }
  // Width 4, position 3: sin 3, cos 3, sin 0.03, cos 0.03.
  const Tensor even = th::sinusoidal_positions(4, 4);
  CHECK(even.dtype() == DType::f32);
  CHECK(even.at({3, 0}) == Approx(0.1411200));
  CHECK(even.at({3, 1}) == Approx(-0.9899925));
  CHECK(even.at({3, 2}) == Approx(0.0299955));
  CHECK(even.at({3, 3}) == Approx(0.9995500));
  CHECK(th::sinusoidal_positions(0, 4).shape() == th::Shape{0, 4});
  CHECK_THROWS_AS(th::sinusoidal_positions(-1, 4), th::ValueError);
  CHECK_THROWS_AS(th::sinusoidal_positions(4, 0), th::ValueError);
}

TEST_CASE("learned positions add one row per position") {
  th::Params params(1, DType::f64);
  const th::LearnedPositions positions(params / "positions", 8, 3);
  th::Param weight = params.at("positions.weight");
  CHECK(weight.shape() == th::Shape{8, 3});
  const Tensor x = test::random({2, 5, 3}, 1, DType::f64);
  const Tensor y = positions(x);
  for (int t = 0; t < 5; ++t) {
    for (int d = 0; d < 3; ++d) {
      CHECK(y.at({1, t, d}) == x.at({1, t, d}) + weight.value().at({t, d}));
    }
  }
  CHECK(positions(test::random({2, 0, 3}, 1, DType::f64)).shape() == th::Shape{2, 0, 3});

  SECTION("rows beyond the input have gradient 0, the others the sum over the batch") {
    th::Tape tape;
    const th::Gradients g = tape.backward(th::sum(positions(x)));
    for (int t = 0; t < 8; ++t) CHECK(g[weight].at({t, 1}) == (t < 5 ? 2 : 0));
  }
  SECTION("an input longer than the table names both lengths") {
    CHECK_THROWS_AS(positions(test::random({2, 9, 3}, 1, DType::f64)), th::ShapeError);
    CHECK_THROWS_WITH(positions(test::random({2, 9, 3}, 1, DType::f64)),
                      ContainsSubstring("length 9") && ContainsSubstring("table of 8") &&
                          ContainsSubstring("in positions"));
    CHECK_NOTHROW(positions(test::random({2, 8, 3}, 1, DType::f64)));
  }
}

TEST_CASE("a model with sinusoidal positions takes inputs longer than its table") {
  th::Params params(1, DType::f64);
  th::EncoderModelOptions options;
  options.max_length = 4;
  const th::EncoderModel model(params, options);
  th::Params other(1, DType::f64);
  options.max_length = 9;
  const th::EncoderModel longer(other, options);
  const Tensor x = test::ids({1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2}, {2, 6});
  CHECK(th::same_bits(model(x), longer(x)));
}

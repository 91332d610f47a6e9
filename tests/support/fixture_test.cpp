#include "support/fixture.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace tapehead;

TEST_CASE("a fixture gives tensors by name, with their shapes and dtypes") {
  const Fixture losses("cross_entropy");
  CHECK(losses["logits"].shape() == Shape{7, 5});
  CHECK(losses["logits"].dtype() == DType::f64);
  CHECK(losses["targets"].shape() == Shape{7});
  CHECK(losses["targets"].dtype() == DType::i64);
  CHECK(losses["a.mean"].rank() == 0);
  CHECK(losses.names().front() == "logits");
  CHECK(losses.contains("mse.grad.target"));
  CHECK_FALSE(losses.contains("mse.grad"));
  CHECK(losses.get("logits", DType::f32).dtype() == DType::f32);

  const Fixture attention("multihead_attention");
  CHECK(attention["a.mask"].dtype() == DType::boolean);
  CHECK(attention["a.mask"].at({0, 0}) == 1);
  CHECK(attention["a.mask"].at({0, 1}) == 0);  // causal
}

TEST_CASE("a fixture holds the numbers of the file") {
  const Fixture curves("gelu");
  CHECK(curves["input"].shape() == Shape{41});
  CHECK(curves["input"].at({0}) == -6);
  CHECK(curves["input"].at({40}) == Approx(6));
  CHECK(curves["sigmoid.output"].at({20}) == 0.5);
  CHECK(curves["sigmoid.output"].at({40}) == Approx(1 / (1 + std::exp(-6.0))).epsilon(1e-15));
}

TEST_CASE("a missing fixture or tensor is named") {
  CHECK_THROWS_WITH(Fixture("nonesuch"), ContainsSubstring("nonesuch.txt cannot be opened"));
  const Fixture curves("gelu");
  CHECK_THROWS_WITH(curves["relu.output"], ContainsSubstring("no tensor 'relu.output'") &&
                                               ContainsSubstring("gelu.output, gelu.grad.input"));
}

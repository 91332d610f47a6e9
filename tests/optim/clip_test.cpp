#include <cmath>
#include <limits>

#include "optim/given_gradients.hpp"
#include "support/catch.hpp"

namespace th = tapehead;
using th::DType;
using th::Tensor;

TEST_CASE("the norm is over all parameters and clipping scales them alike") {
  th::Params params(1, DType::f64);
  const th::Param a = th::Scope(params).param("a", {2}, th::init::constant(0));
  const th::Param b = th::Scope(params).param("b", {1}, th::init::constant(0));
  // 3-4-12: the norm is 13.
  th::Gradients g = given({{a, th::tensor({3, 4}, DType::f64)}, {b, th::tensor({12}, DType::f64)}});
  CHECK(th::global_norm(g, params) == 13);
  CHECK(th::clip_global_norm(g, params, 13) == 13);
  CHECK(g[b].item() == 12);
  CHECK(th::clip_global_norm(g, params, 6.5) == 13);
  CHECK(g[a].at({0}) == 1.5);
  CHECK(g[a].at({1}) == 2);
  CHECK(g[b].item() == 6);
  CHECK(th::clip_global_norm(g, params, std::numeric_limits<double>::infinity()) == 6.5);
}

TEST_CASE("the norm of large and small gradients neither overflows nor vanishes") {
  th::Params params(1);
  const th::Param w = th::Scope(params).param("w", {100}, th::init::constant(0));
  th::Gradients g = given({{w, th::full({100}, 1e20)}});
  CHECK(th::clip_global_norm(g, params, 1) == Approx(1e21).epsilon(1e-6));
  CHECK(g[w].at({99}) == Approx(0.1).epsilon(1e-6));

  th::Params more(1);
  const th::Param v = th::Scope(more).param("v", {128}, th::init::constant(0));
  g = given({{v, th::full({128}, 1e19)}});
  CHECK(th::clip_global_norm(g, more, 1) == Approx(std::sqrt(128.0) * 1e19).epsilon(1e-6));

  th::Params wide(1, DType::f64);
  const th::Param u = th::Scope(wide).param("u", {4}, th::init::constant(0));
  for (const double magnitude : {1e200, 1e-200, 1e-310}) {
    g = given({{u, th::full({4}, magnitude, DType::f64)}});
    CHECK(th::global_norm(g, wide) == Approx(2 * magnitude).epsilon(1e-12));
  }
  g = given({{u, th::full({4}, 1.5e308, DType::f64)}});
  CHECK_THROWS_AS(th::global_norm(g, wide), th::NonFiniteError);
}

TEST_CASE("a norm of zero divides nothing") {
  th::Params params(1);
  const th::Param w = th::Scope(params).param("w", {3}, th::init::constant(0));
  th::Gradients g = given({{w, th::zeros({3})}});
  CHECK(th::clip_global_norm(g, params, 1) == 0);
  CHECK(th::same_bits(g[w], th::zeros({3})));
  th::Gradients nothing;
  CHECK(th::clip_global_norm(nothing, params, 1) == 0);
}

TEST_CASE("clipping refuses gradients that are not finite and names the parameter") {
  th::Params params(1);
  const th::Param a = th::Scope(params).param("a", {2}, th::init::constant(0));
  const th::Param b = th::Scope(params).param("b", {2}, th::init::constant(0));
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    th::Gradients g = given({{a, th::tensor({3, 4})}, {b, th::tensor({0, bad})}});
    CHECK_THROWS_AS(th::clip_global_norm(g, params, 1), th::NonFiniteError);
    CHECK_THROWS_WITH(th::global_norm(g, params),
                      ContainsSubstring("gradient of b") && ContainsSubstring("element 1"));
    CHECK(g[a].at({0}) == 3);
  }
  th::Gradients g = given({{a, th::tensor({3, 4})}});
  CHECK_THROWS_AS(th::clip_global_norm(g, params, 0), th::ValueError);
  CHECK_THROWS_AS(th::clip_global_norm(g, params, -1), th::ValueError);
  CHECK_THROWS_AS(th::clip_global_norm(g, params, std::numeric_limits<double>::quiet_NaN()),
                  th::ValueError);
}

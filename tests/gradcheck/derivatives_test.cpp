// Second derivatives: values known in closed form, and every smooth op of the catalog.
#include <cmath>

#include <fmt/format.h>

#include <tapehead/catalog.hpp>
#include <tapehead/gradcheck.hpp>
#include <tapehead/ops.hpp>

#include "gradcheck/suite.hpp"
#include "support/catch.hpp"

using namespace tapehead;

namespace {

Tensor f64(const NestedList& values) { return tensor(values, DType::f64); }

// y = x0^2 x1 + x1^3 x2:  H = [[2 x1, 2 x0, 0], [2 x0, 6 x1 x2, 3 x1^2], [0, 3 x1^2, 0]]
Tensor polynomial(const Tensor& x) {
  const Tensor a = slice(x, 0, 0, 1);
  const Tensor b = slice(x, 0, 1, 2);
  const Tensor c = slice(x, 0, 2, 3);
  return a * a * b + b * b * b * c;
}

}  // namespace

TEST_CASE("the Hessian of a polynomial", "[gradcheck]") {
  const Tensor h = hessian(polynomial, f64({2, 3, 5}));
  CHECK(compare(h, f64({{6, 4, 0}, {4, 90, 27}, {0, 27, 0}}), {1e-15, 1e-15}));
  const Tensor v = f64({1, -1, 2});
  CHECK(compare(hvp(polynomial, f64({2, 3, 5}), v), f64({2, -32, -27}), {1e-15, 1e-15}));
}

TEST_CASE("the Jacobian, and its product with a vector, of a map to the plane", "[gradcheck]") {
  // (r, t) -> (r cos t, r sin t) through tanh and exp, which have closed forms too.
  const auto f = [](const Tensor& x) {
    const Tensor r = slice(x, 0, 0, 1);
    const Tensor t = slice(x, 0, 1, 2);
    return concat({r * exp(t), r * tanh(t), r * r}, 0);
  };
  const double r = 1.5;
  const double t = 0.25;
  const double th = std::tanh(t);
  const Tensor expected =
      f64({{std::exp(t), r * std::exp(t)}, {th, r * (1 - th * th)}, {2 * r, 0}});
  const Tensor x = f64({r, t});
  CHECK(compare(jacobian(f, x), expected, {1e-14, 1e-14}));
  const Tensor v = f64({0.5, -2});
  std::vector<double> jv;
  for (int i = 0; i < 3; ++i) jv.push_back(expected.at({i, 0}) * 0.5 - expected.at({i, 1}) * 2);
  CHECK(compare(jvp(f, x, v), tensor(std::span<const double>(jv), {3}), {1e-14, 1e-14}));
}

TEST_CASE("derivatives of linear and of constant functions are zeros of the right shape",
          "[gradcheck]") {
  const Tensor x = f64({1, 2, 3});
  const auto linear_sum = [](const Tensor& v) { return sum(v * 2.0); };
  CHECK(compare(hessian(linear_sum, x), zeros({3, 3}, DType::f64)));
  CHECK(compare(hvp(linear_sum, x, x), zeros({3}, DType::f64)));
  const auto constant = [](const Tensor&) { return ones({2}, DType::f64); };
  CHECK(compare(jacobian(constant, x), zeros({2, 3}, DType::f64)));
  CHECK(compare(jvp(constant, x, x), zeros({2}, DType::f64)));
  CHECK(jacobian([](const Tensor& v) { return v; }, zeros({0}, DType::f64)).shape() == Shape{0, 0});
}

TEST_CASE("misuse of the derivatives is explained", "[gradcheck]") {
  const Tensor x = f64({1, 2});
  const auto twice = [](const Tensor& v) { return v * 2.0; };
  CHECK_THROWS_WITH(hessian(twice, x), ContainsSubstring("must have one element"));
  CHECK_THROWS_WITH(jvp(twice, x, f64({1, 2, 3})), ContainsSubstring("jvp"));
  CHECK_THROWS_WITH(jacobian(twice, arange(3)), ContainsSubstring("i64"));
  Tape tape;
  CHECK_THROWS_WITH(jacobian(twice, x), ContainsSubstring("a tape is alive"));
}

TEST_CASE("second derivatives of every smooth op of the catalog", "[gradcheck]") {
  // A third of the elements; the verb's --second looks at all of them.
  detail::SuiteOptions options;
  options.order = detail::Order::second;
  options.check.stripes = 3;
  const detail::Suite suite = detail::check_suite(op_catalog(), {}, options);
  INFO(to_string(suite));
  CHECK(suite.status() == GradcheckStatus::pass);
  for (const detail::OpCheck& op : suite.ops) {
    INFO(op.name);
    CHECK(op.worst_relative <= 1e-9);
    CHECK((op.compared > 0) == (op.differentiable && op.smooth));
  }
}

TEST_CASE("second derivatives of modules and of a whole encoder", "[gradcheck]") {
  detail::SuiteOptions options;
  options.order = detail::Order::second;
  options.check.fast = true;
  const detail::Suite suite = detail::check_suite({}, module_catalog(), options);
  INFO(to_string(suite));
  CHECK(suite.status() == GradcheckStatus::pass);
}

TEST_CASE("a gradient function that is not differentiable is caught", "[gradcheck]") {
  // Right to first order, but its gradient captures plain numbers: the second derivative is lost.
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor& x = in[0];
    return std::vector<Tensor>{
        record("cube", detach(x) * detach(x) * detach(x))
            .input(x, [x = detach(x)](const Tensor& dy) { return 3.0 * x * x * dy; })};
  };
  CHECK(gradcheck(f, {f64({1, 2})}).passed());
  const GradcheckReport r = gradgradcheck(f, {f64({1, 2})});
  CHECK(r.status == GradcheckStatus::mismatch);
  CHECK_THAT(r.worst.front().name, ContainsSubstring("input0["));
}

TEST_CASE("a composition that differs from its kernel is caught", "[gradcheck]") {
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor& x = in[0];
    if (recording_differentiable()) return std::vector<Tensor>{x * x * 1.0000001};
    return std::vector<Tensor>{x * x};
  };
  CHECK(gradgradcheck(f, {f64({1, 2})}).status == GradcheckStatus::mismatch);
}

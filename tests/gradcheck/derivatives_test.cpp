// Second derivatives: values known in closed form, and every smooth op of the catalog.
#include <cmath>

#include <fmt/format.h>

#include <tapehead/catalog.hpp>
#include <tapehead/gradcheck.hpp>
#include <tapehead/models.hpp>
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

namespace {

// (f(x + h v) - f(x - h v)) / 2h: right to about h^2, and to the rounding of f over h.
Tensor difference(const UnaryFunction& f, const Tensor& x, const Tensor& v) {
  constexpr double kStep = 1e-5;
  return (f(x + v * kStep) - f(x - v * kStep)) / (2 * kStep);
}

double largest(const Tensor& x) {
  double most = 0;
  for (const double v : x.data<double>()) most = std::max(most, std::abs(v));
  return most;
}

// All four derivatives of f at x, along a direction, against each other and against differences.
void check_derivatives(const UnaryFunction& f, const Tensor& x) {
  Rng rng(9);
  const Tensor v = uniform(x.shape(), rng, -1, 1, DType::f64);
  const std::int64_t n = x.size();
  const Tensor j = jacobian(f, x);
  const Tensor jv = jvp(f, x, v);
  CHECK(jv.shape() == f(x).shape());
  const Tensor product = reshape(matmul(j, reshape(v, {n, 1})), jv.shape());
  CHECK(compare(jv, product, {1e-11, 1e-11 * (1 + largest(product))}));
  CHECK(compare(jv, difference(f, x, v), {1e-6, 1e-6 * (1 + largest(product))}));

  const Tensor c = uniform(f(x).shape(), rng, 0.5, 1.5, DType::f64);
  const UnaryFunction scalar = [&](const Tensor& at) { return sum(f(at) * c); };
  const Tensor h = hessian(scalar, x);
  const double scale = 1 + largest(h);
  CHECK(compare(h, transpose(h, 0, 1), {1e-11, 1e-11 * scale}));
  const Tensor hv = hvp(scalar, x, v);
  CHECK(compare(hv, reshape(matmul(h, reshape(v, {n, 1})), x.shape()), {1e-11, 1e-11 * scale}));
  const UnaryFunction gradient = [&](const Tensor& at) {
    return reshape(jacobian(scalar, at), x.shape());
  };
  CHECK(compare(hv, difference(gradient, x, v), {1e-5, 1e-5 * scale}));
}

}  // namespace

TEST_CASE("jacobian, jvp, hessian and hvp of every smooth op", "[gradcheck]") {
  constexpr std::int64_t kElements = 24;  // one walk back for each
  int ops = 0;
  int smooth = 0;
  for (const OpEntry& entry : op_catalog()) {
    if (!entry.differentiable || !entry.smooth) continue;
    ++smooth;
    int checked = 0;
    for (const OpSample& sample : entry.samples(DType::f64)) {
      std::int64_t outputs = 0;
      for (const Tensor& y : sample.call(sample.inputs)) outputs = std::max(outputs, y.size());
      for (std::size_t i = 0; i < sample.inputs.size() && checked < 6; ++i) {
        const Tensor& x = sample.inputs[i];
        if (!is_floating(x.dtype()) || x.size() == 0 || x.size() > kElements) continue;
        if (sample.kink || outputs == 0 || outputs > 4 * kElements) continue;
        INFO(entry.name << " " << sample.name << " input " << i);
        const auto f = [&](const Tensor& at) {
          std::vector<Tensor> inputs = sample.inputs;
          inputs[i] = at;
          return sample.call(inputs).front();
        };
        check_derivatives(f, x);
        ++checked;
      }
    }
    INFO(entry.name);
    CHECK(checked > 0);
    ops += checked > 0 ? 1 : 0;
  }
  CHECK(ops == smooth);
}

TEST_CASE("jacobian, jvp, hessian and hvp of a whole encoder", "[gradcheck]") {
  Params params(3, DType::f64);
  TransformerOptions options;
  options.layers = 2;
  options.width = 4;
  options.heads = 2;
  options.hidden = 6;
  options.activation = Activation::gelu;
  const TransformerStack encoder(params / "encoder", options);
  Rng rng(4);
  const Tensor x = randn({1, 3, 4}, rng, DType::f64);
  check_derivatives([&](const Tensor& at) { return encoder(at, Mask::causal(3)); }, x);
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

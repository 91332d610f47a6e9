// The worked example of docs/attention.md: two tokens of width two, by hand.
#include <cmath>

#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "ops/attention_support.hpp"

namespace th = tapehead;
using th::DType;
using th::Tensor;

namespace {

struct Worked {
  Tensor scores, weights, output, dq, dk, dv, d_scores, d_weights;
};

Worked worked() {
  const double root = std::sqrt(2.0), ln2 = std::log(2.0), ln3 = std::log(3.0);
  const auto head = [](const th::NestedList& rows) {
    return th::reshape(th::tensor(rows, DType::f64), {1, 1, 2, 2});
  };
  th::Tape tape;
  const Tensor q = tape.watch(head({{root, 0}, {0, root}}));
  const Tensor k = tape.watch(head({{ln3, 0}, {0, ln2}}));
  const Tensor v = tape.watch(head({{1, 0}, {0, 3}}));
  const th::AttentionSteps steps = th::attention_steps(q, k, v);
  const Tensor scores = tape.watch(steps.scores), weights = tape.watch(steps.weights);
  const Tensor dy = head({{1, 0}, {0, 1}});
  const th::Gradients g = tape.backward(steps.output, dy);
  return {scores, weights, steps.output, g[q], g[k], g[v], g[scores], g[weights]};
}

// Within 1e-15 of numbers up to 1, and as close to larger ones.
void check_exact(const Tensor& found, const std::vector<double>& wanted) {
  REQUIRE(found.size() == static_cast<std::int64_t>(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double off = std::abs(found.at_flat(static_cast<std::int64_t>(i)) - wanted[i]);
    INFO("element " << i << ", wanted " << wanted[i]);
    CHECK(off <= 1e-15 * std::max(1.0, std::abs(wanted[i])));
  }
}

}  // namespace

TEST_CASE("two tokens of width two, with exact fractions") {
  const double root = std::sqrt(2.0), ln2 = std::log(2.0), ln3 = std::log(3.0);
  const Worked w = worked();
  check_exact(w.scores, {ln3, 0, 0, ln2});
  check_exact(w.weights, {3.0 / 4, 1.0 / 4, 1.0 / 3, 2.0 / 3});
  check_exact(w.output, {3.0 / 4, 3.0 / 4, 1.0 / 3, 2});
  check_exact(w.dv, {3.0 / 4, 1.0 / 3, 1.0 / 4, 2.0 / 3});
  check_exact(w.d_weights, {1, 0, 0, 3});
  check_exact(w.d_scores, {3.0 / 16, -3.0 / 16, -2.0 / 3, 2.0 / 3});
  check_exact(w.dq, {3.0 / 16 * ln3 / root, -3.0 / 16 * ln2 / root, -2.0 / 3 * ln3 / root,
                     2.0 / 3 * ln2 / root});
  check_exact(w.dk, {3.0 / 16, -2.0 / 3, -3.0 / 16, 2.0 / 3});
}

TEST_CASE("both kernels give the worked example's fractions") {
  const attention_test::BothKernels kernel;
  const double root = std::sqrt(2.0), ln2 = std::log(2.0), ln3 = std::log(3.0);
  attention_test::Inputs in;
  const auto head = [](const th::NestedList& rows) {
    return th::reshape(th::tensor(rows, DType::f64), {1, 1, 2, 2});
  };
  in.q = head({{root, 0}, {0, root}});
  in.k = head({{ln3, 0}, {0, ln2}});
  in.v = head({{1, 0}, {0, 3}});
  in.dy = head({{1, 0}, {0, 1}});
  const attention_test::Outputs found = attention_test::run(in, th::Mask());
  check_exact(found.output, {3.0 / 4, 3.0 / 4, 1.0 / 3, 2});
  check_exact(found.weights, {3.0 / 4, 1.0 / 4, 1.0 / 3, 2.0 / 3});
  check_exact(found.dv, {3.0 / 4, 1.0 / 3, 1.0 / 4, 2.0 / 3});
  check_exact(found.dk, {3.0 / 16, -2.0 / 3, -3.0 / 16, 2.0 / 3});
}

// The fused kernels against the same formula in plain ops, and what only the latter can do: second
// derivatives.
#include "ops/attention_support.hpp"

#include <tapehead/catalog.hpp>

using namespace attention_test;

namespace {

struct Evaluation {
  std::vector<Tensor> outputs, gradients;
};

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

Evaluation evaluate(const Function& f, const std::vector<Tensor>& inputs) {
  Tape tape;
  std::vector<Tensor> watched;
  for (const Tensor& x : inputs) watched.push_back(tape.watch(x));
  Evaluation result;
  result.outputs = f(watched);
  std::vector<Tensor> cotangents;
  Rng rng(2, Stream::check);
  for (const Tensor& y : result.outputs) cotangents.push_back(randn(y.shape(), rng, y.dtype()));
  const Gradients g = tape.backward(result.outputs, cotangents);
  for (const Tensor& x : watched) result.gradients.push_back(g[x]);
  return result;
}

double largest_of(const std::vector<Tensor>& tensors) {
  double largest = 0;
  for (const Tensor& t : tensors)
    for (double value : numbers(t)) largest = std::max(largest, std::abs(value));
  return largest;
}

// Sum of y^2 and of the weights' cubes: a scalar whose gradient depends on everything.
Tensor loss_of(const Attention& a) {
  return sum(a.output * a.output) + sum(a.weights * a.weights * a.weights);
}

}  // namespace

TEST_CASE("The fused attention ops equal their compositions") {
  const BothKernels kernel;
  int compared = 0;
  for (const OpEntry& entry : op_catalog()) {
    if (entry.family != "attention") continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      const double tolerance = dtype == DType::f32 ? 5e-6 : 1e-13;
      for (const OpSample& sample : entry.samples(dtype)) {
        INFO(entry.name << ": " << sample.name << " " << name_of(dtype));
        REQUIRE(sample.composition);
        const Evaluation fused = evaluate(sample.call, sample.inputs);
        const Evaluation plain = evaluate(sample.composition, sample.inputs);
        for (std::size_t i = 0; i < fused.outputs.size(); ++i)
          check_close("output", fused.outputs[i], numbers(plain.outputs[i]), tolerance);
        // d queries with two keys visible is p1 p2 (dP1 - dP2) (k1 - k2): a thousandth of its terms
        // in some samples, whose rounding in f32 is that of the largest gradient.
        const double floor = dtype == DType::f32 ? largest_of(plain.gradients) : 0;
        for (std::size_t i = 0; i < fused.gradients.size(); ++i)
          check_close("gradient", fused.gradients[i], numbers(plain.gradients[i]), tolerance,
                      floor);
        ++compared;
      }
    }
  }
  CHECK(compared > 80);
}

TEST_CASE("Attention has second derivatives on a differentiable tape") {
  const BothKernels kernel;
  // d/dx of the sum of dq * u, against differences of the first derivative, which has kernels of
  // its own.
  const Mask mask = Mask::causal(3, 4, Align::last) &
                    Mask::rule([](auto, auto h, auto q, auto) { return h == 0 || q != 1; });
  Rng rng(6, Stream::check);
  const Tensor q = randn({1, 2, 3, 2}, rng, DType::f64);
  const Tensor k = randn({1, 2, 4, 2}, rng, DType::f64);
  const Tensor v = randn({1, 2, 4, 3}, rng, DType::f64);
  const Tensor u = randn(q.shape(), rng, DType::f64);

  const auto first = [&](const Tensor& at_k) {
    Tape tape;
    const Tensor watched = tape.watch(q);
    const Gradients g = tape.backward(loss_of(attention_with_weights(watched, at_k, v, mask)));
    double total = 0;
    for (std::int64_t i = 0; i < u.size(); ++i) total += g[watched].at_flat(i) * u.at_flat(i);
    return total;
  };

  TapeOptions options;
  options.differentiable = true;
  Tape tape(options);
  const Tensor wq = tape.watch(q);
  const Tensor wk = tape.watch(k);
  const Tensor dq = tape.backward(loss_of(attention_with_weights(wq, wk, v, mask)))[wq];
  const Tensor second = tape.backward(sum(dq * u))[wk];
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < k.size(); ++i) {
    const auto moved = [&](double by) {
      std::vector<double> values = numbers(k);
      values[static_cast<std::size_t>(i)] += by;
      return tensor(std::span<const double>(values), k.shape());
    };
    const double slope = (first(moved(kStep)) - first(moved(-kStep))) / (2 * kStep);
    CHECK(second.at_flat(i) == Approx(slope).epsilon(1e-7).margin(1e-7));
  }
}

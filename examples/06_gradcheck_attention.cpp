// Check the gradients of attention: of every weight, with causal and padding masks; then see a
// fault caught.
#include <cmath>
#include <cstdio>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

int main() {
  th::Params params(/*seed=*/1, th::DType::f64);  // f64 checks; f32 trains
  const th::MultiHeadAttention attention(params / "attention", {.width = 8, .heads = 2});

  th::Rng rng(/*seed=*/2);
  const Tensor x = th::randn({2, 5, 8}, rng, th::DType::f64);  // [B,T,D]
  const th::Mask mask = th::Mask::causal(5) & th::Mask::lengths({5, 3}, 5);

  // Every element of every weight and of the input, against central differences with an error bar.
  const th::GradcheckReport report = th::gradcheck(
      [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{attention(in[0], mask)}; },
      {x}, params);
  std::printf("attention: %s, %s below 1e-9\n", name_of(report.status),
              report.worst_relative() < 1e-9 ? "worst error" : "NOT");

  // Plant a fault where it is easy to make one: the backward of the scores forgets 1 / sqrt(d).
  th::GradcheckOptions options;
  options.gradient_hook = [](const th::GradientCall& call) {
    const bool scores = call.op == "attention" && call.input < 2;  // the gradients of query and key
    return scores ? call.input_gradient * std::sqrt(4.0) : call.input_gradient;
  };
  const th::GradcheckReport caught = th::gradcheck(
      [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{attention(in[0], mask)}; },
      {x}, params, options);
  std::printf("with a planted fault: %s\n", name_of(caught.status));
  for (const th::GradcheckTensor& tensor : caught.tensors) {
    if (tensor.mismatches > 0) std::printf("  wrong: %s\n", tensor.name.c_str());
  }
}

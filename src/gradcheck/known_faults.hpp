// The classic mistakes of hand-written backward passes, each on a function where it matters.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <tapehead/gradcheck.hpp>

namespace tapehead::detail {

struct KnownFault {
  std::string op;     // as recorded
  int input = 0;      // of that op
  std::string fault;  // "mask dropped in backward"
  TensorFunction function;
  std::vector<Tensor> inputs;
  // The wrong gradient of that input, from the cotangent of the op's output and the right gradient.
  std::function<Tensor(const Tensor& dy, const Tensor& right)> wrong;
};

[[nodiscard]] std::vector<KnownFault> attention_faults();
[[nodiscard]] std::vector<KnownFault> normalisation_faults();
[[nodiscard]] std::vector<KnownFault> loss_faults();
// Embedding, dropout, masked_fill, bias of several heads, tied weights.
[[nodiscard]] std::vector<KnownFault> other_faults();

}  // namespace tapehead::detail

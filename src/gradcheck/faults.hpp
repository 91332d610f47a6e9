// Planted faults: a checker is only worth something if it has been seen to catch wrong gradients.
//
// A fault replaces what one node's gradient function returned for one of its inputs, through the
// tape's gradient hook; no source is edited. A fault is planted on every edge of the tape of every
// sample. It counts as equivalent on a sample only if the gradients were computed and came out
// equal to the true ones to 1e-12.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gradcheck/checker.hpp"

namespace tapehead::detail {

// One edge of a tape: input number `input` of node number `node`.
struct Edge {
  std::string op;
  int node = 0;
  int input = 0;
  Shape output_shape;
  Shape input_shape;
  std::vector<Tensor> gradients;         // true ones, per cotangent
  std::vector<Tensor> output_gradients;  // what the gradient function was given
};
[[nodiscard]] std::vector<Edge> edges_of(const Checker& checker);

enum class Fault {
  zero,          // nothing is propagated
  sign,          // -g
  tenth,         // 1.1 g
  millionth,     // (1 + 1e-6) g
  dropped,       // the largest element is 0
  transposed,    // the last two axes exchanged, under the same shape
  mean_for_sum,  // divided by the number of summed terms
  unreduced,     // a stretched operand gets the gradient of the first slice alone
  previous,      // the gradient of the cotangent before
};
[[nodiscard]] const std::vector<Fault>& all_faults();
[[nodiscard]] const char* name_of(Fault fault);

// The faulty gradients per cotangent, or nothing where the fault does not apply to the edge.
[[nodiscard]] std::vector<Tensor> faulty(Fault fault, const Edge& edge, const Checker& checker);

// A hook that puts `gradients[k]` in place of what the edge returns under cotangent k.
[[nodiscard]] GradientHook plant(const Edge& edge, std::vector<Tensor> gradients);

enum class Outcome { equivalent, caught, missed };
struct Planted {
  Outcome outcome = Outcome::missed;
  bool zero = false;  // the true gradient at the edge is 0 throughout
  GradcheckReport report;
};
[[nodiscard]] Planted try_fault(Checker& checker, const Edge& edge, std::vector<Tensor> gradients);

}  // namespace tapehead::detail

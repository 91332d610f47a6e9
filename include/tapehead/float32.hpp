// float32: which op loses digits? The same graph in f32 and in f64, node by node.
//
//   th::Float32Report report = th::compare_float32(
//       [](th::Params& params) {
//         const th::TransformerStack encoder(params / "encoder", options);
//         return [=](const std::vector<th::Tensor>& in) { return std::vector{encoder(in[0])}; };
//       },
//       {x});
//   std::puts(to_string(report).c_str());
//
// Errors are in units of the last place (ulps) of f32. Each op has two: its own, from evaluating it
// in f32 and in f64 on the same f32 inputs; and the one that has accumulated, from comparing the
// whole graph in f32 with the whole graph in f64.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tapehead/gradcheck.hpp>

namespace tapehead {

struct Float32Options {
  std::string name = "function";
  std::vector<std::string> input_names = {};  // default: input0, input1, ...
  // An op's own error may be this many times half an ulp of its largest element plus what rounding
  // its inputs once more would change.
  double bound = 16;
  std::uint64_t seed = 0;  // of the parameters, the cotangents and the roundings
  int worst = 10;          // nodes listed in the report
};

// One node of the tape in one direction; or all nodes of one op. "ulps" are those of the largest
// element of the tensor, "element ulps" of each element itself, which explode where terms cancel.
struct Float32Op {
  std::string op;         // as recorded
  bool backward = false;  // the gradients that it returns; else its output
  int nodes = 1;
  std::int64_t compared = 0;  // elements
  double own = 0;             // worst own error in ulps
  double own_element = 0;     // in element ulps
  std::string own_name;       // "encoder.layers.0.norm1 layer_norm[1,0,7]"
  double used = 0;            // own error over what is allowed
  // Of the node that loses most:
  double arriving = 0;  // worst accumulated error of what it reads, in ulps
  double leaving = 0;   // of what it gives
  double leaving_element = 0;
  std::string leaving_name;
  double lost = 0;  // the larger of its own error and leaving - arriving
};

// An output of the function, or the gradient by an input or parameter, in f32 against f64.
struct Float32Tensor {
  std::string name;
  Shape shape;
  double ulps = 0;
  double element_ulps = 0;
  std::string worst;                    // the element behind `ulps`
  bool zero = false;                    // truly 0: in ulps of the largest of all
  [[nodiscard]] double digits() const;  // right decimal digits of the largest element
};

struct Float32Report {
  std::string name;
  // pass; mismatch: an op's own error is above what is allowed; misused; not_repeatable;
  // nothing_checked; not_finite: f32 overflows where f64 does not.
  GradcheckStatus status = GradcheckStatus::nothing_checked;
  std::string message;
  double bound = 0;
  std::vector<Float32Op> ops;    // one per op and direction, what loses most first
  std::vector<Float32Op> worst;  // nodes, in the same order
  std::vector<Float32Tensor> outputs;
  std::vector<Float32Tensor> gradients;
  std::int64_t compared = 0;
  double seconds = 0;

  [[nodiscard]] bool passed() const { return status == GradcheckStatus::pass; }
};

[[nodiscard]] std::string to_string(const Float32Report& report);

// `function` is called with f32 and with f64 inputs: it must make its constants in the dtype of its
// inputs and record the same ops for both. The inputs are rounded to f32 first. It must be pure.
[[nodiscard]] Float32Report compare_float32(const TensorFunction& function,
                                            const std::vector<Tensor>& inputs,
                                            const Float32Options& options = {});

// The same for a model: `build` makes it in a store of f32 and once more in one of f64, whose
// parameters then take the values of the first.
using FunctionBuilder = std::function<TensorFunction(Params& params)>;
[[nodiscard]] Float32Report compare_float32(const FunctionBuilder& build,
                                            const std::vector<Tensor>& inputs,
                                            const Float32Options& options = {});

}  // namespace tapehead

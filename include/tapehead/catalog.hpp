// The catalog: every op and every module with its formula and sample inputs. Tests, gradient
// checks, benchmarks and the tables in the documentation all walk it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <tapehead/params.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead {

// One call of an op. Floating inputs are differentiated; everything else (axes, ids, masks) is
// inside `call`, which must be a pure function of its inputs.
struct OpSample {
  std::string name;            // "[3,5,17] axis 1", "empty axis", "tie"
  std::vector<Tensor> inputs;  // of the asked dtype
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call = {};
  // The op stands at a kink or tie here: left and right slopes differ on purpose, and ours lies
  // between.
  bool kink = false;
  // The same function in plain ops, for fused ops; empty otherwise.
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> composition = {};
};

struct OpEntry {
  std::string name;        // as in ops.hpp
  std::string family;      // "arithmetic", "attention", ...
  std::string formula;     // one line
  std::string derivative;  // one line; "none" for ops without a gradient
  bool differentiable = true;
  bool smooth = true;  // false: has kinks (relu, max, ...) or is piecewise constant
  std::function<std::vector<OpSample>(DType dtype)> samples = {};
};

// In the order of ops.hpp.
[[nodiscard]] const std::vector<OpEntry>& op_catalog();

// A module or small model, built and ready to be called. Differentiable are every parameter of the
// Params it was built in and every input; ids and masks are inside `call`, which must be a pure
// function of the parameters' values and its inputs.
struct ModuleSample {
  std::vector<Tensor> inputs;  // floating, in the dtype of the parameters
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call = {};
  // Parameters that no output depends on, so that their gradient is 0 but for rounding: a key bias
  // adds the same number to all scores of a query, which softmax does not see.
  std::vector<std::string> zero_gradient = {};
};

//   Params params(/*seed=*/1, DType::f64);
//   ModuleSample sample = c.build(params);
//   std::vector<Tensor> outputs = sample.call(sample.inputs);
//
// `build` wants an empty Params and takes its dtype and seed from it. It leaves no parameter at a
// special value (biases are not 0, gains not 1), and for seed 1 no activation near a kink.
struct ModuleCase {
  std::string name;  // "cross, 3 queries, 5 keys"
  std::function<ModuleSample(Params& params)> build = {};
};

struct ModuleEntry {
  std::string name;     // as in nn.hpp
  std::string formula;  // one line
  std::vector<ModuleCase> cases = {};
};

// In the order of nn.hpp and models.hpp; the last one is the default EncoderModel with its loss.
[[nodiscard]] const std::vector<ModuleEntry>& module_catalog();

}  // namespace tapehead

// The catalog: every op with its formula and sample inputs. Tests, gradient checks, benchmarks and
// the tables in the documentation all walk it.
#pragma once

#include <functional>
#include <string>
#include <vector>

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

}  // namespace tapehead

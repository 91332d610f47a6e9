// What the entries of the module catalog are made with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <tapehead/catalog.hpp>
#include <tapehead/models.hpp>

#include "ops/catalog.hpp"

namespace tapehead::detail {

// Layers, stacks and whole models, in the order of models.hpp but for the demo's model, which comes
// last.
[[nodiscard]] std::vector<ModuleEntry> model_entries();

// Moves every bias and gain away from its special first value, so that a gradient that is only
// right there is seen.
void perturb(Params& params);

// A case whose module is built by `make(scope)` and called by `call(module, inputs)`.
template <class Make, class Call>
ModuleCase make_case(std::string name, const std::vector<Shape>& shapes, Make make, Call call,
                     const std::vector<std::string>& zero_gradient = {}) {
  return {std::move(name), [=](Params& params) {
            const auto module = make(Scope(params));
            perturb(params);
            ModuleSample sample;
            for (std::size_t i = 0; i < shapes.size(); ++i) {
              sample.inputs.push_back(sample_values(shapes[i], params.dtype(), i + 1));
            }
            sample.call = [module, call](const std::vector<Tensor>& x) { return call(module, x); };
            sample.zero_gradient = zero_gradient;
            return sample;
          }};
}

// The usual call: one input, one output.
template <class Module>
std::vector<Tensor> on_one(const Module& module, const std::vector<Tensor>& x) {
  return {module(x[0])};
}

// Two samples: everything visible in the first, query 1 of the second sees nothing.
inline Mask blocked_row() {
  return Mask::rule([](std::int64_t batch, std::int64_t, std::int64_t query,
                       std::int64_t) { return batch != 1 || query != 1; },
                    "query 1 of sample 1 sees nothing");
}

}  // namespace tapehead::detail

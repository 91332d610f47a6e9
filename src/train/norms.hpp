// Norms around a step, for those who watch the training.
#pragma once

#include <vector>

#include <tapehead/train.hpp>

namespace tapehead::detail {

// Made between backward and the optimiser's step; asked for after it.
class StepNorms {
 public:
  StepNorms(const Params& params, const Gradients& gradients);
  [[nodiscard]] std::vector<ParamNorms> after(const Params& params) const;

 private:
  std::vector<double> gradients_;
  Tensor weights_;  // flat, before the step
};

}  // namespace tapehead::detail

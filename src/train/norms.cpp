#include "train/norms.hpp"

#include <cmath>

#include "core/access.hpp"

namespace tapehead::detail {

StepNorms::StepNorms(const Params& params, const Gradients& gradients) : weights_(params.flat()) {
  for (const Param& param : params.all()) gradients_.push_back(norm(gradients[param]).item());
}

std::vector<ParamNorms> StepNorms::after(const Params& params) const {
  const Tensor now = params.flat();
  std::vector<ParamNorms> norms;
  with_float("norms", now.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* before = in<T>(weights_);
    const T* after = in<T>(now);
    for (const Param& param : params.all()) {
      const std::int64_t begin = params.offset(param.index());
      double weight = 0;
      double update = 0;
      for (std::int64_t i = begin; i < begin + param.shape().size(); ++i) {
        const double moved = static_cast<double>(after[i]) - static_cast<double>(before[i]);
        weight += static_cast<double>(after[i]) * static_cast<double>(after[i]);
        update += moved * moved;
      }
      norms.push_back({gradients_[norms.size()], std::sqrt(weight), std::sqrt(update)});
    }
  });
  return norms;
}

}  // namespace tapehead::detail

#include "gradcheck/composition.hpp"

#include <limits>

#include "gradcheck/subject.hpp"

namespace tapehead::detail {

namespace {

std::vector<double> joined(const std::vector<std::vector<Tensor>>& gradients) {
  std::vector<double> all;
  for (const std::vector<Tensor>& of_cotangent : gradients) {
    for (const Tensor& g : of_cotangent) {
      const std::span<const double> values = g.data<double>();
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

}  // namespace

Agreement compare_with_composition(const OpSample& sample) {
  GradcheckOptions options;
  options.infinite_outputs = true;
  Subject fused({sample.call}, sample.inputs, nullptr, options);
  Subject composed({sample.composition}, sample.inputs, nullptr, options);
  if (fused.prepare().status != GradcheckStatus::pass ||
      composed.prepare().status != GradcheckStatus::pass) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {infinity, infinity};
  }
  // The cotangents are the same, as they depend on the number of outputs alone.
  const TapeSide a = fused.tape_side(nullptr);
  const TapeSide b = composed.tape_side(nullptr);
  return {largest_difference(fused.outputs(), composed.outputs()),
          largest_difference(joined(a.gradients), joined(b.gradients))};
}

}  // namespace tapehead::detail

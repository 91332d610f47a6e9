#include "gradcheck/module_check.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tapehead::detail {

namespace {

constexpr std::int64_t kScalarsPerStripe = 500;

std::string name_of_case(const ModuleEntry& entry, const ModuleCase& module_case) {
  return fmt::format("{}: {}", entry.name, module_case.name);
}

bool without_elements(const std::vector<Tensor>& outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const Tensor& y) { return y.size() == 0; });
}

}  // namespace

std::int64_t stripes_of(const ModuleCase& module_case) {
  Params params(1, DType::f64);
  const ModuleSample sample = module_case.build(params);
  std::int64_t scalars = params.size();
  for (const Tensor& x : sample.inputs) scalars += x.size();
  return 1 + scalars / kScalarsPerStripe;
}

GradcheckReport check_stripe(const ModuleEntry& entry, const ModuleCase& module_case,
                             std::int64_t stripe, std::int64_t stripes, const SuiteOptions& suite) {
  Params params(1, DType::f64);
  const ModuleSample sample = module_case.build(params);
  GradcheckOptions options = suite.check;
  options.name = name_of_case(entry, module_case);
  options.stripe = stripe;
  options.stripes = stripes;
  const bool second = suite.order == Order::second;
  if (params.count() == 0) {
    return second ? gradgradcheck(sample.call, sample.inputs, options)
                  : gradcheck(sample.call, sample.inputs, options);
  }
  return second ? gradgradcheck(sample.call, sample.inputs, params, options)
                : gradcheck(sample.call, sample.inputs, params, options);
}

ModuleCheck joined(const ModuleEntry& entry, const ModuleCase& module_case,
                   const std::vector<GradcheckReport>& stripes, Zeros zeros) {
  ModuleCheck check;
  check.name = name_of_case(entry, module_case);
  check.report = merged(stripes);
  Params params(1, DType::f64);
  const ModuleSample sample = module_case.build(params);
  const std::vector<std::string>& declared = sample.zero_gradient;
  check.parameters = params.size();
  // An empty batch says nothing about its parameters, but its gradients had the right shapes.
  if (check.report.status == GradcheckStatus::nothing_checked &&
      check.report.worst_relative() == 0 && without_elements(sample.call(sample.inputs))) {
    check.report.status = GradcheckStatus::pass;
    check.report.message = "the outputs have no elements, and every gradient is 0";
    return check;
  }
  if (!check.report.passed() || zeros == Zeros::allowed) return check;
  for (const GradcheckTensor& tensor : check.report.tensors) {
    const bool expected =
        std::find(declared.begin(), declared.end(), tensor.name) != declared.end();
    // By chance a rare true 0 lies outside of three bars.
    const bool zero = tensor.compared > 0 && 10 * tensor.zeros >= 9 * tensor.compared;
    if (zero == expected || tensor.compared == 0) continue;
    check.report.status = GradcheckStatus::mismatch;
    check.report.message =
        expected
            ? fmt::format("the gradient of {} should be 0, but is not", tensor.name)
            : fmt::format("the gradient of {} is 0 throughout: nothing depends on it", tensor.name);
  }
  return check;
}

}  // namespace tapehead::detail

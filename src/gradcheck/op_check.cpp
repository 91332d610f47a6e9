#include "gradcheck/op_check.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <tapehead/tape.hpp>

#include "gradcheck/composition.hpp"

namespace tapehead::detail {

namespace {

// Sums in another order, but the same function.
constexpr double kSameFunction = 1e-12;

bool any_without_elements(const std::vector<Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& x) { return is_floating(x.dtype()) && x.size() == 0; });
}

// An op that says it has no gradient must leave nothing on the tape.
std::string recorded_output(const OpSample& sample) {
  Tape tape;
  std::vector<Tensor> in = sample.inputs;
  for (Tensor& x : in) {
    if (is_floating(x.dtype())) x = tape.watch(x);
  }
  for (const Tensor& y : sample.call(in)) {
    if (y.tape_id() != 0)
      return fmt::format("{}: an op without a gradient has put its output on the tape",
                         sample.name);
  }
  return "";
}

void add(OpCheck& op, const GradcheckReport& report) {
  op.compared += report.compared;
  op.within_one_bar += report.within_one_bar;
  op.within_three_bars += report.within_three_bars;
  op.evaluations += report.evaluations;
  op.seconds += report.seconds;
  for (const GradcheckTensor& tensor : report.tensors) {
    op.kinks += tensor.kinks;
    op.widest_relative = std::max(op.widest_relative, tensor.widest_relative);
  }
  if (op.worst.name.empty() || report.worst_relative() > op.worst_relative) {
    op.worst = report;
    op.worst_relative = report.worst_relative();
  }
}

}  // namespace

GradcheckOptions options_for(const OpEntry& entry, const OpSample& sample,
                             GradcheckOptions options) {
  options.name = fmt::format("{} {}", entry.name, sample.name);
  options.kinks_expected = sample.kink;
  options.infinite_outputs = true;
  return options;
}

bool excused(const OpEntry& entry, const OpSample& sample, const GradcheckReport& report) {
  if (report.status != GradcheckStatus::nothing_checked) return false;
  const bool constant = report.compared > 0 && report.worst_relative() == 0;
  return constant || !entry.smooth || any_without_elements(sample.inputs) ||
         any_without_elements(sample.call(sample.inputs));
}

OpCheck check_op(const OpEntry& entry, const SuiteOptions& options) {
  OpCheck op;
  op.name = entry.name;
  op.family = entry.family;
  op.differentiable = entry.differentiable;
  op.smooth = entry.smooth;
  std::set<std::string> coverage;
  bool any_slope = false;
  const auto fail = [&](GradcheckStatus status, std::string message) {
    if (op.status != GradcheckStatus::pass) return;
    op.status = status;
    op.message = std::move(message);
  };
  for (const OpSample& sample : entry.samples(DType::f64)) {
    ++op.samples;
    if (!entry.differentiable) {
      if (const std::string wrong = recorded_output(sample); !wrong.empty())
        fail(GradcheckStatus::mismatch, wrong);
      continue;
    }
    const bool second = options.order == Order::second;
    if (second && (!entry.smooth || sample.kink)) continue;
    const GradcheckOptions check = options_for(entry, sample, options.check);
    const GradcheckReport report = second ? gradgradcheck(sample.call, sample.inputs, check)
                                          : gradcheck(sample.call, sample.inputs, check);
    add(op, report);
    coverage.insert(report.coverage.begin(), report.coverage.end());
    if (sample.composition) {
      const Agreement agreement = compare_with_composition(sample);
      const double worst = std::max(agreement.value, agreement.gradient);
      op.from_composition = std::max(op.from_composition, worst);
      if (!(worst <= kSameFunction)) {
        fail(
            GradcheckStatus::mismatch,
            fmt::format("{}: the kernel differs from its composition of plain ops by {:.1e} of the "
                        "largest in value, by {:.1e} in gradient",
                        sample.name, agreement.value, agreement.gradient));
      }
    }
    if (report.passed()) {
      any_slope = true;
      continue;
    }
    if (excused(entry, sample, report)) continue;
    fail(report.status, fmt::format("{}: {}", sample.name, report.message));
    op.failures.push_back(report);
  }
  const bool wanted = options.order == Order::first || entry.smooth;
  if (entry.differentiable && wanted &&
      (op.compared + op.kinks == 0 || (entry.smooth && !any_slope)))
    fail(GradcheckStatus::nothing_checked, "no sample had a slope to compare");
  op.coverage.assign(coverage.begin(), coverage.end());
  return op;
}

}  // namespace tapehead::detail

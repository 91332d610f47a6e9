#include <fmt/format.h>

#include "gradcheck/suite.hpp"

namespace tapehead::detail {

namespace {

constexpr const char* kRow = "  {:<46} {:>8} {:>9} {:>9}  {}\n";

std::string number(double value) {
  return value == 0 ? std::string("0") : fmt::format("{:.1e}", value);
}

std::string note(const OpCheck& op) {
  if (op.status != GradcheckStatus::pass)
    return fmt::format("{}: {}", name_of(op.status), op.message);
  if (!op.differentiable) return "no gradient";
  if (op.compared == 0) return "left out: it has kinks";
  if (op.kinks > 0) return fmt::format("{} at expected kinks", op.kinks);
  return op.from_composition < 0 ? ""
                                 : fmt::format("{:.0e} from its composition", op.from_composition);
}

double widest(const GradcheckReport& report) {
  double bar = 0;
  for (const GradcheckTensor& tensor : report.tensors) bar = std::max(bar, tensor.widest_relative);
  return bar;
}

}  // namespace

std::string to_string(const Suite& suite) {
  std::string text = fmt::format(kRow, "", "compared", "worst", "bar", "");
  const std::int64_t compared = suite.compared();
  std::int64_t within = 0;
  std::int64_t evaluations = 0;
  for (const OpCheck& op : suite.ops) {
    text += fmt::format(kRow, op.name, op.compared, number(op.worst_relative),
                        number(op.widest_relative), note(op));
    within += op.within_three_bars;
    evaluations += op.evaluations;
  }
  if (!suite.modules.empty()) text += "\n";
  for (const ModuleCheck& module : suite.modules) {
    const GradcheckReport& r = module.report;
    text +=
        fmt::format(kRow, module.name, r.compared, number(r.worst_relative()), number(widest(r)),
                    r.passed() ? "" : fmt::format("{}: {}", name_of(r.status), r.message));
    within += r.within_three_bars;
    evaluations += r.evaluations;
  }
  for (const OpCheck& op : suite.ops) {
    for (const GradcheckReport& report : op.failures)
      text += fmt::format("\n{}", to_string(report));
  }
  for (const ModuleCheck& module : suite.modules) {
    if (!module.report.passed()) text += fmt::format("\n{}", to_string(module.report));
  }
  return text + fmt::format(
                    "\n{} gradients compared, {:.2f}% within three error bars; {} evaluations in "
                    "{:.1f} s: {}\n",
                    compared,
                    compared > 0
                        ? 100.0 * static_cast<double>(within) / static_cast<double>(compared)
                        : 0.0,
                    evaluations, suite.seconds, name_of(suite.status()));
}

std::string to_markdown(const Suite& suite) {
  std::string text =
      "| | gradients compared | worst error | its error bar at most |\n|---|--:|--:|--:|\n";
  const auto row = [&](const std::string& name, std::int64_t compared, double worst, double bar) {
    text += fmt::format("| {} | {} | {} | {} |\n", name, compared, number(worst), number(bar));
  };
  for (const OpCheck& op : suite.ops) {
    if (op.differentiable)
      row(fmt::format("`{}`", op.name), op.compared, op.worst_relative, op.widest_relative);
  }
  for (const ModuleCheck& module : suite.modules)
    row(module.name, module.report.compared, module.report.worst_relative(), widest(module.report));
  return text;
}

}  // namespace tapehead::detail

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/gradcheck.hpp>

#include "gradcheck/verdict.hpp"

namespace tapehead {

namespace {

std::string tensor_line(const GradcheckTensor& t, std::size_t width) {
  std::string line =
      fmt::format("  {:<{}}  {:<14}  {:>8}  {:>9.1e}  {:>9.1e}  {:>9.1e}", t.name, width,
                  to_string(t.shape), t.compared, t.largest, t.worst_relative, t.widest_relative);
  const auto note = [&](std::int64_t count, const char* what) {
    if (count > 0) line += fmt::format("  {} {}", count, what);
  };
  note(t.mismatches, "wrong");
  note(t.kinks, "at a kink");
  note(t.unresolved, "not resolved");
  note(t.zeros, "truly 0");
  note(t.wide, "with a bar above the tolerance");
  return line + "\n";
}

std::string element_line(const GradcheckElement& e, std::size_t width) {
  std::string line =
      fmt::format("  {:<{}}  {:>23.16e}  {:>23.16e}  {:>8.1e}  {:>8.1e}  {:>8.3g}  {:>8.1e}",
                  e.name, width, e.tape, e.numeric, e.bar, e.relative, e.ratio, e.step);
  if (e.verdict == ElementVerdict::kink) {
    line += fmt::format("  kink: {:.6g} left, {:.6g} right", e.left, e.right);
  } else if (e.verdict != ElementVerdict::pass) {
    line += fmt::format("  {}", name_of(e.verdict));
  }
  return line + "\n";
}

std::string bucket_name(std::size_t i) {
  if (i == 0) return "exactly 0";
  const int decade = static_cast<int>(i) - 18;
  if (i == 1) return fmt::format("below 1e{}", decade);
  if (i == 19) return fmt::format("1e{} and up", decade - 1);
  return fmt::format("1e{} .. 1e{}", decade - 1, decade);
}

std::string histogram_text(const GradcheckHistogram& histogram) {
  const std::int64_t most =
      std::max<std::int64_t>(1, *std::max_element(histogram.begin(), histogram.end()));
  std::string text;
  for (std::size_t i = 0; i < histogram.size(); ++i) {
    if (histogram[i] == 0) continue;
    const auto length = static_cast<std::size_t>((histogram[i] * 40 + most - 1) / most);
    text +=
        fmt::format("  {:<15} {:>8}  {}\n", bucket_name(i), histogram[i], std::string(length, '#'));
  }
  return text;
}

}  // namespace

namespace detail {

std::string folded(const std::vector<std::string>& words) {
  std::string text;
  std::size_t column = 0;
  for (const std::string& word : words) {
    if (column == 0 || column + 1 + word.size() > 100) {
      text += column == 0 ? "   " : "\n   ";
      column = 3;
    }
    text += ' ';
    text += word;
    column += 1 + word.size();
  }
  return text + '\n';
}

}  // namespace detail

std::string to_string(const GradcheckReport& report) {
  std::string text =
      fmt::format("gradcheck {}: {} - {}\n", report.name, name_of(report.status), report.message);
  if (!report.tensors.empty()) {
    std::size_t width = 6;
    for (const GradcheckTensor& t : report.tensors) width = std::max(width, t.name.size());
    text += fmt::format("\n  {:<{}}  {:<14}  {:>8}  {:>9}  {:>9}  {:>9}\n", "tensor", width,
                        "shape", "compared", "largest", "worst", "bar");
    for (const GradcheckTensor& t : report.tensors) text += tensor_line(t, width);
    text += "  worst error and widest bar are relative to the largest gradient of the tensor\n";
  }
  if (!report.worst.empty()) {
    std::size_t width = 7;
    for (const GradcheckElement& e : report.worst) width = std::max(width, e.name.size());
    text += fmt::format("\n  {:<{}}  {:>23}  {:>23}  {:>8}  {:>8}  {:>8}  {:>8}\n",
                        report.fast ? "worst direction" : "worst element", width, "tape", "numeric",
                        "bar", "relative", "in bars", "step");
    for (const GradcheckElement& e : report.worst) text += element_line(e, width);
  }
  if (report.compared > 0) {
    text += "\n  relative error      count\n" + histogram_text(report.histogram);
    text += fmt::format(
        "  within one bar {:.2f}%, within three {:.2f}%\n",
        100.0 * static_cast<double>(report.within_one_bar) / static_cast<double>(report.compared),
        100.0 * static_cast<double>(report.within_three_bars) /
            static_cast<double>(report.compared));
  }
  if (!report.coverage.empty()) text += "\n  ops exercised:\n" + detail::folded(report.coverage);
  return text + fmt::format("\n  {} evaluations, {:.2f} s\n", report.evaluations, report.seconds);
}

}  // namespace tapehead

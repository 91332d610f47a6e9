#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "gradcheck/float32.hpp"
#include "gradcheck/verdict.hpp"

namespace tapehead {

namespace detail {

namespace {

constexpr const char* kRow = "  {:<{}} {:>6} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9}  {}\n";

std::string ulps(double value) {
  if (value == 0) return "0";
  return value < 0.001 || value >= 1e5 ? fmt::format("{:.1e}", value)
                                       : fmt::format("{:.3g}", value);
}

std::string name_of(const Float32Op& op) {
  return fmt::format("{}{}", op.op, op.backward ? " backward" : "");
}

// The worst element of the figure by which the row stands where it does.
const std::string& worst_name(const Float32Op& op) {
  return op.lost > op.own || op.own == 0 ? op.leaving_name : op.own_name;
}

}  // namespace

std::string ops_table(const std::vector<Float32Op>& ops) {
  std::size_t width = 2;
  for (const Float32Op& op : ops) width = std::max(width, name_of(op).size());
  std::string text = fmt::format(kRow, "op", width, "nodes", "own", "element", "used", "arriving",
                                 "leaving", "element", "lost", "worst element");
  std::vector<std::string> exact;
  for (const Float32Op& op : ops) {
    if (op.lost == 0) {
      exact.push_back(name_of(op));
      continue;
    }
    text += fmt::format(kRow, name_of(op), width, op.nodes, ulps(op.own), ulps(op.own_element),
                        fmt::format("{:.0f}%", 100 * op.used), ulps(op.arriving), ulps(op.leaving),
                        ulps(op.leaving_element), ulps(op.lost), worst_name(op));
  }
  if (!exact.empty()) text += fmt::format("  nothing is lost in\n{}", folded(exact));
  return text;
}

std::string legend() {
  return "  in f32 ulps of the largest element of a tensor (element: of the element itself); own: "
         "rounding\n  that the op adds; used: of what is allowed; arriving and leaving: "
         "accumulated "
         "error before and\n  after; lost: the larger of own and leaving - arriving\n";
}

}  // namespace detail

namespace {

std::string tensors_table(const char* title, const std::vector<Float32Tensor>& tensors) {
  if (tensors.empty()) return "";
  std::size_t width = 8;
  for (const Float32Tensor& t : tensors) width = std::max(width, t.name.size());
  std::string text = fmt::format("\n  {:<{}}  {:<14}  {:>6}  {:>9}  {:>9}  {}\n", title, width,
                                 "shape", "digits", "ulps", "element", "worst element");
  for (const Float32Tensor& t : tensors) {
    text += fmt::format("  {:<{}}  {:<14}  {:>6.1f}  {:>9}  {:>9}  {}{}\n", t.name, width,
                        to_string(t.shape), t.digits(), detail::ulps(t.ulps),
                        detail::ulps(t.element_ulps), t.worst,
                        t.zero ? "  truly 0: in ulps of the largest gradient" : "");
  }
  return text;
}

}  // namespace

std::string to_string(const Float32Report& report) {
  std::string text =
      fmt::format("float32 {}: {} - {}\n", report.name, name_of(report.status), report.message);
  if (!report.ops.empty()) text += fmt::format("\n{}", detail::ops_table(report.ops));
  if (report.ops.size() < report.worst.size()) {
    text += fmt::format("\n  Single nodes, what loses most first:\n{}",
                        detail::ops_table(report.worst));
  }
  if (!report.ops.empty()) text += detail::legend();
  text += tensors_table("output", report.outputs);
  text += tensors_table("gradient", report.gradients);
  return text +
         fmt::format("\n  {} elements compared, {:.2f} s\n", report.compared, report.seconds);
}

namespace detail {

std::string to_string(const Float32Suite& suite) {
  constexpr const char* kThing = "  {:<46} {:>8} {:>9} {:>6} {:>9}  {}\n";
  std::string text = fmt::format(kThing, "", "compared", "own", "used", "lost", "most lost in");
  for (const Float32Suite::Thing& thing : suite.things) {
    const Float32Report& r = thing.report;
    if (!thing.left_out.empty()) {
      text += fmt::format(kThing, thing.name, "-", "-", "-", "-", thing.left_out);
      continue;
    }
    double own = 0;
    double used = 0;
    for (const Float32Op& op : r.ops) {
      own = std::max(own, op.own);
      used = std::max(used, op.used);
    }
    const std::string note = !r.passed()     ? fmt::format("{}: {}", name_of(r.status), r.message)
                             : r.ops.empty() ? ""
                                             : name_of(r.ops.front());
    text += fmt::format(kThing, thing.name, thing.compared, ulps(own),
                        fmt::format("{:.0f}%", 100 * used),
                        r.ops.empty() ? "0" : ulps(r.ops.front().lost), note);
  }
  text += fmt::format("\n{}{}", ops_table(suite.ops), legend());
  for (const Float32Suite::Thing& thing : suite.things) {
    if (thing.left_out.empty() && !thing.report.passed())
      text += fmt::format("\n{}", to_string(thing.report));
  }
  return text + fmt::format("\n{} elements compared in f32 and f64 in {:.1f} s: {}\n",
                            suite.compared(), suite.seconds, tapehead::name_of(suite.status()));
}

}  // namespace detail
}  // namespace tapehead

// f32 against f64, node by node. Four kinds of walks over one graph:
//   in f32;
//   in f64 freely: what has accumulated is the difference between the two;
//   in f64 where every number that an op comes to is replaced by that of the f32 walk, through the
//     tape's hooks: each op meets what it met in f32, so what it comes to differs by its own error;
//   the same with each of those numbers rounded once more at random: what that changes is what no
//     kernel can be blamed for.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <tapehead/ops.hpp>

#include "gradcheck/float32.hpp"
#include "gradcheck/float32_error.hpp"
#include "gradcheck/subject.hpp"

namespace tapehead::detail {

namespace {

constexpr std::uint64_t kDraws = 4;

class Comparison {
 public:
  Comparison(const Float32Side& single, const Float32Side& full, const Float32Options& options,
             std::vector<Tensor> cotangents, Float32Report& report)
      : options_(options), report_(report) {
    single_ = walk(single, cotangents, options.input_names, &graph_);
    for (Tensor& c : cotangents) c = cast(c, DType::f64);
    std::string wrong;
    const auto in_f64 = [&](const Float32Forced& forced) {
      Float32Graph graph;
      Float32Run run = walk(full, cotangents, options.input_names, &graph, forced);
      wrong = graph_.difference(graph);
      return run;
    };
    full_ = in_f64({});
    if (wrong.empty()) forced_ = in_f64({&single_, 0});
    if (!wrong.empty()) {
      report_.status = GradcheckStatus::misused;
      report_.message = fmt::format(
          "the function records other ops in f32 than in f64, which cannot be compared: {}", wrong);
      return;
    }
    for (std::uint64_t d = 1; d <= kDraws; ++d) {
      Float32Run run = in_f64({&single_, options.seed + d});
      if (wrong.empty()) drawn_.push_back(std::move(run));
    }
    compare();
  }

 private:
  using Node = Float32Graph::Node;

  static std::size_t at(int n) { return static_cast<std::size_t>(n); }

  void compare() {
    for (const Tensor& g : full_.leaves) leaf_scale_ = std::max(leaf_scale_, largest_in(g));
    const std::size_t count = graph_.nodes.size();
    forward_.resize(count);
    arriving_.resize(count);
    for (const int output : graph_.outputs) {
      if (output >= 0) arriving_[at(output)].push_back(0);  // the cotangent is exact
    }
    for (std::size_t n = 0; n < count; ++n) {
      if (!graph_.nodes[n].leaf) compare_output(n);
    }
    // Whatever uses a node stands behind it on the tape.
    for (std::size_t n = count; n-- > 0;) {
      if (single_.arrived[n].defined()) compare_node_backward(n);
    }
    compare_results();
    std::stable_sort(report_.ops.begin(), report_.ops.end(), loses_more);
    conclude();
  }

  void compare_output(std::size_t n) {
    const Node& node = graph_.nodes[n];
    double scale_of_inputs = 0;
    double arriving = 0;
    for (const int i : node.inputs) {
      if (i < 0) continue;
      arriving = std::max(arriving, forward_[at(i)].ulps);
      scale_of_inputs = std::max(scale_of_inputs, largest_in(full_.forward[at(i)]));
    }
    const double scale = float32_scale(single_.forward[n], full_.forward[n], scale_of_inputs).value;
    forward_[n] = float32_error(single_.forward[n], full_.forward[n], scale);
    const auto pick = [n](const Float32Run& run) { return run.forward[n]; };
    add(node.op, false, node.name, pick, scale, arriving, forward_[n]);
  }

  // The sum of the gradients that reached the node, and the gradients that it returns.
  void compare_node_backward(std::size_t n) {
    const Node& node = graph_.nodes[n];
    const double scale = float32_scale(single_.arrived[n], full_.arrived[n], leaf_scale_).value;
    const Float32Error arrived = float32_error(single_.arrived[n], full_.arrived[n], scale);
    if (arriving_[n].size() > 1) {
      const auto pick = [n](const Float32Run& run) { return run.arrived[n]; };
      add("accumulate", true, node.name, pick, scale,
          *std::max_element(arriving_[n].begin(), arriving_[n].end()), arrived);
    }
    double arriving = std::max(arrived.ulps, forward_[n].ulps);
    for (const int input : node.inputs) {
      if (input >= 0) arriving = std::max(arriving, forward_[at(input)].ulps);
    }
    for (std::size_t i = 0; i < single_.backward[n].size(); ++i) {
      if (single_.backward[n][i].defined()) compare_gradient(n, i, arriving);
    }
  }

  void compare_gradient(std::size_t n, std::size_t i, double arriving) {
    const std::size_t target = at(graph_.nodes[n].inputs[i]);
    const Tensor& single = single_.backward[n][i];
    const Tensor& full = full_.backward[n][i];
    const double scale = float32_scale(single, full, leaf_scale_).value;
    const Float32Error leaving = float32_error(single, full, scale);
    arriving_[target].push_back(leaving.ulps);
    const auto pick = [n, i](const Float32Run& run) { return run.backward[n][i]; };
    add(graph_.nodes[n].op, true, graph_.nodes[target].name, pick, scale, arriving, leaving);
  }

  template <class Pick>
  void add(const std::string& op, bool backward, const std::string& name, const Pick& pick,
           double scale, double arriving, const Float32Error& leaving) {
    const Tensor single = pick(single_);
    const Tensor own = pick(forced_);
    if (single.size() == 0) return;
    const Float32Error error = float32_error(single, own, scale);
    double shaken = 0;
    for (const Float32Run& run : drawn_)
      shaken = std::max(shaken, float32_error(pick(run), own, scale).ulps);
    Float32Op node;
    node.op = op;
    node.backward = backward;
    node.compared = single.size();
    node.own = error.ulps;
    node.own_element = error.element_ulps;
    if (error.ulps > 0) node.own_name = element_name(name, single.shape(), error.at);
    node.used = error.ulps == 0 ? 0 : error.ulps / (options_.bound * (0.5 + shaken));
    node.arriving = arriving;
    node.leaving = leaving.ulps;
    node.leaving_element = leaving.element_ulps;
    if (leaving.ulps > 0) node.leaving_name = element_name(name, single.shape(), leaving.at);
    node.lost =
        std::max(node.own, std::isfinite(leaving.ulps) ? leaving.ulps - arriving : leaving.ulps);
    if ((error.overflow || leaving.overflow) && overflow_.empty())
      overflow_ = fmt::format("{}{} {}", op, backward ? " backward" : "",
                              error.overflow ? node.own_name : node.leaving_name);
    if (node.used > worst_used_.used) worst_used_ = node;
    report_.compared += node.compared;
    add_to(report_.ops, node);
    const auto wanted = static_cast<std::size_t>(std::max(options_.worst, 0));
    report_.worst.insert(
        std::upper_bound(report_.worst.begin(), report_.worst.end(), node, loses_more), node);
    if (report_.worst.size() > wanted) report_.worst.pop_back();
  }

  [[nodiscard]] static Float32Tensor tensor_row(const std::string& name, const Tensor& single,
                                                const Tensor& full, double otherwise) {
    Float32Tensor row;
    row.name = name;
    row.shape = single.shape();
    const Float32Scale scale = float32_scale(single, full, otherwise);
    row.zero = scale.zero;
    const Float32Error error = float32_error(single, full, scale.value);
    row.ulps = error.ulps;
    row.element_ulps = error.element_ulps;
    row.worst = error.ulps > 0 ? element_name(name, single.shape(), error.at) : "";
    return row;
  }

  void compare_results() {
    for (std::size_t o = 0; o < single_.outputs.size(); ++o) {
      const std::string name =
          single_.outputs.size() == 1 ? std::string("output") : fmt::format("output{}", o);
      report_.outputs.push_back(tensor_row(name, single_.outputs[o], full_.outputs[o], 0));
    }
    for (std::size_t l = 0; l < single_.leaves.size(); ++l) {
      report_.gradients.push_back(
          tensor_row(single_.leaf_names[l], single_.leaves[l], full_.leaves[l], leaf_scale_));
    }
  }

  void conclude() {
    const auto digits = [](const std::vector<Float32Tensor>& tensors) {
      double least = std::numeric_limits<double>::infinity();
      for (const Float32Tensor& t : tensors) {
        if (t.shape.size() > 0) least = std::min(least, t.digits());
      }
      return least;
    };
    if (!overflow_.empty()) {
      report_.status = GradcheckStatus::not_finite;
      report_.message = fmt::format("f32 overflows where f64 does not, first at {}", overflow_);
    } else if (report_.compared == 0) {
      report_.status = GradcheckStatus::nothing_checked;
      report_.message = "no op was recorded: no output depends on an input or a parameter";
    } else if (worst_used_.used > 1) {
      report_.status = GradcheckStatus::mismatch;
      report_.message =
          fmt::format("{}{} is off by {:.3g} ulps of its own at {}, {:.1f} times what is allowed",
                      worst_used_.op, worst_used_.backward ? " backward" : "", worst_used_.own,
                      worst_used_.own_name, worst_used_.used);
    } else {
      report_.status = GradcheckStatus::pass;
      report_.message = fmt::format("every op rounds as it may; outputs are right to {:.1f} digits",
                                    digits(report_.outputs));
      if (!report_.gradients.empty() && std::isfinite(digits(report_.gradients)))
        report_.message += fmt::format(", gradients to {:.1f}", digits(report_.gradients));
    }
  }

  const Float32Options& options_;
  Float32Report& report_;
  Float32Graph graph_;
  Float32Run single_;
  Float32Run full_;
  Float32Run forced_;
  std::vector<Float32Run> drawn_;
  std::vector<Float32Error> forward_;  // accumulated, per node
  std::vector<std::vector<double>>
      arriving_;           // accumulated errors of the gradients that meet there
  double leaf_scale_ = 0;  // largest gradient by an input or parameter
  std::string overflow_;
  Float32Op worst_used_;
};

}  // namespace

bool loses_more(const Float32Op& a, const Float32Op& b) { return a.lost > b.lost; }

void add_to(std::vector<Float32Op>& ops, const Float32Op& node) {
  for (Float32Op& op : ops) {
    if (op.op != node.op || op.backward != node.backward) continue;
    op.nodes += node.nodes;
    op.compared += node.compared;
    op.used = std::max(op.used, node.used);
    op.own_element = std::max(op.own_element, node.own_element);
    if (node.own > op.own) {
      op.own = node.own;
      op.own_name = node.own_name;
    }
    if (node.lost > op.lost) {
      op.arriving = node.arriving;
      op.leaving = node.leaving;
      op.leaving_element = node.leaving_element;
      op.leaving_name = node.leaving_name;
      op.lost = node.lost;
    }
    return;
  }
  ops.push_back(node);
}

void compare_walks(const Float32Side& single, const Float32Side& full,
                   const Float32Options& options, std::vector<Tensor> cotangents,
                   Float32Report& report) {
  Comparison(single, full, options, std::move(cotangents), report);
}

}  // namespace tapehead::detail

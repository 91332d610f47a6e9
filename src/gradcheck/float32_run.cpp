#include "gradcheck/float32_run.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <tapehead/ops.hpp>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"

namespace tapehead::detail {

namespace {

using Node = Float32Graph::Node;

// Every tensor is rounded by a draw of its own: nodes are numbered from 0, others from here on.
constexpr std::uint64_t kLeaves = std::uint64_t{1} << 40;
constexpr std::uint64_t kArrived = std::uint64_t{2} << 40;
constexpr std::uint64_t kEdges = std::uint64_t{3} << 40;

std::vector<Node> nodes_of(const Tape::State& tape) {
  std::vector<Node> nodes;
  std::map<std::string, int> seen;
  for (const Tape::State::Node& from : tape.nodes) {
    Node node;
    node.op = from.op;
    const bool outside = from.module == nullptr || *from.module == '\0';
    node.name = outside ? from.op : fmt::format("{} {}", from.module, from.op);
    if (const int count = ++seen[node.name]; count > 1) node.name += fmt::format("#{}", count);
    node.shape = from.shape;
    node.leaf = from.function_count == 0;
    for (std::int32_t f = 0; f < from.function_count; ++f) {
      const auto& function = tape.functions[static_cast<std::size_t>(from.first_function + f)];
      for (std::int32_t e = 0; e < function.edge_count; ++e) {
        const int to = tape.edges[static_cast<std::size_t>(function.first_edge + e)];
        node.inputs.push_back(to);
      }
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

const Tensor* found(const Float32Run* run, std::vector<Tensor> Float32Run::*list, int node) {
  if (run == nullptr || static_cast<std::size_t>(node) >= (run->*list).size()) return nullptr;
  return &(run->*list)[static_cast<std::size_t>(node)];
}

// What the parameters hold while a run with other values goes on.
class Moved {
 public:
  Moved(Params* params, const Float32Forced& forced) : params_(params) {
    if (params_ == nullptr || forced.draw == 0) return;
    before_ = params_->flat();
    put(rounded_again(before_, forced.draw, kLeaves));
  }
  ~Moved() {
    if (before_.defined()) put(before_);
  }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

 private:
  void put(const Tensor& values) {
    params_->write("compare_float32", [&](std::span<double> flat) {
      const std::span<const double> from = values.data<double>();
      std::copy(from.begin(), from.end(), flat.begin());
    });
  }
  Params* params_;
  Tensor before_;
};

}  // namespace

Tensor rounded_again(const Tensor& x, std::uint64_t draw, std::uint64_t place) {
  if (draw == 0) return x;
  const Rng rng = Rng(draw, Stream::check).fork("rounding").fork(place);
  Tensor y = empty_like(x);
  const double* from = in<double>(x);
  double* to = out<double>(y);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const bool up = (rng.bits_at(static_cast<std::uint64_t>(i)) & 1) != 0;
    to[i] = from[i] * (up ? 1 + 0x1p-24 : 1 - 0x1p-24);
  }
  return y;
}

std::string copy_values(const Params& single, Params& full) {
  for (int p = 0; p < std::max(single.count(), full.count()); ++p) {
    const auto text = [p](const Params& params) {
      return p < params.count()
                 ? fmt::format("{} {}", params[p].name(), to_string(params[p].shape()))
                 : std::string("nothing");
    };
    if (text(single) != text(full)) {
      return fmt::format(
          "the model has other parameters in f32 than in f64: number {} is {} and {}", p,
          text(single), text(full));
    }
  }
  const Tensor values = single.flat();
  full.write("compare_float32", [&](std::span<double> flat) {
    const std::span<const float> from = values.data<float>();
    std::copy(from.begin(), from.end(), flat.begin());
  });
  return "";
}

std::string Float32Graph::difference(const Float32Graph& other) const {
  for (std::size_t i = 0; i < std::max(nodes.size(), other.nodes.size()); ++i) {
    const auto text = [i](const Float32Graph& g) {
      return i < g.nodes.size() ? fmt::format("{} {}", g.nodes[i].name, to_string(g.nodes[i].shape))
                                : std::string("nothing");
    };
    const bool same = i < nodes.size() && i < other.nodes.size() &&
                      nodes[i].op == other.nodes[i].op && nodes[i].shape == other.nodes[i].shape &&
                      nodes[i].inputs == other.nodes[i].inputs;
    if (!same)
      return fmt::format("node {} is {} in f32 and {} in f64", i, text(*this), text(other));
  }
  return outputs == other.outputs ? "" : "the outputs come from other nodes in f64";
}

Float32Run walk(const Float32Side& side, const std::vector<Tensor>& cotangents,
                const std::vector<std::string>& input_names, Float32Graph* graph,
                const Float32Forced& forced) {
  Float32Run run;
  const auto size = [](int n) { return static_cast<std::size_t>(n); };
  const auto replacement = [&](const Tensor& own, const Tensor* single, std::uint64_t place) {
    if (single == nullptr || single->shape() != own.shape()) return own;
    return rounded_again(cast(*single, DType::f64), forced.draw, place);
  };
  // Of the forced run, or nullptr: a function may record other ops for other values.
  const auto forward = [&](int node) { return found(forced.run, &Float32Run::forward, node); };
  const auto arrived = [&](int node) { return found(forced.run, &Float32Run::arrived, node); };
  const auto backward = [&](int node, int input) -> const Tensor* {
    if (forced.run == nullptr || size(node) >= forced.run->backward.size()) return nullptr;
    const std::vector<Tensor>& of_node = forced.run->backward[size(node)];
    return size(input) < of_node.size() ? &of_node[size(input)] : nullptr;
  };
  TapeOptions options;
  options.output_hook = [&](const OutputCall& call) {
    run.forward.resize(size(call.node) + 1);
    run.forward[size(call.node)] = call.output;
    return replacement(call.output, forward(call.node), static_cast<std::uint64_t>(call.node));
  };
  options.gradient_hook = [&](const GradientCall& call) {
    std::vector<Tensor>& of_node = run.backward[size(call.node)];
    if (of_node.size() <= size(call.input)) of_node.resize(size(call.input) + 1);
    of_node[size(call.input)] = call.input_gradient;
    return replacement(call.input_gradient, backward(call.node, call.input),
                       kEdges + 64 * static_cast<std::uint64_t>(call.node) +
                           static_cast<std::uint64_t>(call.input));
  };
  options.arrival_hook = [&](const GradientCall& call) {
    run.arrived[size(call.node)] = call.input_gradient;
    return replacement(call.input_gradient, arrived(call.node),
                       kArrived + static_cast<std::uint64_t>(call.node));
  };
  const Moved moved(side.params, forced);
  Tape tape(std::move(options));
  std::vector<Tensor> inputs = side.inputs;
  std::vector<std::pair<int, std::string>> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    inputs[i] = tape.watch(rounded_again(inputs[i], forced.draw, kLeaves + 1 + i));
    leaves.emplace_back(inputs[i].node(),
                        i < input_names.size() ? input_names[i] : fmt::format("input{}", i));
  }
  std::vector<Tensor> ys;
  for (const Tensor& y : side.function(inputs)) {
    if (!y.defined()) fail<ValueError>("compare_float32: an output of the function is no tensor");
    if (!is_floating(y.dtype())) continue;
    ys.push_back(y);
    run.outputs.push_back(detach(y));
  }
  bool recorded = false;
  for (const Tensor& y : ys) recorded = recorded || y.tape_id() == tape.id();
  std::vector<Param> trained;
  for (int p = 0; side.params != nullptr && p < side.params->count(); ++p) {
    if (!(*side.params)[p].frozen()) trained.push_back((*side.params)[p]);
  }
  const Tape::State& state = *recording_tape();
  std::vector<Node> nodes = nodes_of(state);
  for (const Param& p : trained) {
    for (const Tape::State::Store& store : state.stores) {
      const auto index = size(p.index());
      if (index < store.leaves.size() && store.leaves[index] >= 0)
        leaves.emplace_back(store.leaves[index], p.name());
    }
  }
  for (const auto& leaf : leaves) {
    nodes[size(leaf.first)].name = leaf.second;
    nodes[size(leaf.first)].leaf = true;
  }
  run.forward.resize(nodes.size());
  run.backward.resize(nodes.size());
  run.arrived.resize(nodes.size());
  if (graph != nullptr) {
    for (const Tensor& y : ys) graph->outputs.push_back(y.tape_id() == tape.id() ? y.node() : -1);
    graph->nodes = std::move(nodes);
  }
  if (!recorded || cotangents.empty()) return run;
  const Gradients gradients = tape.backward(ys, cotangents);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    run.leaves.push_back(gradients[inputs[i]]);
    run.leaf_names.push_back(i < input_names.size() ? input_names[i] : fmt::format("input{}", i));
  }
  for (const Param& p : trained) {
    run.leaves.push_back(gradients[p]);
    run.leaf_names.push_back(p.name());
  }
  // The engine adds the gradients of a parameter where they will stay, without a visit.
  for (const Param& p : trained) {
    for (const auto& leaf : leaves) {
      if (leaf.second == p.name()) run.arrived[size(leaf.first)] = gradients[p];
    }
  }
  return run;
}

}  // namespace tapehead::detail

// The walk back over the tape: a plain loop, no recursion, no graph to sort.
#include <algorithm>

#include <fmt/format.h>

#include "autograd/recorded.hpp"
#include "autograd/tape_state.hpp"
#include "core/access.hpp"
#include "core/message.hpp"
#include "core/threads.hpp"

namespace tapehead {

using detail::fail;
using State = Tape::State;

namespace {

// While backward runs, its own tape records if it is differentiable, and none otherwise.
class Current {
 public:
  explicit Current(State& tape)
      : tape_(tape.options.differentiable ? &tape : nullptr), previous_(exchange_newest(tape_)) {
    detail::place().clock = nullptr;  // gradients are timed node by node, not op by op
  }
  ~Current() {
    exchange_newest(previous_);
    follow_clock();
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  State* tape_;
  State* previous_;
};

// Tells what is recorded meanwhile whose gradient it belongs to.
class Walking {
 public:
  Walking(State& tape, std::int32_t node) : finite_(tape.finite.get()) {
    if (finite_ != nullptr) finite_->walking = node;
  }
  ~Walking() {
    if (finite_ != nullptr) finite_->walking = -1;
  }
  Walking(const Walking&) = delete;
  Walking& operator=(const Walking&) = delete;

 private:
  detail::Finite* finite_;
};

std::string describe(const State::Node& node) {
  std::string text = node.op;
  if (node.module != nullptr && *node.module != '\0') text += fmt::format(" in {}", node.module);
  return text;
}

}  // namespace

Gradients Tape::backward(const Tensor& loss) {
  detail::check_defined("backward", loss, "the loss");
  if (loss.size() != 1) {
    fail<ShapeError>(fmt::format(
        "backward: the loss must have one element, but its shape is {}; reduce it with sum or "
        "mean, or pass a cotangent of its shape",
        to_string(loss.shape())));
  }
  detail::check_floating("backward", loss, "the loss");
  return backward(loss, ones(loss.shape(), loss.dtype()));
}

Gradients Tape::backward(const Tensor& y, const Tensor& cotangent) {
  return backward(std::span<const Tensor>(&y, 1), std::span<const Tensor>(&cotangent, 1));
}

namespace {

void check_start(const State& state, std::span<const Tensor> ys,
                 std::span<const Tensor> cotangents) {
  if (state.thread != this_thread())
    fail<TapeError>("backward: this tape belongs to another thread");
  if (state.spent) {
    fail<TapeError>(
        "backward: this tape is spent: an earlier backward consumed it; open a new Tape for each "
        "step, or make it "
        "differentiable to keep everything");
  }
  if (ys.size() != cotangents.size()) {
    fail<ValueError>(
        fmt::format("backward: {} outputs, but {} cotangents", ys.size(), cotangents.size()));
  }
  bool any = false;
  for (std::size_t i = 0; i < ys.size(); ++i) {
    detail::check_floating("backward", ys[i], "an output");
    detail::check_same_dtype("backward", ys[i], cotangents[i]);
    detail::check_same_shape("backward", ys[i], cotangents[i], "output", "cotangent");
    if (ys[i].tape_id() == 0) continue;
    if (ys[i].tape_id() != state.id) {
      fail<TapeError>("backward: the output was recorded on another tape (or one that has ended)");
    }
    any = true;
  }
  if (!any) {
    fail<TapeError>(
        "backward: the loss is a constant of this tape: it depends on no parameter and on no "
        "tensor given to watch()");
  }
  for (const State::Store& seen : state.stores) {
    if (seen.store->version != seen.version) {
      fail<TapeError>(fmt::format(
          "backward: parameters (such as {}) were changed by {} after this tape recorded them, so "
          "their gradients would belong to other values; change them after backward",
          seen.store->entries.front().name, seen.store->last_writer));
    }
  }
}

}  // namespace

// One walk from the newest wanted node to the front. Gradients wait in `pending` by node; those of
// parameters are summed straight into the flat buffer.
class Backward {
 public:
  Backward(State& state, Gradients::State& result)
      : state_(state), result_(result), slots_(state.nodes.size(), -1) {
    for (const State::Store& seen : state.stores) {
      Gradients::State::OfStore& of = result.of(seen.store);
      if (!state.options.differentiable) of.flat = zeros({seen.store->size}, seen.store->dtype);
    }
    for (std::size_t i = 0; i < state.nodes.size(); ++i) {
      if (state.nodes[i].watched) {
        result.asked[{state.id, static_cast<std::int32_t>(i)}] = {state.nodes[i].shape,
                                                                  state.nodes[i].dtype};
      }
    }
  }

  void add(std::int32_t index, Tensor gradient) {
    const State::Node& node = state_.nodes[static_cast<std::size_t>(index)];
    if (node.param_store >= 0 && !state_.options.differentiable) return add_to_flat(node, gradient);
    std::int32_t& slot = slots_[static_cast<std::size_t>(index)];
    if (slot >= 0) {
      sum(pending_[static_cast<std::size_t>(slot)], std::move(gradient));
    } else if (free_.empty()) {
      slot = static_cast<std::int32_t>(pending_.size());
      pending_.push_back(std::move(gradient));
    } else {
      slot = free_.back();
      free_.pop_back();
      pending_[static_cast<std::size_t>(slot)] = std::move(gradient);
    }
  }

  void run() {
    State::Times* times = state_.times.get();
    double since = times != nullptr ? detail::seconds_now() : 0;
    const bool keep = state_.options.differentiable;
    for (std::int32_t i = static_cast<std::int32_t>(slots_.size()) - 1; i >= 0; --i) {
      const std::int32_t slot = slots_[static_cast<std::size_t>(i)];
      if (slot >= 0) {
        Tensor dy = std::exchange(pending_[static_cast<std::size_t>(slot)], Tensor());
        free_.push_back(slot);
        visit(i, std::move(dy));
      }
      if (!keep) {
        show_watched_parameter(i);
        consume(i);
      }
      if (times == nullptr || slot < 0) continue;
      const double now = detail::seconds_now();
      if (times->backward.size() < slots_.size()) times->backward.resize(slots_.size());
      times->backward[static_cast<std::size_t>(i)] += now - since;
      times->ended = since = now;
    }
  }

 private:
  using Node = State::Node;

  // No reference into the tape is held across a gradient call: a differentiable tape grows
  // meanwhile.
  void visit(std::int32_t index, Tensor dy) {
    const Node node = state_.nodes[static_cast<std::size_t>(index)];
    if (state_.options.arrival_hook) {
      dy = state_.options.arrival_hook({node.op, index, -1, dy, dy});
      check(node, -1, index, dy);
    }
    if (state_.finite) detail::check_arrival(state_, index, dy, walked_);
    const Walking walking(state_, index);
    if (node.watched) result_.watched[{state_.id, index}] = dy;
    if (node.param_store >= 0) {
      auto& of = result_.of(state_.stores[static_cast<std::size_t>(node.param_store)].store);
      of.recorded.resize(of.reached.size());
      of.recorded[static_cast<std::size_t>(node.param_index)] = dy;
      of.reached[static_cast<std::size_t>(node.param_index)] = 1;
    }
    const Tensor y = node.saved < 0 ? Tensor() : state_.saved[static_cast<std::size_t>(node.saved)];
    int input = 0;
    for (std::int32_t f = 0; f < node.function_count; ++f) {
      const State::Function function =
          state_.functions[static_cast<std::size_t>(node.first_function + f)];
      std::vector<Tensor>& returned = returned_;
      returned.assign(static_cast<std::size_t>(function.edge_count), Tensor());
      {
        const InModule here(node.module, node.call);
        function.closure.call(function.closure.target, y, dy, returned);
      }
      for (std::int32_t e = 0; e < function.edge_count; ++e, ++input) {
        const std::int32_t to = state_.edges[static_cast<std::size_t>(function.first_edge + e)];
        if (to < 0) continue;
        Tensor gradient = std::move(returned[static_cast<std::size_t>(e)]);
        if (state_.options.gradient_hook && gradient.defined()) {
          gradient = state_.options.gradient_hook({node.op, index, input, dy, gradient});
        }
        check(node, input, to, gradient);
        if (state_.finite) detail::check_gradient(state_, index, input, dy, gradient, walked_);
        add(to, std::move(gradient));
      }
    }
    if (state_.finite) walked_.push_back({index, detail::range_of(dy)});
  }

  // The engine, not the op's author, answers for shape and dtype.
  void check(const Node& node, int input, std::int32_t to, const Tensor& gradient) const {
    const Node& target = state_.nodes[static_cast<std::size_t>(to)];
    if (gradient.defined() && gradient.shape() == target.shape && gradient.dtype() == target.dtype)
      return;
    const std::string found = gradient.defined() ? fmt::format("{}{}", name_of(gradient.dtype()),
                                                               to_string(gradient.shape()))
                                                 : "nothing";
    throw TapeError(fmt::format(
        "{}: the gradient function returned {} for input {} ({}), which is {}{}", describe(node),
        found, input, describe(target), name_of(target.dtype), to_string(target.shape)));
  }

  void add_to_flat(const Node& node, const Tensor& gradient) {
    auto& of = result_.of(state_.stores[static_cast<std::size_t>(node.param_store)].store);
    const auto index = static_cast<std::size_t>(node.param_index);
    const std::int64_t offset = of.store->entries[index].offset;
    const bool first = of.reached[index] == 0;
    of.reached[index] = 1;
    detail::with_float("backward", node.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* to = detail::out<T>(of.flat) + offset;
      const T* from = detail::in<T>(gradient);
      detail::parallel_for(gradient.size(), detail::kElementChunk,
                           [&](std::int64_t begin, std::int64_t end) {
                             if (first) {
                               std::copy(from + begin, from + end, to + begin);
                             } else {
                               for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
                             }
                           });
    });
    if (state_.finite && !first) {
      detail::check_arrival(state_,
                            state_.stores[static_cast<std::size_t>(node.param_store)].leaves[index],
                            detail::TensorAccess::view(of.flat, node.shape, offset), walked_);
    }
  }

  // A parameter that was also given to watch(): its gradient is the part of the flat buffer.
  void show_watched_parameter(std::int32_t index) const {
    const Node& node = state_.nodes[static_cast<std::size_t>(index)];
    if (node.param_store < 0 || !node.watched) return;
    const auto& of = result_.of(state_.stores[static_cast<std::size_t>(node.param_store)].store);
    const auto parameter = static_cast<std::size_t>(node.param_index);
    if (of.reached[parameter] == 0) return;
    result_.watched[{state_.id, index}] =
        detail::TensorAccess::view(of.flat, node.shape, of.store->entries[parameter].offset);
  }

  // On a differentiable tape the sum of two gradients is itself an operation with a gradient.
  void sum(Tensor& total, const Tensor& gradient) const {
    if (!state_.options.differentiable) return detail::accumulate(total, gradient);
    total = detail::recorded_sum(total, gradient);
  }

  void consume(std::int32_t index) {
    Node& node = state_.nodes[static_cast<std::size_t>(index)];
    for (std::int32_t f = 0; f < node.function_count; ++f) {
      state_.release(state_.functions[static_cast<std::size_t>(node.first_function + f)]);
    }
    if (node.saved >= 0) state_.saved[static_cast<std::size_t>(node.saved)] = Tensor();
  }

  State& state_;
  Gradients::State& result_;
  std::vector<std::int32_t> slots_;  // per node: where its gradient waits, or -1
  std::vector<Tensor> pending_;
  std::vector<std::int32_t> free_;
  std::vector<Tensor> returned_;
  std::vector<detail::Walked> walked_;  // with check_finite
};

Gradients Tape::backward(std::span<const Tensor> ys, std::span<const Tensor> cotangents) {
  check_start(*state_, ys, cotangents);
  Gradients gradients;
  const Current current(*state_);
  if (state_->times) {
    const double before = detail::seconds_now();
    state_->count_bytes();
    state_->times->begun += detail::seconds_now() - before;  // not the step's own time
  }
  Backward walk(*state_, *gradients.state_);
  if (!state_->options.differentiable) state_->spent = true;
  for (std::size_t i = 0; i < ys.size(); ++i) {
    if (ys[i].tape_id() != 0) walk.add(ys[i].node(), cotangents[i]);
  }
  walk.run();
  return gradients;
}

}  // namespace tapehead

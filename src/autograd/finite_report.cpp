// What stands in the error of a tape that checks for finite numbers.
#include <algorithm>

#include <fmt/format.h>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"

namespace tapehead::detail {
namespace {

using State = Tape::State;

constexpr int kBefore = 5;  // nodes that are listed

std::string kind(DType dtype, const Shape& shape) {
  return fmt::format("{}{}", name_of(dtype), tapehead::to_string(shape));
}

const State::Node& node_of(const State& tape, std::int32_t index) {
  return tape.nodes[static_cast<std::size_t>(index)];
}

// "exp", or "parameter head.weight".
std::string name(const State& tape, std::int32_t index) {
  const State::Node& node = node_of(tape, index);
  if (node.param_store < 0) return node.op;
  const State::Store& seen = tape.stores[static_cast<std::size_t>(node.param_store)];
  return fmt::format("{} {}", node.op,
                     seen.store->entries[static_cast<std::size_t>(node.param_index)].name);
}

// "exp in encoder.ffn (demo.cpp:12)"
std::string title(const State& tape, std::int32_t index) {
  const State::Node& node = node_of(tape, index);
  std::string text = name(tape, index);
  if (node.param_store < 0 && node.module != nullptr && *node.module != '\0')
    text += fmt::format(" in {}", node.module);
  if (node.call.file() != nullptr) text += fmt::format(" ({})", to_string(node.call));
  return text;
}

std::string inputs_text(const State& tape, std::int32_t index) {
  std::string text;
  int number = 0;
  for (const Finite::Input& input : tape.finite->inputs_of(index)) {
    text +=
        fmt::format("\n  input {}: {}, {}: {}", number++, kind(input.dtype, input.shape),
                    input.node < 0 ? std::string("a constant")
                                   : fmt::format("node {}, {}", input.node, name(tape, input.node)),
                    to_string(input.range));
  }
  return text;
}

std::string line(const State& tape, std::int32_t index, const std::string& rest) {
  const State::Node& node = node_of(tape, index);
  return fmt::format("\n    {:>4}  {}, {}: {}", index, title(tape, index),
                     kind(node.dtype, node.shape), rest);
}

std::string before_text(const State& tape, std::int32_t index) {
  if (index == 0) return "";
  std::string text = "\n  recorded before it:";
  for (std::int32_t i = std::max(0, index - kBefore); i < index; ++i)
    text += line(tape, i, to_string(tape.finite->output_of(i)));
  return text;
}

[[noreturn]] void fail_at(const State& tape, std::int32_t index, const std::string& what,
                          const std::string& rest) {
  const State::Node& node = node_of(tape, index);
  throw NonFiniteError(
      fmt::format("{}: {}\n  node {}, {}{}", node.op, what, index, title(tape, index), rest));
}

std::string walked_text(const State& tape, std::span<const Walked> walked) {
  if (walked.empty()) return "";
  std::string text = "\n  walked back before it, with the gradients of their outputs:";
  const std::size_t first = walked.size() > kBefore ? walked.size() - kBefore : 0;
  for (std::size_t i = first; i < walked.size(); ++i)
    text += line(tape, walked[i].node, to_string(walked[i].gradient));
  return text;
}

}  // namespace

void check_output(State& tape, std::int32_t node, int inputs, const Tensor& y,
                  Finite::Allowed allowed) {
  const Range range = range_of(y);
  tape.finite->close(node, inputs, range);
  const Fault fault = output_fault(range, tape.finite->inputs_of(node), allowed);
  if (!fault.any()) return;
  const std::int32_t walking = tape.finite->walking;
  const std::string inside = walking < 0 ? ""
                                         : fmt::format("\n  in the gradient of node {}, {}",
                                                       walking, title(tape, walking));
  fail_at(tape, node,
          fmt::format("{}, in its output {}", describe(fault, y), kind(y.dtype(), y.shape())),
          inside + inputs_text(tape, node) + before_text(tape, node));
}

void check_leaf(State& tape, std::int32_t node, const Tensor& value) {
  const Range range = range_of(value);
  tape.finite->close(node, 0, range);
  const bool parameter = node_of(tape, node).param_store >= 0;
  const Fault fault = gradient_fault(range);
  if (!parameter || !fault.any()) return;
  fail_at(tape, node,
          fmt::format("{}, in its values {}", describe(fault, value),
                      kind(value.dtype(), value.shape())),
          before_text(tape, node));
}

void check_arrival(const State& tape, std::int32_t node, const Tensor& dy,
                   std::span<const Walked> walked) {
  const Fault fault = gradient_fault(range_of(dy));
  if (!fault.any()) return;
  fail_at(tape, node,
          fmt::format("{}, in the gradient of its output {}, summed over all that reached it",
                      describe(fault, dy), kind(dy.dtype(), dy.shape())),
          inputs_text(tape, node) + walked_text(tape, walked));
}

void check_gradient(const State& tape, std::int32_t node, int input, const Tensor& dy,
                    const Tensor& gradient, std::span<const Walked> walked) {
  const Fault fault = gradient_fault(range_of(gradient));
  if (!fault.any()) return;
  fail_at(tape, node,
          fmt::format("{}, in the gradient of its input {}, {}", describe(fault, gradient), input,
                      kind(gradient.dtype(), gradient.shape())),
          inputs_text(tape, node) +
              fmt::format("\n  output: {}\n  gradient of the output: {}",
                          to_string(tape.finite->output_of(node)), to_string(range_of(dy))) +
              walked_text(tape, walked));
}

}  // namespace tapehead::detail

#include <tapehead/record.hpp>

#include <fmt/format.h>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"

namespace tapehead {

// An output that other ops computed counts for its numbers alone: their gradients would be added to
// the one that is given here.
Recorder::Recorder(const char* op, const Tensor& output, CallSite at)
    : op_(op),
      at_(at),
      output_(detail::TensorAccess::placed(output, 0, -1)),
      recording_(recording_tape() != nullptr),
      observed_(recording_ && (recording_tape()->finite || recording_tape()->times)) {}

bool Recorder::begin_input(const Tensor& x) {
  if (observed_ && recording_tape()->finite) see_input(x);
  if (!recording_ || x.tape_id() == 0) return false;
  const Tape::State& tape = *recording_tape();
  if (x.tape_id() != tape.id) {
    detail::fail<TapeError>(
        fmt::format("{}: an input {}{} was recorded on another tape (or one that has ended), so no "
                    "gradient could reach it; "
                    "use detach() to take its numbers as a constant",
                    op_, name_of(x.dtype()), to_string(x.shape())));
  }
  return true;
}

namespace {

// What the hook makes of the output, which must stay of its kind.
Tensor replaced(const Tape::State& tape, const char* op, const Tensor& output) {
  const Tensor plain = detail::TensorAccess::placed(output, 0, -1);
  Tensor y = tape.options.output_hook({op, static_cast<int>(tape.nodes.size()) - 1, plain});
  if (!y.defined() || y.shape() != plain.shape() || y.dtype() != plain.dtype()) {
    detail::fail<TapeError>(fmt::format("{}: the output hook must return a {}{}", op,
                                        name_of(plain.dtype()), to_string(plain.shape())));
  }
  return y;
}

}  // namespace

void Recorder::add_edge(const Tensor& x) {
  Tape::State& tape = *recording_tape();
  if (output_.tape_id() != tape.id ||
      output_.node() + 1 != static_cast<std::int32_t>(tape.nodes.size())) {
    const std::int32_t node = tape.add_node(op_, output_.shape(), output_.dtype(), at_);
    if (tape.options.output_hook) output_ = replaced(tape, op_, output_);
    output_ = detail::TensorAccess::placed(output_, tape.id, node);
  }
  tape.edges.push_back(x.tape_id() == tape.id ? x.node() : -1);
}

void Recorder::add_closure(detail::Closure closure, int edges) {
  Tape::State& tape = *recording_tape();
  Tape::State::Node& node = tape.nodes[static_cast<std::size_t>(output_.node())];
  if (node.function_count++ == 0)
    node.first_function = static_cast<std::int32_t>(tape.functions.size());
  tape.functions.push_back({closure, static_cast<std::int32_t>(tape.edges.size()) - edges, edges});
  if (closure.wants_output && node.saved < 0) {
    node.saved = static_cast<std::int32_t>(tape.saved.size());
    tape.saved.push_back(output_);
  }
}

void Recorder::see_input(const Tensor& x) {
  const Tape::State& tape = *recording_tape();
  tape.finite->open.push_back(
      {x.tape_id() == tape.id ? x.node() : -1, x.shape(), x.dtype(), detail::range_of(x)});
  ++checked_inputs_;
}

void Recorder::finish() {
  Tape::State& tape = *recording_tape();
  const int inputs = std::exchange(checked_inputs_, 0);
  const bool recorded = output_.tape_id() == tape.id;
  if (tape.times && recorded) tape.take_time(output_.node());
  if (!tape.finite) return;
  if (recorded) {
    detail::check_output(tape, output_.node(), inputs, output_, {may_give_, turns_signs_});
  } else {
    tape.finite->open.resize(tape.finite->open.size() - static_cast<std::size_t>(inputs));
  }
}

void* Recorder::allocate(std::size_t bytes, std::size_t alignment) {
  return recording_tape()->arena.allocate(bytes, alignment);
}

void Recorder::check_count(std::size_t returned, std::size_t wanted) {
  if (returned != wanted) {
    detail::fail<TapeError>(
        fmt::format("a gradient function returned {} gradients for {} inputs", returned, wanted));
  }
}

bool recording_differentiable() {
  const Tape::State* tape = recording_tape();
  return tape != nullptr && tape->options.differentiable;
}

bool is_recorded(const Tensor& x) {
  const Tape::State* tape = recording_tape();
  return tape != nullptr && x.tape_id() == tape->id;
}

}  // namespace tapehead

// The tape's insides, shared by tape.cpp, record.cpp and gradients.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <tapehead/tape.hpp>

#include "autograd/arena.hpp"
#include "autograd/finite.hpp"
#include "autograd/param_store.hpp"
#include "core/place.hpp"

namespace tapehead {

struct Tape::State {
  // A gradient function and the edges it serves.
  struct Function {
    detail::Closure closure;
    std::int32_t first_edge;
    std::int32_t edge_count;
  };

  struct Node {
    const char* op;
    const char* module;  // nullptr when unknown
    CallSite call;
    Shape shape;
    DType dtype;
    bool watched;
    std::int32_t first_function;
    std::int32_t function_count;
    std::int32_t saved;        // index of its kept output, or -1
    std::int32_t param_store;  // leaves of parameters: index in `stores`, else -1
    std::int32_t param_index;
  };

  // The parameters of one store as seen by this tape.
  struct Store {
    std::shared_ptr<ParamStore> store;
    std::uint64_t version;             // when the first of them was recorded
    std::vector<std::int32_t> leaves;  // node per parameter, -1 when unused
  };

  std::uint64_t id = 0;
  TapeOptions options;
  bool spent = false;
  std::atomic<bool> ended{false};  // its Tape is gone; perhaps on another thread
  State* outer = nullptr;          // the tape that recorded on this thread before
  const void* thread = nullptr;    // identity of the owning thread
  std::vector<Node> nodes;
  std::vector<Function> functions;
  std::vector<std::int32_t> edges;  // input nodes; -1 for a constant of a joint function
  std::vector<Tensor> saved;        // outputs that a gradient function asked for
  std::vector<Store> stores;
  detail::Arena arena;
  std::unique_ptr<detail::Finite> finite;  // with TapeOptions::check_finite

  // With TapeOptions::profile. Indices are nodes; those past the end took no time.
  struct Times {
    detail::OpClock clock;
    double begun = 0;
    double ended = 0;  // last record, or last backward
    std::vector<double> forward;
    std::vector<double> backward;
    std::vector<std::int64_t> bytes;  // when backward began
  };
  std::unique_ptr<Times> times;

  // `at` counts when no call further out has given its place.
  std::int32_t add_node(const char* op, const Shape& shape, DType dtype, CallSite at);
  // Buffers that the gradients of nodes first..last-1 keep alive, each once, without parameters'.
  [[nodiscard]] std::vector<const detail::Block*> kept(std::size_t first, std::size_t last) const;
  std::int32_t leaf(const std::shared_ptr<ParamStore>& store, int index);
  // Puts the time since the last record in this op call down to the node.
  void take_time(std::int32_t node);
  void count_bytes();                         // what the nodes keep now, into `times`
  void release(Function& function) noexcept;  // destroys the closure once
  void clear() noexcept;                      // back to an empty tape; memory is kept
};

// The tape that records on this thread: the newest one that is alive and not spent.
[[nodiscard]] Tape::State* recording_tape();
// Makes `tape` the newest one of this thread and returns the one before.
Tape::State* exchange_newest(Tape::State* tape);
[[nodiscard]] const void* this_thread();
// Sets the clock of ops to that of the recording tape, if it has one.
void follow_clock();

struct Gradients::State {
  struct OfStore {
    std::shared_ptr<ParamStore> store;
    Tensor flat;                         // [size]; zeros where not reached
    std::vector<unsigned char> reached;  // per parameter
    std::vector<Tensor> recorded;        // per parameter, from a differentiable tape; else empty
  };
  using Key = std::pair<std::uint64_t, std::int32_t>;  // tape, node

  std::vector<OfStore> stores;
  std::map<Key, Tensor> watched;                 // reached ones
  std::map<Key, std::pair<Shape, DType>> asked;  // all watched ones

  OfStore& of(const std::shared_ptr<ParamStore>& store);
  [[nodiscard]] const OfStore* find(const ParamStore* store) const;
};

namespace detail {
// What backward has visited, and the range of the gradient that it found there.
struct Walked {
  std::int32_t node;
  Range gradient;
};
// For tapes with check_finite: NonFiniteError when what is given holds a fault.
void check_output(Tape::State& tape, std::int32_t node, int inputs, const Tensor& y,
                  Finite::Allowed allowed);
void check_leaf(Tape::State& tape, std::int32_t node, const Tensor& value);
void check_arrival(const Tape::State& tape, std::int32_t node, const Tensor& dy,
                   std::span<const Walked> walked);
void check_gradient(const Tape::State& tape, std::int32_t node, int input, const Tensor& dy,
                    const Tensor& gradient, std::span<const Walked> walked);

// x += y, in place when nobody else can see x. Same shape and dtype; not recorded.
void accumulate(Tensor& x, const Tensor& y);
}  // namespace detail

}  // namespace tapehead

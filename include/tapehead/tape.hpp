// Tape: records operations while it lives; walks them back once to give gradients.
//
//   th::Tape tape;                                  // records until the end of this scope
//   th::Tensor loss = th::cross_entropy(model(x), y);
//   th::Gradients gradients = tape.backward(loss);  // by parameter, or by watched tensor
//
// Nothing is recorded while no tape is alive on the thread: inference needs no switch. Only tensors
// that depend on a parameter or on a watched tensor are recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/call_site.hpp>
#include <tapehead/profile.hpp>
#include <tapehead/record.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead {

class Param;
class Params;

// Replaces what an op's gradient function returned, before the engine checks and accumulates it.
// Meant for tests of gradient checkers, which plant faults through it.
struct GradientCall {
  std::string_view op;  // name given to record()
  int node = 0;         // index on the tape
  int input = 0;        // which recorded input of the op
  const Tensor& output_gradient;
  const Tensor& input_gradient;  // what the gradient function returned
};
using GradientHook = std::function<Tensor(const GradientCall&)>;

// Replaces an op's output as it is recorded: whatever uses it later sees the replacement.
struct OutputCall {
  std::string_view op;
  int node = 0;
  const Tensor& output;  // off the tape
};
using OutputHook = std::function<Tensor(const OutputCall&)>;

struct TapeOptions {
  // Backward is itself recorded on the tape, so that gradients can be differentiated again; the
  // tape then keeps everything and backward may be called any number of times.
  bool differentiable = false;
  // The first NaN or infinity throws a NonFiniteError that names the op, its module and line, the
  // ranges of its inputs and the ops before it: in what ops give as they are recorded, in
  // parameters when they are first used, in gradients as they arise. NaN is always a fault, and so
  // is every infinite gradient; +inf is one unless an input of the op had it; -inf is none where an
  // input was infinite or the op may give it (Recorder::may_give). Each number is read once more,
  // and the ranges are kept.
  bool check_finite = false;
  // Time is taken for Tape::profile(): two readings of the clock an op, and one a node in backward.
  bool profile = false;
  GradientHook gradient_hook = nullptr;
  // The same for the sum of all that reached a node, before its gradient functions see it: both
  // gradients of the call are that sum, and `input` is -1.
  GradientHook arrival_hook = nullptr;
  OutputHook output_hook = nullptr;
};

// The gradients that one backward returned, or a sum of several.
class Gradients {
 public:
  Gradients();
  ~Gradients();
  Gradients(const Gradients&);
  Gradients(Gradients&&) noexcept;
  Gradients& operator=(Gradients) noexcept;

  // Gradient by parameter; zeros of its shape when the loss did not depend on it.
  [[nodiscard]] Tensor operator[](const Param& param) const;
  // Gradient by a tensor that was watched on the tape; TapeError for one that was not.
  [[nodiscard]] Tensor operator[](const Tensor& watched) const;
  // Whether backward reached it at all: a parameter that was not reached is not moved by
  // optimisers.
  [[nodiscard]] bool reached(const Param& param) const;
  [[nodiscard]] bool reached(const Tensor& watched) const;

  // All parameter gradients of a store in one flat tensor [size], in the order of Params; 0 where
  // not reached.
  [[nodiscard]] Tensor flat(const Params& params) const;
  // Per parameter of the store, in its order: 1 where reached.
  [[nodiscard]] std::vector<unsigned char> reached_mask(const Params& params) const;

  // Sum, parameter by parameter and tensor by tensor; a parameter reached in either is reached.
  Gradients& operator+=(const Gradients& other);
  Gradients& operator*=(double factor);

  struct State;  // opaque

 private:
  friend class Tape;
  [[nodiscard]] const State& seen() const;  // empty after a move
  State& own();
  std::unique_ptr<State> state_;
};

// What the tape knows of one node.
struct NodeInfo {
  std::string_view op;  // "parameter" and "watched" for leaves
  Shape shape;
  DType dtype = DType::f32;
  std::vector<int> inputs;  // nodes; constants are not listed
  std::string_view module;  // path of the module that recorded it, or ""
  bool keeps_output = false;
  std::string_view name;  // of a parameter, else ""
  const char* file = "";  // of the call, see call_site.hpp; "" when nobody said it
  int line = 0;
};

class Tape {
 public:
  explicit Tape(TapeOptions options = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;
  static void* operator new(std::size_t) = delete;  // a tape is a scope

  // A floating tensor whose gradient is wanted. A constant gets a leaf of its own (use the returned
  // handle); a recorded tensor is marked and returned.
  [[nodiscard]] Tensor watch(const Tensor& x, CallSite at = {});

  // Gradients of a scalar (any tensor of one element), or of the sum of y * cotangent. Consumes the
  // tape unless it is differentiable; a consumed tape is spent and records nothing more.
  [[nodiscard]] Gradients backward(const Tensor& loss);
  [[nodiscard]] Gradients backward(const Tensor& y, const Tensor& cotangent);
  [[nodiscard]] Gradients backward(std::span<const Tensor> ys, std::span<const Tensor> cotangents);

  [[nodiscard]] bool spent() const;
  [[nodiscard]] bool differentiable() const;
  [[nodiscard]] std::uint64_t id() const;
  [[nodiscard]] int size() const;  // number of nodes
  [[nodiscard]] NodeInfo node(int index) const;
  // Bytes of the tensors that the gradient of a node keeps alive, each buffer whole and once; 0
  // once backward has consumed it. Parameters, which live anyway, are left out, and so is what
  // gradient functions hold that are no tensors.
  [[nodiscard]] std::int64_t kept_bytes(int index) const;
  // The same of all nodes together: a buffer that several keep counts once.
  [[nodiscard]] std::int64_t kept_bytes() const;

  // Time and memory so far, of a tape that was opened with TapeOptions::profile. An op's time
  // begins with its OpCall, or where the op that was recorded before it inside of the same call
  // ended; an op without an OpCall counts as outside.
  [[nodiscard]] Profile profile() const;
  // The graph for Graphviz: modules are clusters, edges carry shapes, parameters have their names.
  [[nodiscard]] std::string to_dot() const;

  struct State;  // opaque

 private:
  State* state_;
};

// One line per node: index, op, dtype and shape, inputs, bytes kept for its gradient, module or
// name of the parameter, (file:line of the call); then the bytes kept by all together.
[[nodiscard]] std::string to_string(const Tape& tape);

// The module path that errors and nodes name while this guard lives; modules open one in their
// call.
class InModule {
 public:
  explicit InModule(const char* path);      // the path must outlive the guard: Scope::path() does
  InModule(const char* path, CallSite at);  // also reports what is recorded inside at `at`
  ~InModule();
  InModule(const InModule&) = delete;
  InModule& operator=(const InModule&) = delete;

 private:
  const char* previous_;
  CallSite outer_;
};

}  // namespace tapehead

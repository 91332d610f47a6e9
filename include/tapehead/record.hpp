// record: how an op puts itself on the tape. For authors of ops.
//
//   Tensor square(const Tensor& x) {
//     Tensor y = ...;                                 // forward, on plain numbers
//     return record("square", y).input(x, [x](const Tensor& dy) { return 2.0 * x * dy; });
//   }
//
// A gradient function takes the cotangent dy of the output, or (y, dy) with the recorded output,
// and returns the gradient of its input, of the input's shape and dtype. It is made of public ops,
// so that a differentiable tape can record it. It must not capture the op's own output: captured
// before it was recorded, that handle has no node. An output that other ops computed counts for its
// numbers alone: only what is given here is differentiated. The engine checks and adds what is
// returned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include <tapehead/call_site.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead {

namespace detail {

// A gradient function in the tape's own memory: the object behind `target`, its call and its end.
// `call` fills one gradient per edge of the node; edges that are not wanted may stay undefined.
struct Closure {
  void (*call)(void* target, const Tensor& y, const Tensor& dy, std::span<Tensor> gradients);
  void (*destroy)(void* target);
  void (*copy)(const void* target);  // makes a copy and drops it; nullptr when it cannot be copied
  void* target;
  bool wants_output;
};

}  // namespace detail

// Whether an op recorded now goes to a differentiable tape: fused ops then return their reference
// composition in place of the kernel.
[[nodiscard]] bool recording_differentiable();
// Whether a tape on this thread would record an op on this tensor.
[[nodiscard]] bool is_recorded(const Tensor& x);

class Recorder {
 public:
  Recorder(const char* op, const Tensor& output, CallSite at);  // `op` must be a string literal

  // One input with its own gradient function.
  template <class F>
  Recorder& input(const Tensor& x, F&& gradient) {
    if (begin_input(x)) {
      add_edge(x);
      add_closure(make_single(std::forward<F>(gradient)), 1);
    }
    return *this;
  }

  // Several inputs whose gradients come from one call: `gradient` returns a std::array or vector of
  // Tensor, one per listed input; entries of constants are ignored.
  template <class F>
  Recorder& inputs(std::initializer_list<Tensor> xs, F&& gradient) {
    bool any = false;
    for (const Tensor& x : xs) any = begin_input(x) || any;
    if (any) {
      for (const Tensor& x : xs) add_edge(x);
      add_closure(make_joint(std::forward<F>(gradient)), static_cast<int>(xs.size()));
    }
    return *this;
  }

  // What a tape that checks for finite numbers needs to know of the op: that it may rightly give
  // this infinity out of finite inputs (log: -inf; masked_fill: the value it fills in) ...
  Recorder& may_give(double infinity) {
    may_give_ = infinity;
    return *this;
  }
  // ... and that an infinite input may come out with the other sign, as in -x or a * b.
  Recorder& turns_signs() {
    turns_signs_ = true;
    return *this;
  }

  operator Tensor() {
    if (observed_) finish();
    return std::move(output_);
  }

 private:
  bool begin_input(const Tensor& x);  // true when x is on the current tape; TapeError when stale
  void add_edge(const Tensor& x);
  void see_input(const Tensor& x);
  void finish();  // both for tapes that check or measure what is recorded
  void add_closure(detail::Closure closure, int edges);
  static void* allocate(std::size_t bytes, std::size_t alignment);  // in the current tape's memory

  template <class F>
  static Tensor apply_one(F& f, const Tensor& y, const Tensor& dy) {
    if constexpr (std::is_invocable_v<F&, const Tensor&, const Tensor&>) {
      return f(y, dy);
    } else {
      return f(dy);
    }
  }

  template <class F, bool kJoint>
  static detail::Closure make_closure(F&& gradient) {
    using G = std::decay_t<F>;
    void* memory = allocate(sizeof(G), alignof(G));
    G* target = new (memory) G(std::forward<F>(gradient));
    constexpr bool kWantsOutput = std::is_invocable_v<G&, const Tensor&, const Tensor&>;
    return {[](void* p, const Tensor& y, const Tensor& dy, std::span<Tensor> gradients) {
              G& f = *static_cast<G*>(p);
              if constexpr (!kJoint) {
                gradients[0] = apply_one(f, y, dy);
              } else if constexpr (kWantsOutput) {
                move_all(f(y, dy), gradients);
              } else {
                move_all(f(dy), gradients);
              }
            },
            [](void* p) { static_cast<G*>(p)->~G(); }, copy_of<G>(), target, kWantsOutput};
  }
  template <class G>
  static constexpr auto copy_of() -> void (*)(const void*) {
    if constexpr (std::is_copy_constructible_v<G>) {
      return [](const void* p) { [[maybe_unused]] const G copy(*static_cast<const G*>(p)); };
    } else {
      return nullptr;
    }
  }
  template <class F>
  static detail::Closure make_single(F&& f) {
    return make_closure<F, false>(std::forward<F>(f));
  }
  template <class F>
  static detail::Closure make_joint(F&& f) {
    return make_closure<F, true>(std::forward<F>(f));
  }

  template <class List>
  static void move_all(List&& from, std::span<Tensor> to) {
    check_count(from.size(), to.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::move(from[i]);
  }
  static void check_count(std::size_t returned, std::size_t wanted);

  const char* op_;
  CallSite at_;
  Tensor output_;
  bool recording_;
  bool observed_ = false;
  bool turns_signs_ = false;
  int checked_inputs_ = 0;
  double may_give_ = 0;
};

// The place given by an OpCall or a module counts before that of this line.
[[nodiscard]] inline Recorder record(const char* op, const Tensor& output, CallSite at = {}) {
  return {op, output, at};
}

}  // namespace tapehead

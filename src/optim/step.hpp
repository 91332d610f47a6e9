// What a step of every optimiser has in common: what is refused, what is moved, and the loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <tapehead/optim.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"

namespace tapehead::detail {

// ValueError unless `low` <= value < `high`; NaN is outside of everything.
void check_option(const char* optimiser, const char* name, double value, double low, double high);

struct StepPlan {
  std::vector<ParamRun> runs;  // what moves
  Tensor gradient;             // [size]
};

// Throws unless the step can be done: lr finite and >= 0, a parameter to move, and every gradient
// finite and of magnitude at most `largest`.
[[nodiscard]] StepPlan plan_step(const char* optimiser, const Params& params,
                                 const Gradients& gradients, double lr, double largest);

// The parameter of the first gradient that is NaN or of magnitude above `largest`, -1 if none.
[[nodiscard]] int first_beyond(const Params& params, const Tensor& gradient, double largest);
// "the gradient of head.weight is nan at element 3 of [2, 5]"
[[nodiscard]] std::string describe_beyond(const Params& params, const Tensor& gradient, int index,
                                          double largest);

// The numbers of an optimiser's state, for writing: whoever holds an older handle keeps its values.
template <class T>
T* writable(Tensor& state) {
  if (!TensorAccess::unique(state)) {
    Tensor copy = empty_like(state);
    std::copy_n(in<T>(state), state.size(), out<T>(copy));
    state = std::move(copy);
  }
  return out<T>(state);
}

// kernel(weights, gradient, begin, end, decay) for fixed chunks of everything that moves.
template <class T, class F>
void move_parameters(const char* optimiser, Params& params, const StepPlan& plan, const F& kernel) {
  const T* gradient = in<T>(plan.gradient);
  params.write(optimiser, [&](std::span<T> weights) {
    for (const ParamRun& run : plan.runs) {
      parallel_for(run.end - run.begin, kElementChunk, [&](std::int64_t begin, std::int64_t end) {
        kernel(weights.data(), gradient, run.begin + begin, run.begin + end, run.decay);
      });
    }
  });
}

// ValueError unless `state` is of this kind and holds exactly these tensors, [size] in the dtype of
// the parameters.
void check_state(const OptimiserState& state, const char* kind, const Params& params,
                 std::initializer_list<const char*> names);

}  // namespace tapehead::detail

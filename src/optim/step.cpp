#include "optim/step.hpp"

#include <atomic>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead {
namespace detail {
namespace {

template <class T>
bool within(T x, T largest) {
  return std::abs(x) <= largest;  // false for NaN
}

// Whether any of x[0..count) is NaN or beyond `largest`, in chunks that the threads share.
template <class T>
bool any_beyond(const T* x, std::int64_t count, T largest) {
  std::atomic<bool> found{false};
  parallel_for(count, kElementChunk, [&](std::int64_t begin, std::int64_t end) {
    int bad = 0;
    for (std::int64_t i = begin; i < end; ++i) bad |= within(x[i], largest) ? 0 : 1;
    if (bad != 0) found.store(true, std::memory_order_relaxed);
  });
  return found.load();
}

template <class T>
T as_bound(double largest) {
  return static_cast<T>(std::min(largest, static_cast<double>(std::numeric_limits<T>::max())));
}

}  // namespace

void check_option(const char* optimiser, const char* name, double value, double low, double high) {
  if (value >= low && value < high) return;
  fail<ValueError>(std::isinf(high) ? fmt::format("{}: {} must be finite and >= {}, got {}",
                                                  optimiser, name, low, value)
                                    : fmt::format("{}: {} must be at least {} and below {}, got {}",
                                                  optimiser, name, low, high, value));
}

int first_beyond(const Params& params, const Tensor& gradient, double largest) {
  return with_float("optim", gradient.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* g = in<T>(gradient);
    const T bound = as_bound<T>(largest);
    if (!any_beyond(g, gradient.size(), bound)) return -1;
    for (int i = 0; i < params.count(); ++i) {
      if (any_beyond(g + params.offset(i), params[i].shape().size(), bound)) return i;
    }
    return -1;
  });
}

std::string describe_beyond(const Params& params, const Tensor& gradient, int index,
                            double largest) {
  const Param param = params[index];
  const std::int64_t offset = params.offset(index);
  std::int64_t element = 0;
  while (within(gradient.at_flat(offset + element), largest)) ++element;
  return fmt::format("the gradient of {} is {} at element {} of {}", param.name(),
                     gradient.at_flat(offset + element), element, to_string(param.shape()));
}

StepPlan plan_step(const char* optimiser, const Params& params, const Gradients& gradients,
                   double lr, double largest) {
  check_option(optimiser, "lr", lr, 0, std::numeric_limits<double>::infinity());
  StepPlan plan;
  const std::vector<unsigned char> reached = gradients.reached_mask(params);
  if (std::find(reached.begin(), reached.end(), 1) == reached.end()) {
    fail<TapeError>(fmt::format(
        "{}: none of the {} parameters was reached by backward; the loss must be computed from "
        "the parameters given to this optimiser while the tape is alive",
        optimiser, params.count()));
  }
  plan.runs = params.runs(reached);
  if (plan.runs.empty()) {
    fail<TapeError>(fmt::format("{}: every parameter that backward reached is frozen; unfreeze one",
                                optimiser));
  }
  plan.gradient = gradients.flat(params);
  if (first_beyond(params, plan.gradient, largest) < 0) return plan;
  const double finite = std::numeric_limits<double>::max();
  if (const int bad = first_beyond(params, plan.gradient, finite); bad >= 0) {
    fail<NonFiniteError>(
        fmt::format("{}: {}; nothing was changed, skip the step or lower the learning rate",
                    optimiser, describe_beyond(params, plan.gradient, bad, finite)));
  }
  const int bad = first_beyond(params, plan.gradient, largest);
  fail<NonFiniteError>(fmt::format(
      "{}: {}, and its square overflows {}; nothing was changed, clip the gradients "
      "first",
      optimiser, describe_beyond(params, plan.gradient, bad, largest), name_of(params.dtype())));
}

void check_state(const OptimiserState& state, const char* kind, const Params& params,
                 std::initializer_list<const char*> names) {
  if (state.kind != kind) {
    fail<ValueError>(
        fmt::format("{}: cannot restore the state of the optimiser '{}'", kind, state.kind));
  }
  if (state.steps < 0) fail<ValueError>(fmt::format("{}: {} steps in a state", kind, state.steps));
  if (state.tensors.size() != names.size()) {
    fail<ValueError>(fmt::format("{}: a state with {} tensors where this optimiser has {}", kind,
                                 state.tensors.size(), names.size()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [name, values] = state.tensors[i];
    if (name != names.begin()[i]) {
      fail<ValueError>(fmt::format("{}: a state with the tensor '{}' where '{}' belongs", kind,
                                   name, names.begin()[i]));
    }
    if (values.shape() != Shape{params.size()} || values.dtype() != params.dtype()) {
      fail<ValueError>(fmt::format("{}: {} is {}{}, but the parameters are {}[{}]", kind, name,
                                   name_of(values.dtype()), to_string(values.shape()),
                                   name_of(params.dtype()), params.size()));
    }
  }
}

}  // namespace detail

std::vector<std::string> unreached(const Gradients& gradients, const Params& params) {
  const std::vector<unsigned char> reached = gradients.reached_mask(params);
  std::vector<std::string> names;
  for (int i = 0; i < params.count(); ++i) {
    const Param param = params[i];
    if (reached[static_cast<std::size_t>(i)] == 0 && !param.frozen()) names.push_back(param.name());
  }
  return names;
}

}  // namespace tapehead

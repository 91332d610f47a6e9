// Optimisers, clipping and learning-rate schedules.
//
// An optimiser moves the parameters that backward reached and that are not frozen, and no others:
// neither decay nor momentum touches the rest. A step without a single reached parameter is a
// TapeError, a NaN or infinite gradient a NonFiniteError naming the parameter, both before anything
// changes. Steps count from 1. An optimiser refers to its Params, which must outlive it and stay
// where they are.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tapehead/params.hpp>
#include <tapehead/tape.hpp>

namespace tapehead {

// What an optimiser remembers from step to step, for saving: tensors by value, each one flat in the
// order of Params.
struct OptimiserState {
  std::string kind;  // "sgd" or "adam"
  std::int64_t steps = 0;
  std::vector<std::pair<std::string, Tensor>> tensors = {};
};

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;      // v <- momentum v + g;  w <- w - lr v
  double weight_decay = 0;  // decoupled: w <- w - lr decay w, on Decay::yes parameters
};

class Sgd {
 public:
  explicit Sgd(Params& params, const SgdOptions& options = {});
  void step(const Gradients& gradients) { step(gradients, options_.lr); }
  void step(const Gradients& gradients, double lr);
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] const SgdOptions& options() const { return options_; }

  [[nodiscard]] OptimiserState state() const;  // "velocity", when there is momentum
  void restore(const OptimiserState& state);   // ValueError for another kind, size or dtype

 private:
  Params* params_;
  SgdOptions options_;
  Tensor velocity_;  // [size], dtype of the parameters; undefined without momentum
  std::int64_t steps_ = 0;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;        // added to the bias-corrected root
  double weight_decay = 0;  // decoupled (AdamW), on Decay::yes parameters
  bool decay_all = false;   // on the others, too: PyTorch's AdamW when given one group
};

// m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2;
// w <- w - lr decay w - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps),   t counted from 1.
// Kingma & Ba 2015; decoupled decay: Loshchilov & Hutter 2019.
// t counts the steps of the optimiser, one number for all parameters: one that is first reached
// late starts from zero moments without the full correction.
class Adam {
 public:
  explicit Adam(Params& params, const AdamOptions& options = {});
  void step(const Gradients& gradients) { step(gradients, options_.lr); }
  // NonFiniteError also for a gradient whose square overflows: above 1.8e19 in f32.
  void step(const Gradients& gradients, double lr);
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] const AdamOptions& options() const { return options_; }

  [[nodiscard]] OptimiserState state() const;  // "moment1" and "moment2"
  void restore(const OptimiserState& state);   // ValueError for another kind, size or dtype

 private:
  Params* params_;
  AdamOptions options_;
  Tensor moment1_;  // [size], dtype of the parameters
  Tensor moment2_;
  std::int64_t steps_ = 0;
};

// Adam with the decay on by default.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool decay_all = false;
};
class AdamW : public Adam {
 public:
  explicit AdamW(Params& params, const AdamWOptions& options = {});
};

// Names of the parameters that are not frozen and that backward did not reach: a layer that was
// forgotten in the forward pass. For a warning, once.
[[nodiscard]] std::vector<std::string> unreached(const Gradients& gradients, const Params& params);

// Square root of the sum of all squared parameter gradients, in f64. NonFiniteError naming the
// first parameter with a NaN or infinite gradient.
[[nodiscard]] double global_norm(const Gradients& gradients, const Params& params);
// Scales the gradients so that their global norm is at most `limit` > 0; returns the norm before.
double clip_global_norm(Gradients& gradients, const Params& params, double limit);

// Learning-rate schedules: pure functions of the step, counted from 1, finite for any step >= 0.
// ValueError when total < warmup. Past the total they stay at `end`.
namespace schedule {
[[nodiscard]] double constant(double lr, std::int64_t step);
// lr * min(1, step / warmup); no warm-up when warmup is 0.
[[nodiscard]] double warmup(double lr, std::int64_t step, std::int64_t warmup);
// Linear warm-up times a half cosine from lr at step 0 to `end` at step total.
[[nodiscard]] double cosine(double lr, std::int64_t step, std::int64_t warmup, std::int64_t total,
                            double end = 0);
// Linear warm-up, then a straight line to `end` at step total.
[[nodiscard]] double linear(double lr, std::int64_t step, std::int64_t warmup, std::int64_t total,
                            double end = 0);
// factor * width^-1/2 * min(step^-1/2, step * warmup^-3/2).  Vaswani et al. 2017.
[[nodiscard]] double noam(double factor, std::int64_t step, std::int64_t width,
                          std::int64_t warmup);
}  // namespace schedule

}  // namespace tapehead

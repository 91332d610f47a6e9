#include <tapehead/train.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>

#include "core/access.hpp"
#include "core/message.hpp"
#include "io/hash.hpp"
#include "train/norms.hpp"

namespace tapehead {

using detail::fail;

namespace {

void check_sequences(const char* split, const Sequences& data) {
  detail::check_dtype("fit", data.inputs, DType::i64, fmt::format("{} inputs", split));
  if (data.block > 0) return;
  detail::check_dtype("fit", data.targets, DType::i64, fmt::format("{} targets", split));
  if (data.inputs.rank() != 2 || data.targets.rank() != 2 ||
      data.inputs.dim(0) != data.targets.dim(0)) {
    fail<ShapeError>(
        fmt::format("fit: {} inputs and targets must both be [sequences, time], but are {} and {}",
                    split, to_string(data.inputs.shape()), to_string(data.targets.shape())));
  }
}

std::int64_t counted(const Tensor& targets) {
  const auto ids = targets.data<std::int64_t>();
  return static_cast<std::int64_t>(ids.size()) - std::count(ids.begin(), ids.end(), kIgnored);
}

// "the gradient of head.output.weight", the first in the order of Params with a NaN or infinity in
// its value or else its gradient; "" when all are finite.
std::string first_non_finite(const Params& params, const Gradients& gradients) {
  const auto finite = [](const Tensor& x) {
    return detail::with_float("fit", x.dtype(), [&](auto zero) {
      const auto* values = detail::in<decltype(zero)>(x);
      return std::all_of(values, values + x.size(), [](auto v) { return std::isfinite(v); });
    });
  };
  for (const Param& param : params.all()) {
    if (!finite(param.value())) return fmt::format("the value of {}", param.name());
  }
  for (const Param& param : params.all()) {
    if (!finite(gradients[param])) return fmt::format("the gradient of {}", param.name());
  }
  return "";
}

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Adds the time of its life to the profile, if there is one.
class Timed {
 public:
  Timed(Profile* profile, const char* what) : profile_(profile), what_(what) {}
  ~Timed() {
    if (profile_ == nullptr) return;
    ProfileEntry& entry = profile_->at(what_, "fit");
    ++entry.calls;
    entry.forward += watch_.seconds();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Profile* profile_;
  const char* what_;
  Stopwatch watch_;
};

// One run: what the steps share.
class Run {
 public:
  Run(Params& params, const SequenceModel& model, const Dataset& data, const FitOptions& options,
      const FitCallbacks& callbacks, const FitState* resume)
      : params_(params),
        model_(model),
        data_(data),
        options_(options),
        callbacks_(callbacks),
        steps_(step_count(options, data.train.count())),
        per_epoch_(steps_per_epoch(options, data.train.count())),
        adam_(params, {.lr = options.lr,
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay,
                       .decay_all = options.decay_all}),
        dropout_(options.seed, Stream::dropout) {
    if (resume == nullptr) return;
    state_ = *resume;
    adam_.restore(state_.optimiser);
    dropout_.seek(state_.dropout);
    earlier_seconds_ = state_.seconds;
  }

  FitResult train() {
    while (state_.step < steps_ && !result_.stopped && !result_.early) train_step();
    if (callbacks_.checkpoint) callbacks_.checkpoint(state());
    if (!result_.stopped && data_.test.defined()) result_.test = evaluated(data_.test);
    result_.steps = state_.step;
    result_.loss = state_.losses.empty() ? 0 : state_.losses.back();
    result_.best = state_.best;
    result_.best_step = state_.best_step;
    result_.seconds = seconds();
    result_.fingerprint = fingerprint(state_.losses, params_);
    result_.losses = std::move(state_.losses);
    return std::move(result_);
  }

 private:
  [[nodiscard]] Evaluation evaluated(const Sequences& split) const {
    const Timed timed(options_.profile, "evaluation");
    return evaluate(model_, split);
  }

  [[nodiscard]] double seconds() const { return earlier_seconds_ + watch_.seconds(); }

  [[nodiscard]] const FitState& state() {
    state_.seconds = seconds();
    state_.dropout = dropout_.counter();
    state_.optimiser = adam_.state();
    return state_;
  }

  // Batch number `part` of the step that is being taken; nothing behind the end of the epoch.
  [[nodiscard]] std::optional<Batch> batch_of(std::int64_t step, std::int64_t part) {
    const Timed timed(options_.profile, "batches");
    const std::int64_t epoch = (step - 1) / per_epoch_ + 1;
    if (epoch != order_epoch_) {
      order_ = epoch_order(options_.seed, epoch, data_.train, options_.batch);
      order_epoch_ = epoch;
    }
    const std::int64_t begin =
        ((step - 1) % per_epoch_ * options_.accumulate + part) * options_.batch;
    const std::int64_t count = std::min(options_.batch, std::ssize(order_) - begin);
    if (count <= 0) return std::nullopt;
    return data_.train.take(std::span(order_).subspan(static_cast<std::size_t>(begin),
                                                      static_cast<std::size_t>(count)));
  }

  struct Taken {
    double loss = 0;
    double norm = 0;
    Tensor logits;
    Tensor targets;
    std::int64_t tokens = 0;
  };

  // Forward and backward of all batches of a step: the mean over all targets that count, which is
  // not the mean of the batches' means.
  Taken gradients_of(std::int64_t step, Gradients& gradients) {
    Taken taken;
    std::vector<Batch> batches;
    for (std::int64_t part = 0; part < options_.accumulate; ++part) {
      std::optional<Batch> batch = batch_of(step, part);
      if (!batch) break;
      taken.tokens += counted(batch->targets);
      batches.push_back(std::move(*batch));
    }
    TapeOptions tape_options;
    tape_options.check_finite = options_.check_finite;
    tape_options.profile = options_.profile != nullptr;
    const CrossEntropyOptions loss_options{.ignore = kIgnored,
                                           .label_smoothing = options_.label_smoothing};
    for (std::size_t part = 0; part < batches.size(); ++part) {
      const Batch& batch = batches[part];
      Tape tape(tape_options);
      taken.logits = model_(batch, &dropout_);
      taken.targets = batch.targets;
      const double share = static_cast<double>(counted(batch.targets)) /
                           static_cast<double>(std::max<std::int64_t>(taken.tokens, 1));
      const Tensor mean = cross_entropy(taken.logits, batch.targets, loss_options);
      if (batches.size() == 1) {
        taken.loss = mean.item();
        gradients = tape.backward(mean);
      } else {
        const Tensor part_of_mean = mean * share;
        taken.loss += part_of_mean.item();
        gradients += tape.backward(part_of_mean);
      }
      if (options_.profile != nullptr) *options_.profile += tape.profile();
    }
    return taken;
  }

  void train_step() {
    const std::int64_t step = state_.step + 1;
    double lr = 0;
    const bool due = options_.evaluate_every > 0
                         ? step % options_.evaluate_every == 0 || step == steps_
                         : step % per_epoch_ == 0 || step == steps_;
    Taken taken;
    std::vector<ParamNorms> norms;
    {
      Gradients gradients;
      try {
        taken = gradients_of(step, gradients);
      } catch (const NonFiniteError& error) {
        throw NonFiniteError(fmt::format("fit: step {}: {}", step, error.what()));
      }
      if (!std::isfinite(taken.loss)) fail_non_finite(step, taken.loss, gradients);
      std::optional<detail::StepNorms> watched;
      if (due && data_.validation.defined() && callbacks_.step) watched.emplace(params_, gradients);
      const Timed timed(options_.profile, "optimiser");
      try {
        taken.norm = std::isinf(options_.clip)
                         ? global_norm(gradients, params_)
                         : clip_global_norm(gradients, params_, options_.clip);
      } catch (const NonFiniteError&) {
        fail_non_finite(step, taken.loss, gradients);
      }
      lr = learning_rate(options_, step, steps_, state_.tokens + taken.tokens);
      adam_.step(gradients, lr);
      if (watched) norms = watched->after(params_);
    }

    state_.step = step;
    state_.losses.push_back(taken.loss);
    state_.tokens += taken.tokens;
    const double now = seconds();
    result_.stopped = step < steps_ && options_.stop != nullptr && options_.stop->load() != 0;
    const bool validate = due && !result_.stopped && data_.validation.defined();
    bool best = false;
    if (validate) best = note(evaluated(data_.validation), step);
    if (options_.minutes > 0 && now >= 60 * options_.minutes && step < steps_) result_.early = true;
    if (callbacks_.step) {
      callbacks_.step(
          {step, steps_, (step - 1) / per_epoch_ + 1, taken.loss, lr, taken.norm, state_.tokens,
           now, taken.logits, taken.targets, validate ? &result_.validation.back() : nullptr, best,
           validate ? std::span<const ParamNorms>(norms) : std::span<const ParamNorms>()});
    }
    if (validate && callbacks_.checkpoint && step < steps_) callbacks_.checkpoint(state());
  }

  // Whether it is the best so far.
  bool note(const Evaluation& validation, std::int64_t step) {
    result_.validation.push_back(validation);
    if (validation.loss < state_.best) {
      state_.best = validation.loss;
      state_.best_step = step;
      state_.since_best = 0;
      return true;
    }
    ++state_.since_best;
    if (options_.patience > 0 && state_.since_best >= options_.patience) result_.early = true;
    return false;
  }

  [[noreturn]] void fail_non_finite(std::int64_t step, double loss,
                                    const Gradients& gradients) const {
    const std::string culprit = first_non_finite(params_, gradients);
    fail<NonFiniteError>(fmt::format(
        "fit: step {} stopped the run: the loss is {}, and the first parameter that is not finite "
        "is {}; no weight was changed by this step. Try a smaller lr or clip{}",
        step, loss, culprit.empty() ? "none of them" : culprit,
        options_.check_finite ? ""
                              : "; to see the op, module and line it comes from, run again with "
                                "FitOptions::check_finite (tapehead train --check-finite)"));
  }

  Params& params_;
  const SequenceModel& model_;
  const Dataset& data_;
  const FitOptions& options_;
  const FitCallbacks& callbacks_;
  std::int64_t steps_;
  std::int64_t per_epoch_;  // steps
  Adam adam_;
  Rng dropout_;
  Stopwatch watch_;
  double earlier_seconds_ = 0;
  FitState state_;
  std::vector<std::int64_t> order_;
  std::int64_t order_epoch_ = 0;
  FitResult result_;
};

}  // namespace

FitResult fit(Params& params, const SequenceModel& model, const Dataset& data,
              const FitOptions& options, const FitCallbacks& callbacks, const FitState* resume) {
  check_sequences("training", data.train);
  if (data.validation.inputs.defined()) check_sequences("validation", data.validation);
  if (data.test.inputs.defined()) check_sequences("test", data.test);
  const std::int64_t steps = step_count(options, data.train.count());
  if (resume != nullptr && resume->step > steps) {
    fail<ValueError>(
        fmt::format("fit: the state is of step {}, and the run has {} steps", resume->step, steps));
  }
  // Without a number of its own, a run keeps what the caller set for this thread.
  std::optional<UseThreads> threads;
  if (options.threads != 0) threads.emplace(options.threads);
  return Run(params, model, data, options, callbacks, resume).train();
}

std::uint64_t fingerprint(const std::vector<double>& losses, const Params& params) {
  detail::Fnv1a hash;
  hash.add(std::span(losses));
  const Tensor weights = params.flat();
  detail::with_float("fingerprint", weights.dtype(),
                     [&](auto zero) { hash.add(weights.data<decltype(zero)>()); });
  return hash.value();
}

}  // namespace tapehead

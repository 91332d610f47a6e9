#include <tapehead/train.hpp>

#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>

#include "core/access.hpp"
#include "core/message.hpp"
#include "io/hash.hpp"

namespace tapehead {

using detail::fail;

namespace {

void check_between(const char* option, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    fail<ValueError>(fmt::format("fit: {} must be {}..{}, got {}", option, low, high, value));
  }
}

void check_at_least(const char* option, std::int64_t value, std::int64_t low) {
  if (value < low) {
    fail<ValueError>(fmt::format("fit: {} must be at least {}, got {}", option, low, value));
  }
}

void check_sequences(const char* split, const Sequences& data) {
  detail::check_dtype("fit", data.inputs, DType::i64, fmt::format("{} inputs", split));
  detail::check_dtype("fit", data.targets, DType::i64, fmt::format("{} targets", split));
  if (data.inputs.rank() != 2 || data.inputs.shape() != data.targets.shape()) {
    fail<ShapeError>(
        fmt::format("fit: {} inputs and targets must both be [sequences, time], but are {} and {}",
                    split, to_string(data.inputs.shape()), to_string(data.targets.shape())));
  }
}

// The rows `order[begin..begin+count)` of [sequences, time] as a tensor of their own.
Tensor take_rows(const Tensor& rows, std::span<const std::int64_t> order) {
  const std::int64_t length = rows.dim(1);
  Tensor batch = detail::empty({static_cast<std::int64_t>(order.size()), length}, DType::i64);
  std::int64_t* out = detail::out<std::int64_t>(batch);
  for (const std::int64_t row : order) {
    out = std::copy_n(detail::in<std::int64_t>(rows) + row * length, length, out);
  }
  return batch;
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

// One run: what the steps share.
class Run {
 public:
  Run(Params& params, const SequenceModel& model, const Dataset& data, const FitOptions& options,
      const FitCallbacks& callbacks)
      : params_(params),
        model_(model),
        data_(data),
        options_(options),
        callbacks_(callbacks),
        steps_(step_count(options, data.train.count())),
        adam_(params, {.lr = options.lr,
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay}),
        dropout_(options.seed, Stream::dropout) {}

  FitResult train() {
    for (std::int64_t epoch = 1; epoch <= options_.epochs && !result_.stopped; ++epoch) {
      train_epoch(epoch);
    }
    if (!result_.stopped && data_.test.inputs.defined())
      result_.test = evaluate(model_, data_.test);
    result_.seconds = watch_.seconds();
    result_.fingerprint = fingerprint(result_.losses, params_);
    return std::move(result_);
  }

 private:
  void train_epoch(std::int64_t epoch) {
    const std::vector<std::int64_t> order = epoch_order(options_.seed, epoch, data_.train.count());
    const auto batch = static_cast<std::size_t>(options_.batch);
    for (std::size_t begin = 0; begin + batch <= order.size() && !result_.stopped; begin += batch) {
      const bool last = begin + 2 * batch > order.size();
      train_step(epoch, std::span(order).subspan(begin, batch), last);
    }
  }

  void train_step(std::int64_t epoch, std::span<const std::int64_t> rows, bool last_of_epoch) {
    const Tensor ids = take_rows(data_.train.inputs, rows);
    const Tensor targets = take_rows(data_.train.targets, rows);
    const std::int64_t step = result_.steps + 1;
    const double lr = learning_rate(options_, step, steps_);

    Tensor logits;
    double loss = 0;
    double norm = 0;
    {
      Tape tape;
      logits = model_(ids, &dropout_);
      const Tensor mean = cross_entropy(logits, targets);
      loss = mean.item();
      Gradients gradients = tape.backward(mean);
      const std::string culprit = std::isfinite(loss) ? "" : first_non_finite(params_, gradients);
      if (!std::isfinite(loss)) fail_non_finite(step, loss, culprit);
      try {
        norm = clip_global_norm(gradients, params_, options_.clip);
      } catch (const NonFiniteError&) {
        fail_non_finite(step, loss, first_non_finite(params_, gradients));
      }
      adam_.step(gradients, lr);
    }

    result_.steps = step;
    result_.loss = loss;
    result_.losses.push_back(loss);
    tokens_ += targets.size();
    const double seconds = watch_.seconds();
    result_.stopped = step < steps_ && options_.stop != nullptr && options_.stop->load() != 0;
    const bool validate = last_of_epoch && !result_.stopped && data_.validation.inputs.defined();
    if (validate) result_.validation.push_back(evaluate(model_, data_.validation));
    if (callbacks_.step) {
      callbacks_.step({step, steps_, epoch, loss, lr, norm, tokens_, seconds, logits, targets,
                       validate ? &result_.validation.back() : nullptr});
    }
  }

  [[noreturn]] static void fail_non_finite(std::int64_t step, double loss,
                                           const std::string& culprit) {
    fail<NonFiniteError>(fmt::format(
        "fit: step {} stopped the run: the loss is {}, and the first parameter that is not finite "
        "is {}; no weight was changed by this step. Try a smaller lr or clip",
        step, loss, culprit.empty() ? "none of them" : culprit));
  }

  Params& params_;
  const SequenceModel& model_;
  const Dataset& data_;
  const FitOptions& options_;
  const FitCallbacks& callbacks_;
  std::int64_t steps_;
  Adam adam_;
  Rng dropout_;
  Stopwatch watch_;
  std::int64_t tokens_ = 0;
  FitResult result_;
};

}  // namespace

std::int64_t step_count(const FitOptions& options, std::int64_t sequences) {
  check_at_least("epochs", options.epochs, 1);
  check_at_least("batch", options.batch, 1);
  check_at_least("warmup", options.warmup, 0);
  check_between("threads", options.threads, 0, 1024);
  check_between("lr", options.lr, 0, std::numeric_limits<double>::max());
  check_between("eps", options.eps, 0, std::numeric_limits<double>::max());
  check_between("weight_decay", options.weight_decay, 0, std::numeric_limits<double>::max());
  check_between("beta1", options.beta1, 0, 1);
  check_between("beta2", options.beta2, 0, 1);
  if (!(options.clip > 0)) {
    fail<ValueError>(fmt::format("fit: clip must be above 0, got {}", options.clip));
  }
  if (sequences < options.batch) {
    fail<ValueError>(fmt::format(
        "fit: a batch of {} needs at least as many training sequences, but there are {}",
        options.batch, sequences));
  }
  const std::int64_t per_epoch = sequences / options.batch;
  if (options.epochs > std::numeric_limits<std::int64_t>::max() / per_epoch) {
    fail<ValueError>(fmt::format("fit: {} epochs are too many", options.epochs));
  }
  const std::int64_t steps = options.epochs * per_epoch;
  if (options.warmup > steps) {
    fail<ValueError>(fmt::format(
        "fit: a warm-up of {} steps is longer than the run of {}; use a warmup of at most {}",
        options.warmup, steps, steps));
  }
  return steps;
}

double learning_rate(const FitOptions& options, std::int64_t step, std::int64_t steps) {
  return schedule::cosine(options.lr, step, options.warmup, steps);
}

std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Rng(seed, Stream::shuffle, static_cast<std::uint64_t>(epoch)).shuffle(std::span(order));
  return order;
}

FitResult fit(Params& params, const SequenceModel& model, const Dataset& data,
              const FitOptions& options, const FitCallbacks& callbacks) {
  check_sequences("training", data.train);
  if (data.validation.inputs.defined()) check_sequences("validation", data.validation);
  if (data.test.inputs.defined()) check_sequences("test", data.test);
  (void)step_count(options, data.train.count());
  // Without a number of its own, a run keeps what the caller set for this thread.
  std::optional<UseThreads> threads;
  if (options.threads != 0) threads.emplace(options.threads);
  return Run(params, model, data, options, callbacks).train();
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

// Training: one fit function, what it reports while it runs, and the state it can go on from.
//
//   th::Task task = th::make_task("reverse");
//   th::Dataset data = th::draw(task, {}, seed);
//   th::Params params(seed);
//   th::EncoderModel model(params, {.symbols = task.symbols, .classes = task.classes});
//   th::FitResult result = th::fit(
//       params, [&](const th::Batch& batch, th::Rng* rng) { return model(batch.inputs, {}, rng); },
//       data, {.seed = seed});
//
// A run is a pure function of its options and data: the same losses and weights, bit for bit, on
// any number of threads, and whether it was stopped and resumed or not.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tapehead/models.hpp>
#include <tapehead/optim.hpp>
#include <tapehead/params.hpp>
#include <tapehead/profile.hpp>
#include <tapehead/tasks.hpp>

namespace tapehead {

// A batch -> logits [B,U,V] for targets [B,U]. The stream is for dropout in training; evaluation
// passes nullptr.
using SequenceModel = std::function<Tensor(const Batch& batch, Rng* dropout)>;

// How the learning rate moves behind the linear warm-up, from `lr` to `lr_end` at the last step.
enum class Schedule {
  cosine,
  linear,
  constant,
  inverse_sqrt,  // lr sqrt(warmup / step): Vaswani et al. 2017, with the peak at the warm-up's end
};

// The defaults are the published setup of the task `reverse`.
struct FitOptions {
  std::uint64_t seed = 0;       // of shuffling and dropout
  std::int64_t epochs = 10;     // passes over the training sequences
  std::int64_t steps = 0;       // above 0: so many, whatever `epochs` says
  std::int64_t batch = 128;     // sequences in a step
  bool keep_last = false;       // an epoch's left over ones make a smaller batch; else dropped
  std::int64_t accumulate = 1;  // batches in a step, weighed by their targets
  double lr = 5e-4;             // peak learning rate
  double lr_end = 0;            // of cosine and linear
  Schedule schedule = Schedule::cosine;
  std::int64_t warmup = 50;  // steps of linear warm-up, at most the steps of the run, or any number
                             // where the schedule is inverse_sqrt
  std::int64_t warmup_tokens = 0;  // and so many targets, this step's included
  double beta1 = 0.9;              // Adam
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;          // decoupled, on matrices
  bool decay_all = false;           // and on biases and gains
  double clip = 5;                  // limit of the gradient's global norm; infinity: none
  double label_smoothing = 0;       // in [0, 1), in training
  std::int64_t evaluate_every = 0;  // steps between evaluations; 0: after each epoch
  std::int64_t patience = 0;        // above 0: evaluations without a better loss before the end
  double minutes = 0;               // above 0: time budget
  int threads = 0;                  // 0: threads()
  // The first NaN or infinity stops the run with the op, module and line it comes from: see
  // TapeOptions. The same bits, in about a seventh more time.
  bool check_finite = false;
  // Where the time of all steps goes is added here: ops and modules, and, as module "fit", what is
  // done beside them. nullptr: no clock is read.
  Profile* profile = nullptr;
  // Looked at after each step: once it is not 0, the step is finished, and fit returns.
  const std::atomic<int>* stop = nullptr;
};

// Counts over a whole split.
struct Evaluation {
  double loss = 0;  // mean cross entropy over all tokens that count, in nats
  std::int64_t tokens = 0;
  std::int64_t tokens_right = 0;
  std::int64_t sequences = 0;
  std::int64_t sequences_right = 0;  // every token of it right
  [[nodiscard]] double accuracy() const {
    return static_cast<double>(tokens_right) / static_cast<double>(tokens);
  }
  [[nodiscard]] double exact() const {
    return static_cast<double>(sequences_right) / static_cast<double>(sequences);
  }
  // Half of a 95% interval by the normal approximation to the binomial: 1.96 sqrt(p (1 - p) / n).
  [[nodiscard]] double accuracy_interval() const;
  [[nodiscard]] double exact_interval() const;
  [[nodiscard]] double perplexity() const;  // exp(loss)
  [[nodiscard]] double bits() const;        // a token: loss / ln 2
};

// Euclidean norms of one parameter around a step.
struct ParamNorms {
  double gradient = 0;  // before clipping
  double weight = 0;    // after the step
  double update = 0;    // of what the step changed
};

// What fit tells after each step. The references live until the callback returns.
struct StepReport {
  std::int64_t step = 0;  // 1..steps
  std::int64_t steps = 0;
  std::int64_t epoch = 0;  // from 1
  double loss = 0;         // of this step's batch, before the step
  double lr = 0;
  double grad_norm = 0;                    // global norm before clipping
  std::int64_t tokens = 0;                 // targets trained on so far, this step's included
  double seconds = 0;                      // since fit began
  const Tensor& logits;                    // [B,U,V] of this step's last batch
  const Tensor& targets;                   // [B,U]
  const Evaluation* validation = nullptr;  // after some steps: see evaluate_every
  bool best = false;                       // its loss is the lowest so far
  // With an evaluation: one for each parameter, in the order of Params.
  std::span<const ParamNorms> norms = {};
};

// Everything that a run needs to go on after `step`, beside the weights.
struct FitState {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  double seconds = 0;
  std::uint64_t dropout = 0;   // counter of the dropout stream
  std::vector<double> losses;  // one a step
  OptimiserState optimiser;
  double best = std::numeric_limits<double>::infinity();  // lowest validation loss
  std::int64_t best_step = 0;
  std::int64_t since_best = 0;  // evaluations
};

struct FitCallbacks {
  std::function<void(const StepReport& report)> step = nullptr;
  // After each evaluation, and after the last step or a stop.
  std::function<void(const FitState& state)> checkpoint = nullptr;
};

struct FitResult {
  std::int64_t steps = 0;              // taken, earlier ones of a resumed run included
  bool stopped = false;                // by FitOptions::stop, before the last step
  bool early = false;                  // by patience or minutes
  double seconds = 0;                  // training and validation
  double loss = 0;                     // of the last step
  std::vector<double> losses;          // one a step
  std::vector<Evaluation> validation;  // of this call
  double best = 0;                     // lowest validation loss, of step best_step
  std::int64_t best_step = 0;          // 0: never evaluated
  std::optional<Evaluation> test;      // not when stopped
  // 64-bit FNV-1a over the bits of every step's loss (as f64) and then of the final weights.
  std::uint64_t fingerprint = 0;
};

// Whole steps in one pass over `sequences`, for options that step_count accepts.
[[nodiscard]] std::int64_t steps_per_epoch(const FitOptions& options, std::int64_t sequences);
// Steps in a run over `sequences` training sequences. ValueError for options outside their ranges:
// everything that fit itself would refuse, so that it can be known before a run begins.
[[nodiscard]] std::int64_t step_count(const FitOptions& options, std::int64_t sequences);

// A warm-up that is longer than the run becomes all of it.
void shorten_warmup(FitOptions& options, std::int64_t sequences);

// The learning rate of a step counted from 1: by default schedule::cosine over the run with the
// linear warm-up, lr/2 (1 + cos(pi step / steps)) min(1, step / warmup).  The published setup of
// `reverse` counts from 0, so its first step has lr 0; ours has it at the last. `tokens`: targets
// trained on, this step's included, for warmup_tokens.
[[nodiscard]] double learning_rate(const FitOptions& options, std::int64_t step, std::int64_t steps,
                                   std::int64_t tokens = std::numeric_limits<std::int64_t>::max());

// The order in which epoch 1, 2, ... visits 0..count-1: a pure function of seed and epoch.
[[nodiscard]] std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch,
                                                    std::int64_t count);
// The same for a split whose sequences differ in length: those of one batch are of like length.
[[nodiscard]] std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch,
                                                    const Sequences& data, std::int64_t batch);

// Trains with cross entropy over all positions that count, evaluates the validation split after
// every epoch and the test split at the end; either may be left out (undefined tensors). With a
// state, and the weights of its step in `params`, it goes on from there. NonFiniteError naming the
// step and the first parameter whose gradient (or value) is NaN or infinite; the weights are then
// those after the step before.
FitResult fit(Params& params, const SequenceModel& model, const Dataset& data,
              const FitOptions& options = {}, const FitCallbacks& callbacks = {},
              const FitState* resume = nullptr);

// Every sequence of the split, `batch` at a time.
[[nodiscard]] Evaluation evaluate(const SequenceModel& model, const Sequences& data,
                                  std::int64_t batch = 256);
// Tokens right, sequences right, of targets that count; the loss is left 0. logits [B,U,V], targets
// [B,U].
[[nodiscard]] Evaluation count_right(const Tensor& logits, const Tensor& targets);

[[nodiscard]] std::uint64_t fingerprint(const std::vector<double>& losses, const Params& params);

}  // namespace tapehead

// Training: one fit function, what it reports while it runs, and the folder a run leaves behind.
//
//   th::Task task = th::make_task("reverse");
//   th::Dataset data = th::draw(task, {}, seed);
//   th::Params params(seed);
//   th::EncoderModel model(params, {.symbols = task.symbols, .classes = task.classes});
//   th::FitResult result = th::fit(
//       params, [&](const th::Tensor& ids, th::Rng* rng) { return model(ids, {}, rng); }, data,
//       {.seed = seed});
//
// A run is a pure function of its options and data: the same losses and weights, bit for bit, on
// any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/models.hpp>
#include <tapehead/optim.hpp>
#include <tapehead/params.hpp>
#include <tapehead/tasks.hpp>

namespace tapehead {

// ids [B,T] -> logits [B,T,V]. The stream is for dropout in training; evaluation passes nullptr.
using SequenceModel = std::function<Tensor(const Tensor& ids, Rng* dropout)>;

// The defaults are the published setup of the task `reverse`.
struct FitOptions {
  std::uint64_t seed = 0;    // of shuffling and dropout
  std::int64_t epochs = 10;  // passes over the training sequences
  std::int64_t batch = 128;  // sequences in a step; what is left over at an epoch's end is dropped
  double lr = 5e-4;          // peak learning rate
  std::int64_t warmup = 50;  // steps of linear warm-up, at most the steps of the run
  double beta1 = 0.9;        // Adam
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // decoupled, on matrices only
  double clip = 5;          // limit of the gradient's global norm
  int threads = 0;          // 0: threads()
  // Looked at after each step: once it is not 0, the step is finished, and fit returns.
  const std::atomic<int>* stop = nullptr;
};

// Counts over a whole split.
struct Evaluation {
  double loss = 0;  // mean cross entropy over all tokens, in nats
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
};

// What fit tells after each step. The references live until the callback returns.
struct StepReport {
  std::int64_t step = 0;  // 1..steps
  std::int64_t steps = 0;
  std::int64_t epoch = 0;  // 1..epochs
  double loss = 0;         // of this step's batch, before the step
  double lr = 0;
  double grad_norm = 0;                    // global norm before clipping
  std::int64_t tokens = 0;                 // targets trained on so far, this step's included
  double seconds = 0;                      // since fit began
  const Tensor& logits;                    // [B,T,V] of this step
  const Tensor& targets;                   // [B,T]
  const Evaluation* validation = nullptr;  // after the last step of an epoch
};

struct FitCallbacks {
  std::function<void(const StepReport& report)> step = nullptr;
};

struct FitResult {
  std::int64_t steps = 0;              // taken
  bool stopped = false;                // by FitOptions::stop, before the last step
  double seconds = 0;                  // training and validation
  double loss = 0;                     // of the last step
  std::vector<double> losses;          // one a step
  std::vector<Evaluation> validation;  // one an epoch
  std::optional<Evaluation> test;      // not when stopped
  // 64-bit FNV-1a over the bits of every step's loss (as f64) and then of the final weights.
  std::uint64_t fingerprint = 0;
};

// Steps in a run over `sequences` training sequences. ValueError for options outside their ranges:
// everything that fit itself would refuse, so that it can be known before a run begins.
[[nodiscard]] std::int64_t step_count(const FitOptions& options, std::int64_t sequences);

// The learning rate of a step counted from 1: schedule::cosine over the run with the linear
// warm-up, lr/2 (1 + cos(pi step / steps)) min(1, step / warmup).  The published setup counts from
// 0, so its first step has lr 0; ours has it at the last.
[[nodiscard]] double learning_rate(const FitOptions& options, std::int64_t step,
                                   std::int64_t steps);

// The order in which epoch 1, 2, ... visits 0..count-1: a pure function of seed and epoch.
[[nodiscard]] std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch,
                                                    std::int64_t count);

// Trains with cross entropy over all positions, evaluates the validation split after every epoch
// and the test split at the end; either may be left out (undefined tensors). NonFiniteError naming
// the step and the first parameter whose gradient (or value) is NaN or infinite; the weights are
// then those after the step before.
FitResult fit(Params& params, const SequenceModel& model, const Dataset& data,
              const FitOptions& options = {}, const FitCallbacks& callbacks = {});

// Every sequence of the split, `batch` at a time.
[[nodiscard]] Evaluation evaluate(const SequenceModel& model, const Sequences& data,
                                  std::int64_t batch = 256);
// Tokens right, sequences right; the loss is left 0. logits [B,T,V], targets [B,T].
[[nodiscard]] Evaluation count_right(const Tensor& logits, const Tensor& targets);

[[nodiscard]] std::uint64_t fingerprint(const std::vector<double>& losses, const Params& params);

// Weights by name as a safetensors file, replaced in one step. The metadata gets the format version
// and the layout of matrices beside what is given. NonFiniteError, before the file is touched, when
// a weight is NaN or infinite.
void save_model(const std::filesystem::path& path, const Params& params,
                std::map<std::string, std::string> metadata = {});
// Fills params from such a file and returns its metadata. FileError, before any weight changes,
// when the layout or the version is another one, or when names, shapes or types differ: nothing is
// converted or transposed silently.
std::map<std::string, std::string> load_model(const std::filesystem::path& path, Params& params);

// The folder of a run:
//   config.json        everything that decides the run
//   metrics.csv        step,loss,lr,grad_norm,tokens,seconds and validation columns, one row a step
//   model.safetensors  the weights
//   attention.svg      the attention map
//   result.json        what came out
// Files other than the growing metrics.csv are replaced in one step.
class RunFolder {
 public:
  // Makes exactly this folder; one that is there is used when it is empty. ValueError when it is
  // taken, FileError when it cannot be made.
  [[nodiscard]] static RunFolder create(const std::filesystem::path& path);
  // Makes `path`, or path-2, path-3, ... when it is taken.
  [[nodiscard]] static RunFolder create_numbered(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path file(const char* name) const { return path_ / name; }
  void write(const char* name, std::string_view text) const;
  // Appends a row; numbers have 17 significant digits, so that reading them gives the same bits.
  void add_metrics(const StepReport& report);
  // Brings the rows so far to the file: FileError when the disk is full.
  void flush_metrics();

 private:
  explicit RunFolder(std::filesystem::path path);
  std::filesystem::path path_;
  std::string rows_;  // of metrics.csv, not yet in the file
};

}  // namespace tapehead

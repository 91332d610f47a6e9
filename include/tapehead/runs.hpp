// A run: everything that decides it, the model it trains, and the folder it leaves behind.
//
//   th::RunConfig config = th::default_config("sort");
//   th::Loaded problem = th::load(config);
//   th::Params params(config.fit.seed);
//   th::Model model(params, config.model);
//   th::FitResult result = th::fit(params, model, problem.data, config.fit);
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include <tapehead/models.hpp>
#include <tapehead/tasks.hpp>
#include <tapehead/train.hpp>

namespace tapehead {

// Options of any of the three models, chosen by kind; each takes what it knows.
struct ModelConfig {
  ModelKind kind = ModelKind::encoder;
  std::int64_t symbols = 10;
  std::int64_t classes = 10;
  std::int64_t max_length = 16;
  Positions positions = Positions::sinusoidal;
  bool one_hot = true;      // encoder, classifier
  bool mlp_head = true;     // encoder
  bool tied = false;        // language model, encoder-decoder
  bool output_bias = true;  // language model
  bool scaled = false;      // language model, encoder-decoder
  bool input_norm = false;  // language model
  bool final_norm = true;   // language model
  TransformerOptions stack = {};
};

// One of the three models behind one call.
class Model {
 public:
  Model(const Scope& scope, const ModelConfig& config);
  [[nodiscard]] Tensor operator()(const Batch& batch, Rng* rng = nullptr) const;  // [B,U,V]
  // The same logits with what every layer attends to; of an encoder-decoder: the decoder's.
  [[nodiscard]] StackResult with_weights(const Batch& batch) const;

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const EncoderModel* encoder() const;  // nullptr when it is another kind
  [[nodiscard]] const LanguageModel* language_model() const;
  [[nodiscard]] const EncoderDecoder* encoder_decoder() const;

 private:
  [[nodiscard]] Tensor as_sequence(const Tensor& logits) const;

  ModelConfig config_;
  std::variant<EncoderModel, LanguageModel, EncoderDecoder> model_;
};

// Operations for one token, forward, in the product with this weight: two for each element of a
// matrix; none for tables that are looked up, unless they are the output as well.
[[nodiscard]] std::int64_t matrix_flops(const Param& param, const ModelConfig& config);

// Everything that decides a run.
struct RunConfig {
  std::string task;
  TaskOptions options;
  std::string data;  // the file of text, lines, pairs and labels
  SplitSizes sizes;
  ModelConfig model;
  FitOptions fit;
};

// What a task is trained with when nothing else is said. `model` is filled in by load.
[[nodiscard]] RunConfig default_config(std::string_view task);
// Draws or reads the task's data and sets what the model has to fit: kind, vocabulary, length.
[[nodiscard]] Loaded load(RunConfig& config);

[[nodiscard]] std::string to_json(const RunConfig& config, int indent = -1);
// ValueError naming the member that is missing or of another type.
[[nodiscard]] RunConfig config_from_json(std::string_view json);
// One line for each setting that differs: "train.lr: 0.0005 and 0.001".
[[nodiscard]] std::vector<std::string> differences(const RunConfig& a, const RunConfig& b);

// Weights by name as a safetensors file, replaced in one step. The metadata gets the format version
// and the layout of matrices beside what is given. NonFiniteError, before the file is touched, when
// a weight is NaN or infinite.
void save_model(const std::filesystem::path& path, const Params& params,
                std::map<std::string, std::string> metadata = {});
// Fills params from such a file and returns its metadata. FileError, before any weight changes,
// when the layout or the version is another one, or when names, shapes or types differ: nothing is
// converted or transposed silently.
std::map<std::string, std::string> load_model(const std::filesystem::path& path, Params& params);

// Everything to go on with: weights, optimiser, counters, losses, config, vocabularies; replaced in
// one step, with a checksum.
void save_checkpoint(const std::filesystem::path& path, const RunConfig& config, const Task& task,
                     const Params& params, const FitState& state);
struct Checkpoint {
  RunConfig config;
  Vocabulary inputs;
  Vocabulary outputs;
  FitState state;
};
// Reads what does not need the model. FileError when it is not a checkpoint of this version.
[[nodiscard]] Checkpoint read_checkpoint(const std::filesystem::path& path);
// The weights; FileError, before any changes, when they are of another model.
void load_weights(const std::filesystem::path& path, Params& params);

// The folder of a run:
//   config.json             everything that decides the run
//   metrics.csv             step,loss,lr,grad_norm,tokens,seconds and validation columns, one row a
//                           step
//   model.safetensors       the weights; best.safetensors those of the best validation loss
//   checkpoint.safetensors  everything to go on with
//   attention.svg           the attention map
//   result.json             what came out
//   film.json               what every head attended to over time, for the report
//   report.html             all of it to look at: one file, no network
// Files other than the growing metrics.csv are replaced in one step.
class RunFolder {
 public:
  // Makes exactly this folder; one that is there is used when it is empty. ValueError when it is
  // taken, FileError when it cannot be made.
  [[nodiscard]] static RunFolder create(const std::filesystem::path& path);
  // Makes `path`, or path-2, path-3, ... when it is taken.
  [[nodiscard]] static RunFolder create_numbered(const std::filesystem::path& path);
  // A folder that a run left behind; rows of metrics.csv after `step` are dropped.
  [[nodiscard]] static RunFolder reopen(const std::filesystem::path& path, std::int64_t step);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path file(const char* name) const { return path_ / name; }
  void write(const char* name, std::string_view text) const;
  // Appends a row; numbers have 17 significant digits, so that reading them gives the same bits.
  void add_metrics(const StepReport& report);
  // Brings the rows so far to the file: FileError when the disk is full.
  void flush_metrics();

 private:
  RunFolder(std::filesystem::path path, std::string rows);
  std::filesystem::path path_;
  std::string rows_;  // of metrics.csv, not yet in the file
};

}  // namespace tapehead

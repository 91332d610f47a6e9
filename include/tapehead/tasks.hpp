// Tasks: small sequence problems whose data is drawn from a seed, and the user's own files.
//
//   th::Task task = th::make_task("reverse", {.symbols = 10, .length = 16});
//   th::Dataset data = th::draw(task, {.train = 50'000}, /*seed=*/0);
//   th::Loaded text = th::load_task("text", "book.txt", {.length = 64}, /*seed=*/0);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tapehead/random.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead {

// A target that does not count: padding, or a position that nothing is asked about.
inline constexpr std::int64_t kIgnored = -1;

// Which model a task is for.
enum class ModelKind {
  encoder,          // an answer at every position
  classifier,       // one answer for the sequence
  language_model,   // at every position an answer from what stands before and there
  encoder_decoder,  // a sequence of answers
};

// The symbols of a task as text, by id.
class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(std::vector<std::string> symbols);  // ValueError for one that is there twice

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(symbols_.size()); }
  [[nodiscard]] const std::vector<std::string>& symbols() const { return symbols_; }
  [[nodiscard]] std::string symbol(std::int64_t id) const;  // "<id>" for one that is none of ours
  [[nodiscard]] std::optional<std::int64_t> find(std::string_view symbol) const;
  // The longest symbol that fits comes first. ValueError naming the character, its code point and
  // its place when there is none.
  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text) const;
  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const;

 private:
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::size_t longest_ = 0;
};

// What is not given is the task's own default.
struct TaskOptions {
  std::optional<std::int64_t> symbols =
      std::nullopt;  // different tokens; a modulus; kinds of bracket
  std::optional<std::int64_t> length = std::nullopt;  // tokens, digits or pairs in a sequence
  std::optional<std::int64_t> depth = std::nullopt;   // of brackets
  bool bytes = false;                                 // text: bytes, not characters
};

// One sequence and its answers.
struct Example {
  std::vector<std::int64_t> input;
  // One at each position of the input, or of the decoder; for a classifier one in all.
  std::vector<std::int64_t> target;
  std::vector<std::int64_t> decoder = {};  // what the decoder is given, for encoder-decoders
};

// A problem: how one sequence and its answer are drawn, and what there is to know about it.
struct Task {
  std::string name;
  std::string summary;  // one sentence
  TaskOptions options;  // all given
  ModelKind model = ModelKind::encoder;
  std::int64_t symbols = 0;  // input ids are 0..symbols-1
  std::int64_t classes = 0;  // target ids are 0..classes-1
  std::int64_t length = 0;   // positions of the longest input or target

  double chance = 0;      // share of tokens right by the best guess without the input
  double loss_floor = 0;  // smallest cross entropy that can be reached, in nats a token

  // Fills an example whose vectors may hold an older one. Empty for files.
  std::function<void(Rng& rng, Example& example)> draw = {};
  // Tasks with few possible inputs: all of them. The splits are then parts of this list.
  std::function<std::vector<Example>()> all = {};
  double train_share = 0.9;  // of `all`
  // Whether an example may be tested on only; empty when any may be in any split.
  std::function<bool(const Example& example)> held_out = {};
  // For tasks that copy: the input position that target position t repeats. Attention should look
  // there. Empty otherwise.
  std::function<std::int64_t(std::int64_t t)> source = {};
  Vocabulary inputs;   // of `symbols`
  Vocabulary outputs;  // of `classes`
};

// How an answer that is generated begins and ends, in symbols of the task's outputs; "": with none.
// Without a stop it has `length` tokens, or so many more than the source when that is 0 or less.
struct AnswerSymbols {
  std::string start = "|";
  std::string stop = "";
  std::int64_t length = 0;
};

// One kind of task: a function that makes it for given options.
struct TaskEntry {
  std::string name;
  std::string summary;
  std::function<Task(const TaskOptions& options)> make;  // empty for files
  AnswerSymbols answer = {};
};

// Generated tasks first, then the kinds of files.
[[nodiscard]] const std::vector<TaskEntry>& task_catalog();
// ValueError naming the nearest task when there is none of that name.
[[nodiscard]] const TaskEntry& find_task(std::string_view name);

// ValueError as for find_task, or naming the option that is out of range, or that the task learns
// from a file.
[[nodiscard]] Task make_task(std::string_view name, const TaskOptions& options = {});

// Examples put together for one step.
struct Batch {
  Tensor inputs;                           // i64 [B,T], padded with 0
  std::vector<std::int64_t> lengths = {};  // real positions of each input; empty: all T
  Tensor decoder = {};                     // i64 [B,U], encoder-decoders only
  Tensor targets = {};                     // i64 [B,T], [B,U] or, for classifiers, [B,1]
};

// Examples of one split. Either padded tables, or one long text of which each `block` tokens, every
// `stride` tokens, are an example whose targets are the tokens that follow.
struct Sequences {
  Tensor inputs;                           // i64 [N,T], or the text [L]
  Tensor targets;                          // i64 [N,U]; undefined for a text
  Tensor decoder = {};                     // i64 [N,U]
  std::vector<std::int64_t> lengths = {};  // of each input; empty: all T
  std::int64_t block = 0;                  // above 0: a text
  std::int64_t stride = 1;

  [[nodiscard]] bool defined() const { return inputs.defined(); }
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] std::int64_t length() const { return block > 0 ? block : inputs.dim(1); }
  // The rows as a batch, no longer than its longest row.
  [[nodiscard]] Batch take(std::span<const std::int64_t> rows) const;
  [[nodiscard]] Batch take(std::int64_t begin, std::int64_t end) const;
};

// Pads to the longest: 0 in inputs, kIgnored in targets.
[[nodiscard]] Sequences collate(std::span<const Example> examples);

struct SplitSizes {
  std::int64_t train = 50'000;  // each at least 1
  std::int64_t validation = 1'000;
  std::int64_t test = 10'000;
};

struct Dataset {
  Sequences train;
  Sequences validation;
  Sequences test;
  // Test, or else validation, or else training: what to look at when it is done.
  [[nodiscard]] const Sequences& last() const;
};

// `count` sequences, one after the other from one stream.
[[nodiscard]] Sequences draw(const Task& task, std::int64_t count, Rng rng);
// Each split from a stream of its own, Rng(seed, Stream::data).fork("train" | "validation" |
// "test"), so that the size of one does not change another. A task with few possible inputs gives
// a random part of them to training and all others to both validation and test.
[[nodiscard]] Dataset draw(const Task& task, const SplitSizes& sizes, std::uint64_t seed);

// How many test inputs stand in the training split, too.
[[nodiscard]] std::int64_t leaked(const Dataset& data);

struct Loaded {
  Task task;
  Dataset data;
  std::int64_t leaked = 0;  // see leaked(data)
};

// The user's file as a task.
//   text    characters of a UTF-8 file, or its bytes: the next one; the last tenth validates
//   lines   one document a line: the next character, a line break at both ends
//   pairs   source TAB target: the target from the source
//   labels  sequence TAB class: the class
// Lines end with LF, CRLF or, without any LF, CR; a byte order mark is dropped; empty lines are
// skipped. A tenth of the lines validates, a tenth tests. FileError for a file that cannot be read
// or is not UTF-8, naming the byte; ValueError for one that is too small, with both sizes.
[[nodiscard]] Loaded load_task(std::string_view name, const std::filesystem::path& file,
                               const TaskOptions& options = {}, std::uint64_t seed = 0);

}  // namespace tapehead

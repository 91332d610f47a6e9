// Tasks: small sequence problems whose data is drawn from a seed.
//
//   th::Task task = th::make_task("reverse", {.symbols = 10, .length = 16});
//   th::Dataset data = th::draw(task, {.train = 50'000}, /*seed=*/0);
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/random.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead {

struct TaskOptions {
  std::int64_t symbols = 10;  // different tokens, 2..1024
  std::int64_t length = 16;   // tokens in a sequence, 1..1024
};

// A problem: how one sequence and its answer are drawn, and what there is to know about it.
struct Task {
  std::string name;
  std::string summary;  // one sentence
  TaskOptions options;
  std::int64_t symbols = 0;  // input ids are 0..symbols-1
  std::int64_t classes = 0;  // target ids are 0..classes-1, one at each position
  std::int64_t length = 0;   // positions of input and target

  double chance = 0;      // share of tokens right by the best guess without the input
  double loss_floor = 0;  // smallest cross entropy that can be reached, in nats

  // Fills one input and its target, each of `length` ids.
  std::function<void(Rng& rng, std::span<std::int64_t> input, std::span<std::int64_t> target)> draw;
  // For tasks that copy: the input position that target position t repeats. Attention should look
  // there. Empty otherwise.
  std::function<std::int64_t(std::int64_t t)> source;
  // What an id looks like to people: "0".."9", then "a".."z", then numbers in angle brackets.
  std::function<std::string(std::int64_t id)> symbol;
};

// One kind of task: a function that makes it for given options.
struct TaskEntry {
  std::string name;
  std::string summary;
  std::function<Task(const TaskOptions& options)> make;
};

[[nodiscard]] const std::vector<TaskEntry>& task_catalog();

// ValueError naming the nearest task when there is none of that name, or the option that is out of
// range.
[[nodiscard]] Task make_task(std::string_view name, const TaskOptions& options = {});

// Sequences and their answers: both i64 [count, length].
struct Sequences {
  Tensor inputs;
  Tensor targets;
  [[nodiscard]] std::int64_t count() const { return inputs.dim(0); }
  [[nodiscard]] std::int64_t length() const { return inputs.dim(1); }
};

struct SplitSizes {
  std::int64_t train = 50'000;  // each at least 1
  std::int64_t validation = 1'000;
  std::int64_t test = 10'000;
};

struct Dataset {
  Sequences train;
  Sequences validation;
  Sequences test;
};

// `count` sequences, one after the other from one stream.
[[nodiscard]] Sequences draw(const Task& task, std::int64_t count, Rng rng);
// Each split from a stream of its own, Rng(seed, Stream::data).fork("train" | "validation" |
// "test"), so that the size of one does not change another.
[[nodiscard]] Dataset draw(const Task& task, const SplitSizes& sizes, std::uint64_t seed);

}  // namespace tapehead

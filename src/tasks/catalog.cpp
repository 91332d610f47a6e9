#include "tasks/catalog.hpp"

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead {

using detail::fail;

namespace {

void check_range(const char* task, const char* option, std::int64_t value, std::int64_t low,
                 std::int64_t high) {
  if (value < low || value > high) {
    fail<ValueError>(fmt::format("{}: {} must be {}..{}, got {}", task, option, low, high, value));
  }
}

}  // namespace

namespace detail {

void check_options(const char* task, const TaskOptions& options) {
  check_range(task, "symbols", options.symbols, 2, 1024);
  check_range(task, "length", options.length, 1, 1024);
}

std::string plain_symbol(std::int64_t id) {
  if (id >= 0 && id < 10) return std::string(1, static_cast<char>('0' + id));
  if (id >= 10 && id < 36) return std::string(1, static_cast<char>('a' + (id - 10)));
  return fmt::format("<{}>", id);
}

}  // namespace detail

const std::vector<TaskEntry>& task_catalog() {
  static const std::vector<TaskEntry> entries = {
      detail::reverse_task(),
  };
  return entries;
}

Task make_task(std::string_view name, const TaskOptions& options) {
  std::vector<std::string> names;
  for (const TaskEntry& entry : task_catalog()) {
    if (entry.name == name) return entry.make(options);
    names.push_back(entry.name);
  }
  fail<ValueError>(
      fmt::format("no task '{}'; did you mean '{}'?", name, detail::nearest(name, names)));
}

Sequences draw(const Task& task, std::int64_t count, Rng rng) {
  if (count < 1) {
    fail<ValueError>(
        fmt::format("{}: a split needs at least 1 sequence, got {}", task.name, count));
  }
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;  // 16 GiB of ids
  if (count > kMostTokens / task.length) {
    fail<ValueError>(fmt::format("{}: {} sequences of {} tokens are too many: at most {} fit",
                                 task.name, count, task.length, kMostTokens / task.length));
  }
  const Shape shape{count, task.length};
  std::vector<std::int64_t> inputs(static_cast<std::size_t>(shape.size()));
  std::vector<std::int64_t> targets(inputs.size());
  const auto length = static_cast<std::size_t>(task.length);
  for (std::size_t at = 0; at < inputs.size(); at += length) {
    task.draw(rng, std::span(inputs).subspan(at, length), std::span(targets).subspan(at, length));
  }
  return {tensor(std::span<const std::int64_t>(inputs), shape),
          tensor(std::span<const std::int64_t>(targets), shape)};
}

Dataset draw(const Task& task, const SplitSizes& sizes, std::uint64_t seed) {
  const Rng rng(seed, Stream::data);
  return {draw(task, sizes.train, rng.fork("train")),
          draw(task, sizes.validation, rng.fork("validation")),
          draw(task, sizes.test, rng.fork("test"))};
}

}  // namespace tapehead

#include "tasks/catalog.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead {

using detail::fail;

namespace detail {

std::int64_t option_in(const char* task, const char* option,
                       const std::optional<std::int64_t>& given, std::int64_t standard,
                       std::int64_t low, std::int64_t high) {
  const std::int64_t value = given.value_or(standard);
  if (value < low || value > high) {
    fail<ValueError>(fmt::format("{}: {} must be {}..{}, got {}", task, option, low, high, value));
  }
  return value;
}

void check_even(const char* task, const char* option, std::int64_t value) {
  if (value % 2 != 0)
    fail<ValueError>(fmt::format("{}: {} must be even, got {}", task, option, value));
}

std::string plain_symbol(std::int64_t id) {
  if (id >= 0 && id < 10) return std::string(1, static_cast<char>('0' + id));
  if (id >= 10 && id < 36) return std::string(1, static_cast<char>('a' + (id - 10)));
  return fmt::format("<{}>", id);
}

std::vector<std::string> plain_symbols(std::int64_t count) {
  std::vector<std::string> symbols;
  for (std::int64_t id = 0; id < count; ++id) symbols.push_back(plain_symbol(id));
  return symbols;
}

Task basic_task(const char* name, const char* summary, ModelKind kind,
                const Vocabulary& vocabulary) {
  Task task;
  task.name = name;
  task.summary = summary;
  task.model = kind;
  task.symbols = vocabulary.size();
  task.classes = vocabulary.size();
  task.inputs = vocabulary;
  task.outputs = vocabulary;
  return task;
}

double measured_chance(const Task& task) {
  std::vector<std::map<std::int64_t, std::int64_t>> seen;
  std::int64_t total = 0;
  const auto count = [&](const Example& example) {
    seen.resize(std::max(seen.size(), example.target.size()));
    for (std::size_t t = 0; t < example.target.size(); ++t) {
      if (example.target[t] == kIgnored) continue;
      ++seen[t][example.target[t]];
      ++total;
    }
  };
  if (task.all) {
    for (const Example& example : task.all()) count(example);
  } else {
    Rng rng = Rng(0, Stream::check).fork(task.name);
    Example example;
    for (int i = 0; i < 4096; ++i) {
      task.draw(rng, example);
      count(example);
    }
  }
  std::int64_t right = 0;
  for (const auto& position : seen) {
    std::int64_t most = 0;
    for (const auto& [id, times] : position) most = std::max(most, times);
    right += most;
  }
  return static_cast<double>(right) / static_cast<double>(total);
}

}  // namespace detail

const std::vector<TaskEntry>& task_catalog() {
  static const std::vector<TaskEntry> entries = [] {
    const AnswerSymbols line_breaks{.start = "\n", .stop = "\n"};
    std::vector<TaskEntry> list{detail::reverse_task(),       detail::copy_task(),
                                detail::copy_rest_task(),     detail::sort_task(),
                                detail::addition_task(false), detail::addition_task(true)};
    const auto add = [&](std::vector<TaskEntry> more) {
      for (TaskEntry& entry : more) list.push_back(std::move(entry));
    };
    add(detail::modular_tasks());
    add(detail::classifying_tasks());
    add({detail::dyck_task()});
    add(detail::recalling_tasks());
    add({detail::dates_task(),
         {"text", "the next character (or byte) of a file", {}, {.start = "\n"}},
         {"lines", "the next character of each line of a file", {}, line_breaks},
         {"pairs", "from source to target, a file of SOURCE tab TARGET", {}, line_breaks},
         {"labels", "from sequence to class, a file of SEQUENCE tab CLASS", {}}});
    return list;
  }();
  return entries;
}

const TaskEntry& find_task(std::string_view name) {
  std::vector<std::string> names;
  for (const TaskEntry& entry : task_catalog()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  fail<ValueError>(
      fmt::format("no task '{}'; did you mean '{}'?", name, detail::nearest(name, names)));
}

Task make_task(std::string_view name, const TaskOptions& options) {
  const TaskEntry& entry = find_task(name);
  if (!entry.make)
    fail<ValueError>(fmt::format("'{}' learns from a file: say which one with --data FILE", name));
  return entry.make(options);
}

}  // namespace tapehead

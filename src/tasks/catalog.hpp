// The makers behind the catalog, and what they are made with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tapehead/tasks.hpp>

namespace tapehead::detail {

[[nodiscard]] TaskEntry reverse_task();
[[nodiscard]] TaskEntry copy_task();
[[nodiscard]] TaskEntry copy_rest_task();
[[nodiscard]] TaskEntry sort_task();
[[nodiscard]] TaskEntry addition_task(bool reversed);
[[nodiscard]] std::vector<TaskEntry> modular_tasks();
[[nodiscard]] std::vector<TaskEntry> classifying_tasks();  // parity, first, majority
[[nodiscard]] TaskEntry dyck_task();
// repeat, induction, recall, selective-copy
[[nodiscard]] std::vector<TaskEntry> recalling_tasks();
[[nodiscard]] TaskEntry dates_task();

// The start of every task: name, summary, kind, one vocabulary for inputs and answers.
[[nodiscard]] Task basic_task(const char* name, const char* summary, ModelKind kind,
                              const Vocabulary& vocabulary);

// `given`, or the default. ValueError "reverse: length must be 1..1024, got 0" outside the range.
std::int64_t option_in(const char* task, const char* option,
                       const std::optional<std::int64_t>& given, std::int64_t standard,
                       std::int64_t low, std::int64_t high);

// ValueError when it is odd.
void check_even(const char* task, const char* option, std::int64_t value);

// "0".."9", then "a".."z", then numbers in angle brackets.
[[nodiscard]] std::string plain_symbol(std::int64_t id);
[[nodiscard]] std::vector<std::string> plain_symbols(std::int64_t count);

// Share of answers that are right by always giving the commonest one of each position, counted over
// 4,096 examples of a fixed stream (or all of them).
[[nodiscard]] double measured_chance(const Task& task);

// The characters of UTF-8 text, each with all its bytes. FileError "NAME is not UTF-8: ..." with
// the offset of the first bad byte. A byte order mark in front is dropped.
[[nodiscard]] std::vector<std::string_view> characters(std::string_view text,
                                                       const std::string& name);
// Without line ends; see load_task.
[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace tapehead::detail

#include "report/samples.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tapehead::report {

std::string symbols_text(const Task& task, std::span<const std::int64_t> ids, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ids.size(), most); ++i) text += task.symbol(ids[i]);
  return ids.size() > most ? text + "..." : text;
}

std::string sample_table(const Task& task, const Sequences& samples, const Tensor& predicted) {
  const auto length = static_cast<std::size_t>(samples.length());
  const auto row_of = [length](const Tensor& x, std::size_t row) {
    return x.data<std::int64_t>().subspan(row * length, length);
  };
  struct Row {
    std::string input, prediction, verdict;
  };
  std::vector<Row> rows{{"input", "prediction", "right"}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples.count()); ++i) {
    const auto wanted = row_of(samples.targets, i);
    const auto found = row_of(predicted, i);
    const bool right = std::equal(wanted.begin(), wanted.end(), found.begin());
    rows.push_back({symbols_text(task, row_of(samples.inputs, i)), symbols_text(task, found),
                    right ? "\u2713" : "\u2717 " + symbols_text(task, wanted)});
  }
  std::size_t widths[2] = {0, 0};
  for (const Row& row : rows) {
    widths[0] = std::max(widths[0], row.input.size());
    widths[1] = std::max(widths[1], row.prediction.size());
  }
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("  {:<{}}  {:<{}}  {}\n", row.input, widths[0], row.prediction, widths[1],
                        row.verdict);
  }
  return text;
}

}  // namespace tapehead::report

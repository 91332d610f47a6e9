#include "report/samples.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tasks/utf8.hpp"

namespace tapehead::report {

namespace {

// What stands on the screen for one character each.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80;
  }));
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, columns_of(text)), ' ');
}

}  // namespace

std::string shown(const std::string& symbol) {
  std::string text;
  for (std::size_t at = 0; at < symbol.size();) {
    const detail::CodePoint point = detail::code_point_at(symbol, at);
    if (point.bytes == 0 || point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0)) {
      text += point.value == U'\n' && point.bytes == 1 ? "\u21B5" : "\u00B7";
    } else {
      text += symbol.substr(at, point.bytes);
    }
    at += std::max<std::size_t>(point.bytes, 1);
  }
  return text;
}

std::string symbols_text(const Vocabulary& vocabulary, std::span<const std::int64_t> ids,
                         std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ids.size(), most); ++i) {
    text += shown(vocabulary.symbol(ids[i]));
  }
  return ids.size() > most ? text + "..." : text;
}

std::string sample_table(const Task& task, const Batch& samples, const Tensor& predicted) {
  const auto row_of = [](const Tensor& x, std::size_t row) {
    const auto length = static_cast<std::size_t>(x.dim(1));
    return x.data<std::int64_t>().subspan(row * length, length);
  };
  struct Row {
    std::string input, prediction, verdict;
  };
  std::vector<Row> rows{{"input", "prediction", "right"}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples.inputs.dim(0)); ++i) {
    const auto targets = row_of(samples.targets, i);
    const auto all = row_of(predicted, i);
    std::vector<std::int64_t> wanted, found;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (targets[t] == kIgnored) continue;
      wanted.push_back(targets[t]);
      found.push_back(all[t]);
    }
    auto input = row_of(samples.inputs, i);
    if (!samples.lengths.empty()) input = input.first(static_cast<std::size_t>(samples.lengths[i]));
    rows.push_back({symbols_text(task.inputs, input), symbols_text(task.outputs, found),
                    wanted == found ? "\u2713" : "\u2717 " + symbols_text(task.outputs, wanted)});
  }
  std::size_t widths[2] = {0, 0};
  for (const Row& row : rows) {
    widths[0] = std::max(widths[0], columns_of(row.input));
    widths[1] = std::max(widths[1], columns_of(row.prediction));
  }
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("  {}  {}  {}\n", padded(row.input, widths[0]),
                        padded(row.prediction, widths[1]), row.verdict);
  }
  return text;
}

}  // namespace tapehead::report

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
  constexpr int kMost = 32;  // a class may have any name
  std::string text;
  int count = 0;
  for (std::size_t at = 0; at < symbol.size();) {
    if (count++ == kMost) return text + "\u2026";
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

std::vector<std::string> labels(const Vocabulary& vocabulary, const Tensor& ids, std::int64_t row,
                                std::int64_t count) {
  std::vector<std::string> list;
  for (std::int64_t t = 0; t < std::min(count, ids.dim(1)); ++t)
    list.push_back(shown(vocabulary.symbol(static_cast<std::int64_t>(ids.at({row, t})))));
  return list;
}

std::vector<SampleRow> sample_rows(const Task& task, const Batch& samples, const Tensor& predicted,
                                   std::size_t most) {
  const auto row_of = [](const Tensor& x, std::size_t row) {
    const auto length = static_cast<std::size_t>(x.dim(1));
    return x.data<std::int64_t>().subspan(row * length, length);
  };
  std::vector<SampleRow> rows;
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
    rows.push_back({symbols_text(task.inputs, input, most), symbols_text(task.outputs, found, most),
                    symbols_text(task.outputs, wanted, most), wanted == found});
  }
  return rows;
}

std::string sample_table(const Task& task, const Batch& samples, const Tensor& predicted) {
  const std::vector<SampleRow> rows = sample_rows(task, samples, predicted);
  std::size_t inputs = columns_of("input");
  std::size_t predictions = columns_of("prediction");
  for (const SampleRow& row : rows) {
    inputs = std::max(inputs, columns_of(row.input));
    predictions = std::max(predictions, columns_of(row.found));
  }
  const auto line = [&](const std::string& input, const std::string& found,
                        const std::string& verdict) {
    return fmt::format("  {}  {}  {}\n", padded(input, inputs), padded(found, predictions),
                       verdict);
  };
  std::string text = line("input", "prediction", "right");
  for (const SampleRow& row : rows)
    text += line(row.input, row.found, row.right ? "\u2713" : "\u2717 " + row.wanted);
  return text;
}

}  // namespace tapehead::report

// Sequences, their prediction and whether it is right, as a table for people.
#pragma once

#include <string>

#include <tapehead/tasks.hpp>

namespace tapehead::report {

// A symbol on one line of text: a line break is shown as an arrow, other control characters and
// bytes that are no text as a dot; a long one is cut after 32 characters.
[[nodiscard]] std::string shown(const std::string& symbol);

// Ids written with the vocabulary's symbols, cut with "..." after `most`.
[[nodiscard]] std::string symbols_text(const Vocabulary& vocabulary,
                                       std::span<const std::int64_t> ids, std::size_t most = 40);

// The symbols of the first `count` ids of row `row` of ids [N,T], each as shown.
[[nodiscard]] std::vector<std::string> labels(const Vocabulary& vocabulary, const Tensor& ids,
                                              std::int64_t row, std::int64_t count);

// One sequence and its answers, at the positions that count.
struct SampleRow {
  std::string input;
  std::string found;   // what was predicted
  std::string wanted;  // the targets
  bool right = false;
};
// `predicted` is i64 like the batch's targets; texts are cut after `most` symbols.
[[nodiscard]] std::vector<SampleRow> sample_rows(const Task& task, const Batch& samples,
                                                 const Tensor& predicted, std::size_t most = 40);

// A header and one row a sequence: input, prediction at the positions that count, and a tick, or a
// cross and the target.
[[nodiscard]] std::string sample_table(const Task& task, const Batch& samples,
                                       const Tensor& predicted);

}  // namespace tapehead::report

// Sequences, their prediction and whether it is right, as a table for people.
#pragma once

#include <string>

#include <tapehead/tasks.hpp>

namespace tapehead::report {

// A symbol on one line of text: a line break is shown as an arrow, other control characters and
// bytes that are no text as a dot.
[[nodiscard]] std::string shown(const std::string& symbol);

// Ids written with the vocabulary's symbols, cut with "..." after `most`.
[[nodiscard]] std::string symbols_text(const Vocabulary& vocabulary,
                                       std::span<const std::int64_t> ids, std::size_t most = 40);

// A header and one row a sequence: input, prediction at the positions that count, and a tick, or a
// cross and the target. `predicted` is i64 like the batch's targets.
[[nodiscard]] std::string sample_table(const Task& task, const Batch& samples,
                                       const Tensor& predicted);

}  // namespace tapehead::report

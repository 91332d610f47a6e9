// Sequences, their prediction and whether it is right, as a table for people.
#pragma once

#include <string>

#include <tapehead/tasks.hpp>

namespace tapehead::report {

// Ids written with the task's symbols, cut with "..." after `most` positions.
[[nodiscard]] std::string symbols_text(const Task& task, std::span<const std::int64_t> ids,
                                       std::size_t most = 40);

// A header and one row a sequence: input, prediction, and a tick, or a cross and the target.
// All tensors are i64 [sequences, time].
[[nodiscard]] std::string sample_table(const Task& task, const Sequences& samples,
                                       const Tensor& predicted);

}  // namespace tapehead::report

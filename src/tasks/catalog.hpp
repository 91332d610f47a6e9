// The makers behind the catalog; one file per task.
#pragma once

#include <tapehead/tasks.hpp>

namespace tapehead::detail {

[[nodiscard]] TaskEntry reverse_task();

// ValueError naming the task unless both options are in the ranges of TaskOptions.
void check_options(const char* task, const TaskOptions& options);
[[nodiscard]] std::string plain_symbol(std::int64_t id);

}  // namespace tapehead::detail

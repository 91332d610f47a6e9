// Does attention look where the answer stands? For tasks that copy.
#pragma once

#include <tapehead/tasks.hpp>

namespace tapehead::report {

struct SourceAttention {
  double weight = 0;  // mean weight on task.source(t)
  double peaks = 0;   // share of queries whose largest weight is there
};
// Over head 0 of weights [N,H,T,T], the first task.length queries of each sequence.
[[nodiscard]] SourceAttention attention_on_source(const Task& task, const Tensor& weights);

}  // namespace tapehead::report

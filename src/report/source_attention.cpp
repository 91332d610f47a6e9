#include "report/source_attention.hpp"

#include <tapehead/ops.hpp>

namespace tapehead::report {

SourceAttention attention_on_source(const Task& task, const Tensor& weights) {
  const Tensor peaks = argmax(weights);  // [N,H,T]
  SourceAttention sums;
  for (std::int64_t n = 0; n < weights.dim(0); ++n) {
    for (std::int64_t t = 0; t < task.length; ++t) {
      sums.weight += weights.at({n, 0, t, task.source(t)});
      sums.peaks += peaks.at({n, 0, t}) == static_cast<double>(task.source(t)) ? 1 : 0;
    }
  }
  const auto queries = static_cast<double>(weights.dim(0) * task.length);
  return {sums.weight / queries, sums.peaks / queries};
}

}  // namespace tapehead::report

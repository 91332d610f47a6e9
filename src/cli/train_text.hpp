// What `train` says and writes down about a run.
#pragma once

#include <optional>
#include <string>

#include <tapehead/runs.hpp>

#include "io/json.hpp"

namespace tapehead::cli {

// The result object: what is known before the first step, and what came out.
void begin_result(detail::Json& json, const RunConfig& config, const Loaded& problem,
                  const Params& params);
void add_result(detail::Json& json, const FitResult& result);

// Over head 0 of weights [N,H,T,T]: does attention look where the answer stands?
struct SourceAttention {
  double weight = 0;  // mean weight on task.source(t)
  double peaks = 0;   // share of queries whose largest weight is there
};
[[nodiscard]] SourceAttention attention_on_source(const Task& task, const Tensor& weights);

[[nodiscard]] std::string banner(const RunConfig& config, const Loaded& problem,
                                 const Params& params);
[[nodiscard]] std::string summary(const FitResult& result,
                                  const std::optional<SourceAttention>& on_source,
                                  double total_seconds);

}  // namespace tapehead::cli

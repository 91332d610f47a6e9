// What `train` says and writes down about a run.
#pragma once

#include <optional>
#include <string>

#include <tapehead/train.hpp>

#include "io/json.hpp"

namespace tapehead::cli {

struct TrainSetup {
  TaskOptions task;
  SplitSizes sizes;
  FitOptions fit;
};

// The encoder of the published setup, fitted to the task's sizes.
[[nodiscard]] EncoderModelOptions model_options(const Task& task);

// Everything that decides the run.
[[nodiscard]] detail::Json config_json(const TrainSetup& setup, const Task& task,
                                       const EncoderModel& model);
// The result object: what is known before the first step, and what came out.
void begin_result(detail::Json& json, const TrainSetup& setup, const Task& task,
                  const Params& params);
void add_result(detail::Json& json, const FitResult& result);

// Over head 0 of weights [N,H,T,T]: does attention look where the answer stands?
struct SourceAttention {
  double weight = 0;  // mean weight on task.source(t)
  double peaks = 0;   // share of queries whose largest weight is there
};
[[nodiscard]] SourceAttention attention_on_source(const Task& task, const Tensor& weights);

[[nodiscard]] std::string banner(const TrainSetup& setup, const Task& task,
                                 const EncoderModel& model, const Params& params);
[[nodiscard]] std::string summary(const FitResult& result,
                                  const std::optional<SourceAttention>& on_source,
                                  double total_seconds);

}  // namespace tapehead::cli

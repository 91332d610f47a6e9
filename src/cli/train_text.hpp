// What `train` says and writes down about a run.
#pragma once

#include <optional>
#include <string>

#include <tapehead/runs.hpp>

#include "io/json.hpp"
#include "report/source_attention.hpp"

namespace tapehead::cli {

// The result object: what is known before the first step, and what came out.
void begin_result(detail::Json& json, const RunConfig& config, const Loaded& problem,
                  const Params& params);
void add_result(detail::Json& json, const FitResult& result);
[[nodiscard]] detail::Json to_json(const Profile& profile);

[[nodiscard]] std::string banner(const RunConfig& config, const Loaded& problem,
                                 const Params& params);
[[nodiscard]] std::string summary(const FitResult& result,
                                  const std::optional<report::SourceAttention>& on_source,
                                  double total_seconds);

}  // namespace tapehead::cli

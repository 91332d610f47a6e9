// The report of a run's folder.
#pragma once

#include "cli/session.hpp"

namespace tapehead::cli {

// Writes report.html from the model and from the folder's metrics.csv, result.json and film.json;
// returns its path.
std::string write_report(const std::filesystem::path& folder, const RunConfig& config,
                         const Loaded& problem, const Params& params, const Model& model);

}  // namespace tapehead::cli

// report.html: a run as one self-contained file, without network, under a megabyte.
#pragma once

#include <string>
#include <string_view>

#include <tapehead/runs.hpp>

namespace tapehead::report {

struct PageInputs {
  const RunConfig& config;
  const Loaded& problem;
  const Params& params;
  const Model& model;
  std::string_view metrics;  // metrics.csv
  std::string_view result;   // result.json; may be empty
  std::string_view film;     // film.json; may be empty
};

// What was run, curves, norms of the layers, attention of every head over the course of training,
// scores of the heads, samples, accuracy by position, and a quick gradient check of the model in
// f64. Looks at test sequences, or validation ones where there is no test split.
[[nodiscard]] std::string html_report(const PageInputs& inputs);

// Columns of metrics.csv: at most `most` points, each the mean of neighbouring rows; those with an
// evaluation once more, for the validation curves.
//   {"step": [...], "loss", "lr", "grad_norm", "evaluated": [...], "validation_loss",
//    "validation_accuracy", "validation_exact"}
[[nodiscard]] std::string curves_json(std::string_view metrics, std::int64_t most);

}  // namespace tapehead::report

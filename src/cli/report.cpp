// `tapehead report RUN`: report.html again, from what the run's folder holds.
#include "cli/report.hpp"

#include <fmt/format.h>

#include "io/file.hpp"
#include "report/page.hpp"

namespace tapehead::cli {
namespace {

int run(const std::string& path, const std::string& data, Output& out) {
  const Opened opened = open_run(path);
  RunConfig config = opened.checkpoint.config;
  if (!data.empty()) config.data = data;
  const Loaded problem = load(config);
  const std::filesystem::path parent = checkpoint_of(path).parent_path();
  const std::filesystem::path folder = parent.empty() ? "." : parent;
  const std::string file = write_report(folder, config, problem, opened.params, opened.model);
  out.say(fmt::format("{}\n", file));
  out.result().set("run", path).set("report", file);
  return kDone;
}

}  // namespace

std::string write_report(const std::filesystem::path& folder, const RunConfig& config,
                         const Loaded& problem, const Params& params, const Model& model) {
  const std::string metrics = detail::read_file_if_any(folder / "metrics.csv");
  const std::string result = detail::read_file_if_any(folder / "result.json");
  const std::string film = detail::read_file_if_any(folder / "film.json");
  const std::filesystem::path file = folder / "report.html";
  detail::replace_file(
      file, report::html_report({config, problem, params, model, metrics, result, film}));
  return file.string();
}

void add_report(Cli& cli) {
  const auto path = std::make_shared<std::string>();
  const auto data = std::make_shared<std::string>();
  cli.verb("report", "Write a run's report.html again",
           [path, data](Output& out) { return run(*path, *data, out); })
      .argument("RUN", *path, "The folder of the run")
      .option("--data", *data, "FILE", "The file that it learnt from, when it is elsewhere now")
      .footer("One file, no network: curves, attention, samples, gradients.\n");
}

}  // namespace tapehead::cli

// `tapehead compare RUN...`: runs side by side, and the settings in which they differ.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "cli/session.hpp"
#include "report/progress_line.hpp"

namespace tapehead::cli {
namespace {

int run(const std::vector<std::string>& paths, Output& out) {
  if (paths.size() < 2) throw Misuse("compare: name two runs or more");
  std::vector<Checkpoint> runs;
  for (const std::string& path : paths) runs.push_back(read_checkpoint(checkpoint_of(path)));
  std::size_t width = 3;
  for (const std::string& path : paths) width = std::max(width, path.size());
  out.say(fmt::format("{:<{}}{:>9}{:>13}{:>18}{:>10}{:>10}\n", "run", width + 2, "step",
                      "last loss", "best validation", "at step", "seconds"));
  detail::Json list = detail::Json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const FitState& state = runs[i].state;
    const double last = state.losses.empty() ? std::nan("") : state.losses.back();
    out.say(fmt::format("{:<{}}{:>9}{:>13.6g}{:>18.6g}{:>10}{:>10.2f}\n", paths[i], width + 2,
                        report::thousands(state.step), last, state.best,
                        report::thousands(state.best_step), state.seconds));
    detail::Json item;
    item.set("run", paths[i]).set("step", state.step).set("loss", last);
    item.set("best_validation_loss", state.best).set("best_step", state.best_step);
    list.push(std::move(item));
  }
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const std::vector<std::string> different = differences(runs[0].config, runs[i].config);
    out.say(fmt::format("\n{} and {}: {}\n", paths[0], paths[i],
                        different.empty() ? "the same settings" : "settings that differ"));
    for (const std::string& line : different) out.say(fmt::format("  {}\n", line));
  }
  out.result().set("runs", std::move(list));
  return kDone;
}

}  // namespace

void add_compare(Cli& cli) {
  const auto paths = std::make_shared<std::vector<std::string>>();
  cli.verb("compare", "Compare runs and the settings in which they differ",
           [paths](Output& out) { return run(*paths, out); })
      .arguments("RUN", *paths, "Folders of two runs or more");
}

}  // namespace tapehead::cli

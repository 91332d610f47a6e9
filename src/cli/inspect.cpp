// `tapehead inspect RUN`: a model as a table.
#include <cmath>

#include <fmt/format.h>

#include "cli/session.hpp"
#include "report/progress_line.hpp"

namespace tapehead::cli {
namespace {

using report::thousands;

int run(const std::string& path, Output& out) {
  const Opened opened = open_run(path);
  const RunConfig& config = opened.checkpoint.config;
  out.say(fmt::format("{}: task {}, step {}\n\n{:<46}{:>14}{:>12}{:>12}{:>14}{:>11}\n", path,
                      config.task, opened.checkpoint.state.step, "parameter", "shape", "scalars",
                      "bytes", "FLOPs a token", "rms"));
  detail::Json list = detail::Json::array();
  std::int64_t flops = 0;
  for (const Param& param : opened.params.all()) {
    const Tensor value = param.value();
    const std::int64_t cost = matrix_flops(param, config.model);
    const double rms = norm(value).item() / std::sqrt(static_cast<double>(value.size()));
    flops += cost;
    out.say(fmt::format("{:<46}{:>14}{:>12}{:>12}{:>14}{:>11.4g}\n", param.name(),
                        to_string(param.shape()), thousands(value.size()),
                        thousands(value.size() * bytes_of(value.dtype())), thousands(cost), rms));
    detail::Json item;
    item.set("name", param.name()).set("shape", to_string(param.shape()));
    item.set("scalars", value.size()).set("flops", cost).set("rms", rms);
    list.push(std::move(item));
  }
  const std::int64_t bytes = opened.params.size() * bytes_of(opened.params.dtype());
  out.say(fmt::format(
      "\n{} parameters, {} bytes; with gradients and two moments {} bytes\n"
      "{} FLOPs a token forward in the matrices, about {} forward and backward; attention adds\n"
      "4 times width times keys a token and layer\n",
      thousands(opened.params.size()), thousands(bytes), thousands(4 * bytes), thousands(flops),
      thousands(3 * flops)));
  out.result().set("run", path).set("parameters", opened.params.size()).set("flops", flops);
  out.result().set("table", std::move(list));
  return kDone;
}

}  // namespace

void add_inspect(Cli& cli) {
  const auto path = std::make_shared<std::string>();
  cli.verb("inspect", "Print a trained model as a table",
           [path](Output& out) { return run(*path, out); })
      .argument("RUN", *path, "The folder of the run");
}

}  // namespace tapehead::cli

#include "cli/train_text.hpp"

#include <fmt/format.h>

#include <tapehead/system.hpp>

#include "report/progress_line.hpp"
#include "train/names.hpp"

namespace tapehead::cli {

using detail::Json;
using report::hex;
using report::plural;
using report::thousands;

void begin_result(Json& json, const RunConfig& config, const Loaded& problem,
                  const Params& params) {
  const BlasInfo blas = blas_info();
  json.set("status", "running").set("tapehead", version()).set("task", config.task);
  json.set("seed", config.fit.seed).set("parameters", params.size()).set("threads", threads());
  json.set("blas", fmt::format("{} {} {}", blas.name, blas.kernel, blas.flavour));
  json.set("chance", problem.task.chance).set("test_in_training", problem.leaked);
}

void add_result(Json& json, const FitResult& result) {
  json.set("status", result.stopped ? "interrupted" : "done").set("steps", result.steps);
  json.set("seconds", result.seconds).set("loss", result.loss);
  json.set("validation_accuracy",
           result.validation.empty() ? Json() : Json(result.validation.back().accuracy()));
  json.set("validation_loss",
           result.validation.empty() ? Json() : Json(result.validation.back().loss));
  json.set("best_step", result.best_step).set("early", result.early);
  json.set("test_accuracy", result.test ? Json(result.test->accuracy()) : Json());
  json.set("test_exact", result.test ? Json(result.test->exact()) : Json());
  json.set("test_loss", result.test ? Json(result.test->loss) : Json());
  json.set("fingerprint", hex(result.fingerprint));
}

Json to_json(const Profile& profile) {
  Json entries = Json::array();
  for (const ProfileEntry& entry : profile.entries) {
    Json item;
    item.set("op", entry.op).set("module", entry.module).set("calls", entry.calls);
    item.set("forward", entry.forward).set("backward", entry.backward).set("bytes", entry.bytes);
    entries.push(std::move(item));
  }
  Json json;
  json.set("seconds", profile.seconds()).set("outside", profile.outside);
  json.set("tapes", profile.tapes).set("entries", std::move(entries));
  return json;
}

namespace {

std::string model_line(const ModelConfig& model, const Params& params) {
  const TransformerOptions& stack = model.stack;
  const std::string inside = stack.activation == Activation::none
                                 ? "no feed-forward"
                                 : fmt::format("feed-forward {}", stack.hidden);
  return fmt::format("model  {}: {}, {}, width {}, {}; {} parameters\n",
                     detail::word_for(model.kind), plural(stack.layers, "layer"),
                     plural(stack.heads, "head"), stack.width, inside, thousands(params.size()));
}

std::string data_line(const Loaded& problem, std::uint64_t seed) {
  const Dataset& data = problem.data;
  if (data.train.block > 0) {
    return fmt::format("       {} tokens to train on, {} to validate on, seed {}\n",
                       thousands(data.train.inputs.size()),
                       thousands(data.validation.defined() ? data.validation.inputs.size() : 0),
                       seed);
  }
  return fmt::format(
      "       {} training, {} validation, {} test sequences, seed {}{}\n",
      thousands(data.train.count()), thousands(data.validation.count()),
      thousands(data.test.count()), seed,
      problem.leaked == 0
          ? ""
          : fmt::format("; {} of the test inputs are trained on, too", thousands(problem.leaked)));
}

}  // namespace

std::string banner(const RunConfig& config, const Loaded& problem, const Params& params) {
  const BlasInfo blas = blas_info();
  const FitOptions& fit = config.fit;
  const Task& task = problem.task;
  const std::int64_t steps = step_count(fit, problem.data.train.count());
  std::string text = fmt::format("Tapehead {}  {}, kernel {}, {} flavour  {}\n", version(),
                                 blas.name, blas.kernel, blas.flavour, plural(threads(), "thread"));
  text += fmt::format("task   {}: {}; {} symbols, length {}, chance {:.2f}%\n", task.name,
                      task.summary, task.symbols, task.length, 100 * task.chance);
  text += data_line(problem, fit.seed) + model_line(config.model, params);
  const std::string extent = fit.steps > 0 ? plural(steps, "step")
                                           : fmt::format("{} of {}", plural(fit.epochs, "epoch"),
                                                         plural(steps / fit.epochs, "step"));
  return text + fmt::format("train  {}, batch {}, Adam lr {:g}, clip {:g}, warm-up {}, {}\n\n",
                            extent, fit.batch * fit.accumulate, fit.lr, fit.clip, fit.warmup,
                            detail::word_for(fit.schedule));
}

std::string summary(const FitResult& result,
                    const std::optional<report::SourceAttention>& on_source, double total_seconds) {
  std::string text;
  if (result.test) {
    text += fmt::format(
        "test         {:.4f}% of {} tokens, {:.2f}% of {} sequences, loss {:#.6g}\n",
        100 * result.test->accuracy(), thousands(result.test->tokens), 100 * result.test->exact(),
        thousands(result.test->sequences), result.test->loss);
  }
  if (on_source) {
    text += fmt::format(
        "attention    looks first at the position to copy in {:.2f}% of queries, with {:.0f}% of "
        "its "
        "weight\n",
        100 * on_source->peaks, 100 * on_source->weight);
  }
  text += fmt::format("time         {:.2f} s training and evaluation, {:.2f} s in all\n",
                      result.seconds, total_seconds);
  return text + fmt::format("fingerprint  {}\n", hex(result.fingerprint));
}

}  // namespace tapehead::cli

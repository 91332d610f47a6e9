#include "cli/session.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

#include <fmt/format.h>

#include <tapehead/system.hpp>

#include "cli/interrupts.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "cli/train_text.hpp"
#include "io/file.hpp"
#include "report/film.hpp"
#include "report/heat_map.hpp"
#include "report/samples.hpp"

namespace tapehead::cli {
namespace {

// The first test sequences through the trained model.
struct Probe {
  Batch samples;
  Tensor predicted;           // like the targets
  report::HeatMap attention;  // of the first sequence, first layer and head
  std::optional<report::SourceAttention> on_source;
};

Probe look_inside(const Task& task, const Model& model, const Sequences& test) {
  Probe probe;
  probe.samples = test.take(0, std::min<std::int64_t>(8, test.count()));
  probe.predicted = argmax(model(probe.samples));

  const Batch one = test.take(0, 1);
  const bool cross = task.model == ModelKind::encoder_decoder;
  const StackResult inside = model.with_weights(one);
  const Tensor& weights = (cross ? inside.cross_weights : inside.weights).front();  // [1,H,T,S]
  const std::int64_t rows = weights.dim(2);
  const std::int64_t columns = weights.dim(3);
  probe.attention = {
      reshape(slice(weights, 1, 0, 1), {rows, columns}),
      report::labels(cross ? task.outputs : task.inputs, cross ? one.decoder : one.inputs, 0, rows),
      report::labels(task.inputs, one.inputs, 0, columns),
      "Attention of layer 0, head 0, on a test sequence",
      cross ? "query: output token" : "query: input token",
      "key: input token"};
  if (task.source && task.model == ModelKind::encoder) {
    const Batch many = test.take(0, std::min<std::int64_t>(1000, test.count()));
    probe.on_source = report::attention_on_source(task, model.with_weights(many).weights.front());
  }
  return probe;
}

// Keeps the folder up to date: weights and state after every evaluation, so that what goes wrong
// later costs at most what came since.
FitResult train(Session& session, Params& params, const Model& model, Profile& profile,
                Output& out) {
  RunConfig& config = session.config;
  const Dataset& data = session.problem.data;
  FitOptions options = config.fit;
  options.stop = &Interrupts::flag();
  if (session.profile) options.profile = &profile;
  std::optional<RunFolder>& folder = session.folder;
  const std::string text = to_json(config);
  const auto save = [&](const char* name, std::int64_t step) {
    save_model(folder->file(name), params,
               {{"task", config.task}, {"config", text}, {"step", fmt::format("{}", step)}});
  };
  if (folder) folder->write("config.json", text + "\n");

  const std::int64_t steps = step_count(options, data.train.count());
  const std::int64_t per_epoch = steps_per_epoch(options, data.train.count());
  Progress progress(out, (steps + per_epoch - 1) / per_epoch, session.log_every,
                    options.evaluate_every == 0);
  report::Film film(session.problem.task, data.last());
  if (folder && session.state)
    film.restore(detail::read_file_if_any(folder->file("film.json")), session.state->step);
  FitCallbacks callbacks;
  callbacks.step = [&](const StepReport& report) {
    if (folder) {
      folder->add_metrics(report);
      if (report.validation != nullptr) {
        folder->flush_metrics();
        film.add(report.step, model, params, report.norms);
        folder->write("film.json", film.json());
        save("model.safetensors", report.step);
        if (report.best && options.patience > 0) save("best.safetensors", report.step);
      }
    }
    progress.step(report);
  };
  callbacks.checkpoint = [&](const FitState& state) {
    if (!folder) return;
    folder->flush_metrics();
    save("model.safetensors", state.step);
    save_checkpoint(folder->file("checkpoint.safetensors"), config, session.problem.task, params,
                    state);
  };
  try {
    return fit(params, std::cref(model), data, options, callbacks,
               session.state ? &*session.state : nullptr);
  } catch (const NonFiniteError& error) {
    progress.finish();
    if (folder) {
      folder->flush_metrics();
      out.result().set("status", "failed").set("error", error.what());
      folder->write("result.json", to_string(out.result(), 2) + "\n");
    }
    throw;
  }
}

}  // namespace

int run_session(Session& session, Params& params, const Model& model, Output& out) {
  const auto start = std::chrono::steady_clock::now();
  const RunConfig& config = session.config;
  const Task& task = session.problem.task;
  const Dataset& data = session.problem.data;
  std::optional<RunFolder>& folder = session.folder;

  const Interrupts interrupts;
  out.say(banner(config, session.problem, params));
  begin_result(out.result(), config, session.problem, params);
  if (folder) out.result().set("run", folder->path().string());
  Profile profile;
  const FitResult result = train(session, params, model, profile, out);
  add_result(out.result(), result);
  if (session.profile) out.result().set("profile", to_json(profile));

  const Probe probe = look_inside(task, model, data.last());
  if (probe.on_source) {
    out.result().set("attention_on_source", probe.on_source->weight);
    out.result().set("attention_peaks_on_source", probe.on_source->peaks);
  }
  const double total =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out.result().set("total_seconds", total);
  if (folder) {
    folder->write("attention.svg", report::svg_picture(probe.attention));
    folder->write("result.json", to_string(out.result(), 2) + "\n");
    (void)write_report(folder->path(), config, session.problem, params, model);
  }
  out.say(fmt::format("\n{}\n{}\n{}", report::text_picture(probe.attention),
                      report::sample_table(task, probe.samples, probe.predicted),
                      summary(result, probe.on_source, total)));
  if (folder) {
    out.say(fmt::format(
        "outputs      {0}: config.json metrics.csv model.safetensors checkpoint.safetensors "
        "attention.svg result.json report.html\n",
        folder->path().string()));
  }
  if (session.profile) out.say(fmt::format("\n{}", to_string(profile)));
  if (!result.stopped) return kDone;
  out.note(fmt::format(
      "tapehead: interrupted after step {} of {}{}\n", result.steps,
      step_count(config.fit, data.train.count()),
      folder ? fmt::format("; go on with: tapehead resume {}", folder->path().string()) : ""));
  return Interrupts::exit_status();
}

std::filesystem::path checkpoint_of(const std::string& run) {
  std::error_code error;
  std::filesystem::path path = run;
  if (std::filesystem::is_directory(path, error)) path /= "checkpoint.safetensors";
  if (!std::filesystem::exists(path, error)) {
    throw Misuse(fmt::format("'{}' is not a run: there is no {}", run,
                             path == run ? "such file or folder" : "checkpoint.safetensors in it"));
  }
  return path;
}

Opened open_run(const std::string& run) {
  const std::filesystem::path path = checkpoint_of(run);
  Checkpoint checkpoint = read_checkpoint(path);
  Params params(checkpoint.config.fit.seed);
  const Model model(params, checkpoint.config.model);
  load_weights(path, params);
  return {std::move(checkpoint), std::move(params), model};
}

}  // namespace tapehead::cli

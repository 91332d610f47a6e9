#include "cli/train_text.hpp"

#include <fmt/format.h>

#include <tapehead/system.hpp>

#include "report/progress_line.hpp"

namespace tapehead::cli {

using detail::Json;
using report::thousands;

namespace {

std::string hex(std::uint64_t number) { return fmt::format("0x{:016x}", number); }

std::string plural(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", thousands(count), what, count == 1 ? "" : "s");
}

}  // namespace

EncoderModelOptions model_options(const Task& task) {
  EncoderModelOptions options;
  options.symbols = task.symbols;
  options.classes = task.classes;
  options.max_length = task.length;
  return options;
}

Json config_json(const TrainSetup& setup, const Task& task, const EncoderModel& model) {
  const FitOptions& fit = setup.fit;
  const TransformerOptions& encoder = model.options.encoder;
  Json data;
  data.set("name", task.name).set("symbols", task.options.symbols);
  data.set("length", task.options.length).set("train_sequences", setup.sizes.train);
  data.set("validation_sequences", setup.sizes.validation);
  data.set("test_sequences", setup.sizes.test);
  Json shape;
  shape.set("kind", "encoder").set("positions", "sinusoidal").set("layers", encoder.layers);
  shape.set("width", encoder.width).set("heads", encoder.heads).set("hidden", encoder.hidden);
  shape.set("activation", "relu").set("norm", "post").set("dropout", encoder.dropout.branch);
  Json training;
  training.set("seed", fit.seed).set("epochs", fit.epochs).set("batch", fit.batch);
  training.set("optimiser", "adam").set("lr", fit.lr).set("beta1", fit.beta1);
  training.set("beta2", fit.beta2).set("eps", fit.eps).set("weight_decay", fit.weight_decay);
  training.set("clip", fit.clip).set("schedule", "cosine").set("warmup", fit.warmup);
  Json config;
  config.set("tapehead", version()).set("task", std::move(data)).set("model", std::move(shape));
  config.set("train", std::move(training));
  return config;
}

void begin_result(Json& json, const TrainSetup& setup, const Task& task, const Params& params) {
  const BlasInfo blas = blas_info();
  json.set("status", "running").set("tapehead", version()).set("task", task.name);
  json.set("seed", setup.fit.seed).set("parameters", params.size()).set("threads", threads());
  json.set("blas", fmt::format("{} {} {}", blas.name, blas.kernel, blas.flavour));
}

void add_result(Json& json, const FitResult& result) {
  json.set("status", result.stopped ? "interrupted" : "done").set("steps", result.steps);
  json.set("seconds", result.seconds).set("loss", result.loss);
  json.set("validation_accuracy",
           result.validation.empty() ? Json() : Json(result.validation.back().accuracy()));
  json.set("test_accuracy", result.test ? Json(result.test->accuracy()) : Json());
  json.set("test_exact", result.test ? Json(result.test->exact()) : Json());
  json.set("test_loss", result.test ? Json(result.test->loss) : Json());
  json.set("fingerprint", hex(result.fingerprint));
}

SourceAttention attention_on_source(const Task& task, const Tensor& weights) {
  const Tensor peaks = argmax(weights);  // [N,H,T]
  SourceAttention sums;
  for (std::int64_t n = 0; n < weights.dim(0); ++n) {
    for (std::int64_t t = 0; t < task.length; ++t) {
      sums.weight += weights.at({n, 0, t, task.source(t)});
      sums.peaks += peaks.at({n, 0, t}) == static_cast<double>(task.source(t)) ? 1 : 0;
    }
  }
  const auto queries = static_cast<double>(weights.dim(0) * task.length);
  return {sums.weight / queries, sums.peaks / queries};
}

std::string banner(const TrainSetup& setup, const Task& task, const EncoderModel& model,
                   const Params& params) {
  const BlasInfo blas = blas_info();
  const FitOptions& fit = setup.fit;
  const TransformerOptions& encoder = model.options.encoder;
  const std::int64_t steps = step_count(fit, setup.sizes.train);
  std::string text = fmt::format("Tapehead {}  {}, kernel {}, {} flavour  {}\n", version(),
                                 blas.name, blas.kernel, blas.flavour, plural(threads(), "thread"));
  text += fmt::format(
      "task   {}: {}; {} symbols, length {}, chance {:.2f}%\n"
      "       {} training, {} validation, {} test sequences, seed {}\n",
      task.name, task.summary, task.symbols, task.length, 100 * task.chance,
      thousands(setup.sizes.train), thousands(setup.sizes.validation), thousands(setup.sizes.test),
      fit.seed);
  text += fmt::format("model  encoder: {}, {}, width {}, feed-forward {}; {} parameters\n",
                      plural(encoder.layers, "layer"), plural(encoder.heads, "head"), encoder.width,
                      encoder.hidden, thousands(params.size()));
  return text +
         fmt::format("train  {} of {}, batch {}, Adam lr {:g}, clip {:g}, warm-up {}, cosine\n\n",
                     plural(fit.epochs, "epoch"), plural(steps / fit.epochs, "step"), fit.batch,
                     fit.lr, fit.clip, fit.warmup);
}

std::string summary(const FitResult& result, const std::optional<SourceAttention>& on_source,
                    double total_seconds) {
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

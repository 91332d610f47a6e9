// `tapehead train TASK`: a thin face of fit, with a folder for what comes out.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include <tapehead/system.hpp>
#include <tapehead/train.hpp>

#include "cli/cli.hpp"
#include "cli/interrupts.hpp"
#include "cli/progress.hpp"
#include "cli/train_text.hpp"
#include "report/heat_map.hpp"
#include "report/progress_line.hpp"
#include "report/samples.hpp"

namespace tapehead::cli {
namespace {

struct Args {
  TrainSetup setup;
  std::string task;
  std::string out;
  std::int64_t log_every = 100;
  bool no_save = false;
  std::function<bool(const char*)> given;  // whether an option is on the command line
};

// Everything that can be known to be wrong before the first file is made.
Task check(Args& args) {
  Task task;
  as_misuse([&] {
    task = make_task(args.task, args.setup.task);
    FitOptions& fit = args.setup.fit;
    if (!args.given("--warmup")) {
      // The published warm-up, or all of a shorter run.
      FitOptions without = fit;
      without.warmup = 0;
      fit.warmup = std::min(fit.warmup, step_count(without, args.setup.sizes.train));
    }
    (void)step_count(fit, args.setup.sizes.train);
  });
  if (args.setup.sizes.validation < 1 || args.setup.sizes.test < 1) {
    throw Misuse("--validation-sequences and --test-sequences must be at least 1");
  }
  if (args.log_every < 1) throw Misuse("--log-every must be at least 1");
  if (args.given("--out") && args.out.empty()) throw Misuse("--out needs the name of a folder");
  if (args.no_save && !args.out.empty()) throw Misuse("--no-save and --out exclude each other");
  return task;
}

std::optional<RunFolder> make_folder(const Args& args, const Task& task) {
  if (args.no_save) return std::nullopt;
  if (args.out.empty()) {
    return RunFolder::create_numbered(
        fmt::format("runs/{}-seed{}", task.name, args.setup.fit.seed));
  }
  try {
    return RunFolder::create(args.out);
  } catch (const ValueError& error) {
    throw Misuse(error.what());
  }
}

// The first test sequences through the trained model.
struct Probe {
  Sequences samples;
  Tensor predicted;           // [N,T]
  report::HeatMap attention;  // of the first sequence, first layer and head
  std::optional<SourceAttention> on_source;
};

Probe look_inside(const Task& task, const EncoderModel& model, const Sequences& test) {
  const auto first = [&](std::int64_t count) {
    return Sequences{slice(test.inputs, 0, 0, std::min(count, test.count())),
                     slice(test.targets, 0, 0, std::min(count, test.count()))};
  };
  Probe probe;
  probe.samples = first(8);
  probe.predicted = argmax(model(probe.samples.inputs));

  const Tensor weights = model.with_weights(first(1000).inputs).weights.front();  // [N,H,T,T]
  const std::int64_t length = task.length;
  const std::vector<std::int64_t> ids = slice(test.inputs, 0, 0, 1).to_vector<std::int64_t>();
  std::vector<std::string> labels;
  for (const std::int64_t id : ids) labels.push_back(task.symbol(id));
  probe.attention = {reshape(slice(slice(weights, 0, 0, 1), 1, 0, 1), {length, length}),
                     labels,
                     labels,
                     "Attention of layer 0, head 0, on a test sequence",
                     "query: input token",
                     "key: input token"};
  if (task.source) probe.on_source = attention_on_source(task, weights);
  return probe;
}

// Trains, keeping the folder up to date: the weights after every epoch, so that what goes wrong
// later costs at most one.
FitResult train(const Args& args, const Task& task, Params& params, const EncoderModel& model,
                const Dataset& data, std::optional<RunFolder>& folder, Output& out) {
  FitOptions options = args.setup.fit;
  options.stop = &Interrupts::flag();
  const std::string config = to_string(config_json(args.setup, task, model));
  const auto save = [&](std::int64_t step) {
    save_model(folder->file("model.safetensors"), params,
               {{"task", task.name}, {"config", config}, {"step", fmt::format("{}", step)}});
  };
  if (folder) folder->write("config.json", config + "\n");

  Progress progress(out, options.epochs, args.log_every);
  FitCallbacks callbacks;
  callbacks.step = [&](const StepReport& report) {
    if (folder) {
      folder->add_metrics(report);
      if (report.validation != nullptr) {
        folder->flush_metrics();
        save(report.step);
      }
    }
    progress.step(report);
  };
  const SequenceModel forward = [&model](const Tensor& ids, Rng* rng) {
    return model(ids, {}, rng);
  };
  try {
    FitResult result = fit(params, forward, data, options, callbacks);
    if (folder) {
      folder->flush_metrics();
      save(result.steps);
    }
    return result;
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

int run(Args& args, Output& out) {
  const auto start = std::chrono::steady_clock::now();
  const Task task = check(args);
  std::optional<UseThreads> use;
  if (args.setup.fit.threads != 0) use.emplace(args.setup.fit.threads);
  Params params(args.setup.fit.seed);
  const EncoderModel model(params, model_options(task));
  Dataset data;
  as_misuse([&] { data = draw(task, args.setup.sizes, args.setup.fit.seed); });
  std::optional<RunFolder> folder = make_folder(args, task);

  const Interrupts interrupts;
  out.say(banner(args.setup, task, model, params));
  begin_result(out.result(), args.setup, task, params);
  if (folder) out.result().set("run", folder->path().string());
  const FitResult result = train(args, task, params, model, data, folder, out);
  add_result(out.result(), result);

  const Probe probe = look_inside(task, model, data.test);
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
  }
  out.say(fmt::format("\n{}\n{}\n{}", report::text_picture(probe.attention),
                      report::sample_table(task, probe.samples, probe.predicted),
                      summary(result, probe.on_source, total)));
  if (folder) {
    out.say(fmt::format(
        "outputs      {}: config.json metrics.csv model.safetensors attention.svg result.json\n",
        folder->path().string()));
  }
  if (!result.stopped) return kDone;
  out.note(fmt::format("tapehead: interrupted after step {} of {}\n", result.steps,
                       step_count(args.setup.fit, args.setup.sizes.train)));
  return Interrupts::exit_status();
}

}  // namespace

void add_train(Cli& cli) {
  const auto args = std::make_shared<Args>();
  FitOptions& fit = args->setup.fit;
  Verb verb = cli.verb("train", "Train an encoder on a task and show what it learnt",
                       [args](Output& out) { return run(*args, out); });
  args->given = [verb](const char* name) { return verb.given(name); };
  verb.argument("TASK", args->task, "What to learn; see 'tapehead tasks'")
      .option("--seed", fit.seed, "N", "Decides data, first weights and order")
      .option("--epochs", fit.epochs, "N", "Passes over the training sequences")
      .option("--batch", fit.batch, "N", "Sequences in a step")
      .option("--lr", fit.lr, "X", "Peak learning rate of Adam")
      .option("--warmup", fit.warmup, "N", "Steps of linear warm-up before the cosine")
      .option("--clip", fit.clip, "X", "Limit of the gradient's global norm")
      .option("--weight-decay", fit.weight_decay, "X", "Decoupled decay of matrices")
      .option("--symbols", args->setup.task.symbols, "N", "Different tokens of the task")
      .option("--length", args->setup.task.length, "N", "Tokens in a sequence")
      .option("--train-sequences", args->setup.sizes.train, "N", "Sequences to train on")
      .option("--validation-sequences", args->setup.sizes.validation, "N",
              "Sequences to evaluate on after each epoch")
      .option("--test-sequences", args->setup.sizes.test, "N",
              "Sequences to evaluate on at the end")
      .option("--threads", fit.threads, "N",
              "Threads, 0: OMP_NUM_THREADS or all; the result is the same")
      .option("--out", args->out, "DIR",
              "New or empty folder for the outputs (default runs/TASK-seedN)")
      .option("--log-every", args->log_every, "N", "Steps between lines when not on a terminal")
      .flag("--no-save", args->no_save, "Write no files")
      .footer(
          "The defaults are the setup published for 'reverse' in the UvA Deep Learning tutorials.\n"
          "Ctrl-C once finishes the step and saves, twice stops at once.\n"
          "\nExamples:\n"
          "  tapehead train reverse\n"
          "  tapehead train reverse --seed 1 --out runs/second --threads 1\n"
          "  tapehead train reverse --length 24 --epochs 20 --json > result.json\n");
}

}  // namespace tapehead::cli

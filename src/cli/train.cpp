// `tapehead train TASK`: a thin face of fit, with a folder for what comes out.
#include <fmt/format.h>

#include <tapehead/system.hpp>

#include "cli/many.hpp"
#include "cli/run_options.hpp"
#include "cli/session.hpp"
#include "io/file.hpp"

namespace tapehead::cli {
namespace {

struct Args {
  std::string task;
  std::uint64_t seed = 0;
  int threads = 0;
  RunOptions options;
  std::string out;
  std::int64_t log_every = 100;
  bool no_save = false;
  bool check_finite = false;
  bool profile = false;
  std::string config;  // a file
  std::int64_t seeds = 1;
  std::vector<std::string> sweep;
  double solved = TrialOptions().solved;
  std::function<bool(const char*)> given;  // whether an option is on the command line
};

// Everything that can be known to be wrong before the first file is made.
void check(const Args& args, Session& session) {
  if (args.log_every < 1) throw Misuse("--log-every must be at least 1");
  if (args.given("--out") && args.out.empty()) throw Misuse("--out needs the name of a folder");
  if (args.no_save && !args.out.empty()) throw Misuse("--no-save and --out exclude each other");
  RunConfig& config = session.config;
  config = default_config(args.task);
  if (args.given("--config")) {
    as_misuse([&] { config = config_from_json(detail::read_file(args.config)); });
    if (config.task != args.task)
      throw Misuse(fmt::format("--config: {} is of task {}", args.config, config.task));
  }
  args.options.apply(config, args.given);
  if (args.given("--seed") || !args.given("--config")) config.fit.seed = args.seed;
  config.fit.threads = args.threads;
  config.fit.check_finite = args.check_finite;
  session.profile = args.profile;
  if (config.sizes.validation < 1 || config.sizes.test < 1) {
    throw Misuse("--validation-sequences and --test-sequences must be at least 1");
  }
  as_misuse([&] {
    // What is wrong with the options is known before the data are drawn, as far as it can be.
    if (config.data.empty()) {
      const Task task = make_task(config.task, config.options);
      if (!task.all) {
        FitOptions fit = config.fit;
        fit.warmup = 0;
        (void)step_count(fit, config.sizes.train);
      }
    }
    session.problem = load(config);
    FitOptions& fit = config.fit;
    if (!args.given("--warmup") && !args.given("--config"))
      shorten_warmup(fit, session.problem.data.train.count());
    (void)step_count(fit, session.problem.data.train.count());
  });
}

std::optional<RunFolder> make_folder(const Args& args, std::uint64_t seed) {
  if (args.no_save) return std::nullopt;
  if (args.out.empty()) {
    return RunFolder::create_numbered(fmt::format("runs/{}-seed{}", args.task, seed));
  }
  try {
    return RunFolder::create(args.out);
  } catch (const ValueError& error) {
    throw Misuse(error.what());
  }
}

int run(const Args& args, Output& out) {
  Session session;
  session.log_every = args.log_every;
  check(args, session);
  if (args.given("--seeds") || args.given("--sweep")) {
    for (const char* option : {"--out", "--no-save", "--log-every", "--profile"}) {
      if (args.given(option)) throw Misuse(fmt::format("{} means nothing to many runs", option));
    }
    return run_many({session.config, args.seeds, args.sweep, args.solved, args.threads,
                     !args.given("--warmup")},
                    out);
  }
  if (args.given("--solved")) throw Misuse("--solved belongs to --seeds and --sweep");
  std::optional<UseThreads> use;
  if (args.threads != 0) use.emplace(args.threads);
  Params params(session.config.fit.seed);
  std::optional<Model> model;
  as_misuse([&] { model.emplace(params, session.config.model); });
  session.folder = make_folder(args, session.config.fit.seed);
  return run_session(session, params, *model, out);
}

}  // namespace

void add_train(Cli& cli) {
  const auto args = std::make_shared<Args>();
  Verb verb = cli.verb("train", "Train a model on a task and show what it learnt",
                       [args](Output& out) { return run(*args, out); });
  args->given = [verb](const char* name) { return verb.given(name); };
  verb.argument("TASK", args->task, "What to learn; see 'tapehead tasks'")
      .option("--seed", args->seed, "N", "Decides data, first weights and order");
  args->options.add_to(verb);
  verb.option("--threads", args->threads, "N",
              "Threads, 0: OMP_NUM_THREADS or all; the result is the same")
      .option("--out", args->out, "DIR",
              "New or empty folder for the outputs (default runs/TASK-seedN)")
      .option("--log-every", args->log_every, "N", "Steps between lines when not on a terminal")
      .flag("--no-save", args->no_save, "Write no files")
      .flag("--check-finite", args->check_finite,
            "Name the op, module and line of the first NaN or infinity")
      .flag("--profile", args->profile, "Show the time and memory of each op and module at the end")
      .option("--config", args->config, "FILE", "Settings from a run's config.json")
      .option("--seeds", args->seeds, "N",
              "Many runs, of this seed and those after it, side by side; no files")
      .options("--sweep", args->sweep, "NAME=A,B",
               "Runs with each of the values of a setting in config.json; crossed with others")
      .option("--solved", args->solved, "X", "Validation accuracy that counts as solved")
      .footer(
          "What is not given is the task's own: for 'reverse' the setup published in the UvA Deep\n"
          "Learning tutorials. config.json in the run's folder holds all of it.\n"
          "Ctrl-C once finishes the step and saves, twice stops at once.\n"
          "\nExamples:\n"
          "  tapehead train reverse\n"
          "  tapehead train reverse --seed 1 --out runs/second --threads 1\n"
          "  tapehead train reverse --seeds 10 --sweep lr=5e-4,2e-3 --sweep width=16,32\n"
          "  tapehead train sort --layers 3 --width 48 --heads 3\n"
          "  tapehead train text --data book.txt --length 64 --minutes 3\n");
}

}  // namespace tapehead::cli

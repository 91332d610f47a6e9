// `tapehead resume RUN`: goes on where a run stopped, to the same bits as if it had not.
#include <fmt/format.h>

#include <tapehead/system.hpp>

#include "cli/run_options.hpp"
#include "cli/session.hpp"

namespace tapehead::cli {
namespace {

struct Args {
  std::string run;
  int threads = 0;
  RunOptions options;
  std::int64_t log_every = 100;
  bool change = false;
  bool check_finite = false;
  bool profile = false;
  std::function<bool(const char*)> given;
};

// The settings with what the command line says otherwise. Each difference is named, and none is
// taken without --change: the result is then no longer that of one uninterrupted run.
RunConfig settings(const Args& args, const RunConfig& saved, Output& out) {
  RunConfig config = saved;
  args.options.apply(config, args.given);
  const std::vector<std::string> different = differences(saved, config);
  if (different.empty()) return config;
  const std::string list = fmt::format("{}", fmt::join(different, "; "));
  if (!args.change) {
    throw Misuse(fmt::format(
        "resume: the run was made with other settings ({}); leave them out, or add --change to go "
        "on with the new ones",
        list));
  }
  for (const std::string& line : different) {
    if (!line.starts_with("train.")) {
      throw Misuse(fmt::format("resume: data and model come from the run and stay ({})", line));
    }
    if (line.starts_with("train.seed") || line.starts_with("train.batch") ||
        line.starts_with("train.accumulate")) {
      out.note("tapehead: the order of the data changes\n");
    }
  }
  out.note(fmt::format("tapehead: changed: {}\n", list));
  return config;
}

int run(const Args& args, Output& out) {
  if (args.log_every < 1) throw Misuse("--log-every must be at least 1");
  Opened opened = open_run(args.run);
  Session session;
  session.log_every = args.log_every;
  session.config = settings(args, opened.checkpoint.config, out);
  session.config.fit.threads = args.threads;
  session.config.fit.check_finite = args.check_finite;
  session.profile = args.profile;
  session.problem = load(session.config);
  if (session.problem.task.inputs.symbols() != opened.checkpoint.inputs.symbols() ||
      session.problem.task.outputs.symbols() != opened.checkpoint.outputs.symbols()) {
    throw Misuse(fmt::format("resume: '{}' has other characters now than when the run began",
                             session.config.data));
  }
  session.state = std::move(opened.checkpoint.state);
  as_misuse([&] {
    const std::int64_t steps = step_count(session.config.fit, session.problem.data.train.count());
    if (session.state->step >= steps) {
      throw Misuse(fmt::format("resume: the run is complete: {} of {} steps are done",
                               session.state->step, steps));
    }
  });
  const std::filesystem::path folder = checkpoint_of(args.run).parent_path();
  session.folder = RunFolder::reopen(folder.empty() ? "." : folder, session.state->step);
  std::optional<UseThreads> use;
  if (args.threads != 0) use.emplace(args.threads);
  out.note(fmt::format("tapehead: going on after step {}\n", session.state->step));
  return run_session(session, opened.params, opened.model, out);
}

}  // namespace

void add_resume(Cli& cli) {
  const auto args = std::make_shared<Args>();
  Verb verb = cli.verb("resume", "Go on with a run that was stopped, to the same bits",
                       [args](Output& out) { return run(*args, out); });
  args->given = [verb](const char* name) { return verb.given(name); };
  verb.argument("RUN", args->run, "The folder of the run");
  args->options.add_to(verb);
  verb.option("--threads", args->threads, "N", "Threads; the result is the same")
      .option("--log-every", args->log_every, "N", "Steps between lines when not on a terminal")
      .flag("--check-finite", args->check_finite,
            "Name the op, module and line of the first NaN or infinity")
      .flag("--profile", args->profile, "Show the time and memory of each op and module at the end")
      .flag("--change", args->change, "Allow settings of the training that differ from the run's")
      .footer(
          "N steps, a stop, a resume and N steps give the same weights, losses and fingerprint as\n"
          "2N steps without a stop. Settings come from the run.\n"
          "\nExamples:\n"
          "  tapehead resume runs/sort-seed0\n"
          "  tapehead resume runs/sort-seed0 --steps 4000 --change\n");
}

}  // namespace tapehead::cli

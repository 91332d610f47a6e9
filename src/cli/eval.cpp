// `tapehead eval RUN`: a whole split through a trained model, with intervals.
#include <fmt/format.h>

#include "cli/session.hpp"
#include "report/progress_line.hpp"

namespace tapehead::cli {
namespace {

struct Args {
  std::string run;
  std::string split = "test";
  std::string data;
  std::optional<std::int64_t> length;
  std::optional<std::int64_t> sequences;
};

const Sequences& split_of(const Dataset& data, const std::string& name) {
  if (name == "train") return data.train;
  if (name == "validation") return data.validation;
  if (name == "test") return data.test.defined() ? data.test : data.validation;
  throw Misuse(fmt::format("--split: '{}' is unknown; known are train, validation, test", name));
}

int run(const Args& args, Output& out) {
  Opened opened = open_run(args.run);
  RunConfig config = opened.checkpoint.config;
  if (!args.data.empty()) config.data = args.data;
  Loaded problem;
  as_misuse([&] {
    if (args.length) {
      if (!config.data.empty()) throw Misuse("--length: the length of a file is what it is");
      config.options.length = args.length;
    }
    if (args.sequences) config.sizes.test = config.sizes.validation = *args.sequences;
    RunConfig copy = config;
    problem = load(copy);
    if (copy.model.symbols != opened.model.config().symbols) {
      throw Misuse("the model was trained with other symbols");
    }
  });
  const Sequences& split = split_of(problem.data, args.split);
  if (!split.defined()) throw Misuse(fmt::format("the run has no {} split", args.split));
  Evaluation e;
  const auto measure = [&] { e = evaluate(std::cref(opened.model), split); };
  if (args.length) {
    as_misuse(measure);  // learned positions end somewhere
  } else {
    measure();
  }
  using report::thousands;
  out.say(fmt::format("{}: {}, {} sequences of {}\n", args.run, args.split, thousands(e.sequences),
                      split.length()));
  out.say(fmt::format("tokens       {:.4f}% +- {:.4f} of {}\n", 100 * e.accuracy(),
                      100 * e.accuracy_interval(), thousands(e.tokens)));
  out.say(fmt::format("sequences    {:.4f}% +- {:.4f} of {}\n", 100 * e.exact(),
                      100 * e.exact_interval(), thousands(e.sequences)));
  out.say(
      fmt::format("loss         {:#.6g} nats a token\nperplexity   {:#.6g}\nbits         {:#.6g} a "
                  "token\n",
                  e.loss, e.perplexity(), e.bits()));
  out.result().set("run", args.run).set("split", args.split).set("tokens", e.tokens);
  out.result().set("accuracy", e.accuracy()).set("exact", e.exact()).set("loss", e.loss);
  out.result().set("accuracy_interval", e.accuracy_interval());
  out.result().set("exact_interval", e.exact_interval());
  out.result().set("perplexity", e.perplexity()).set("bits", e.bits());
  return kDone;
}

}  // namespace

void add_eval(Cli& cli) {
  const auto args = std::make_shared<Args>();
  cli.verb("eval", "Evaluate a trained model on a whole split",
           [args](Output& out) { return run(*args, out); })
      .argument("RUN", args->run, "The folder of the run")
      .option("--split", args->split, "NAME", "train, validation or test (default)")
      .option("--data", args->data, "FILE",
              "The file that it learnt from, when it is elsewhere now")
      .option("--length", args->length, "N", "Sequences of another length than was trained on")
      .option("--sequences", args->sequences, "N", "How many to draw")
      .footer(
          "+- is half of a 95% interval, by the binomial of tokens or sequences counted.\n"
          "\nExamples:\n"
          "  tapehead eval runs/reverse-seed0\n"
          "  tapehead eval runs/reverse-seed0 --length 24\n");
}

}  // namespace tapehead::cli

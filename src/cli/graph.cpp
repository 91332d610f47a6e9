// `tapehead graph TASK`: what the tape records of one training step, as a picture.
#include <fmt/format.h>

#include <tapehead/system.hpp>

#include "cli/graphviz.hpp"
#include "cli/run_options.hpp"
#include "io/file.hpp"

namespace tapehead::cli {
namespace {

struct Args {
  std::string task;
  RunOptions options;
  std::int64_t batch = 2;
  bool plain = false;
  std::string output;
  std::function<bool(const char*)> given;
};

// The tape of the forward pass with its loss.
struct Drawn {
  std::string dot;
  std::int64_t nodes = 0;
};

Drawn draw_tape(const Args& args) {
  RunConfig config = default_config(args.task);
  args.options.apply(config, args.given);
  config.sizes = {.train = args.batch, .validation = 1, .test = 1};
  Drawn drawn;
  as_misuse([&] {
    const Loaded problem = load(config);
    Params params(config.fit.seed);
    const Model model(params, config.model);
    const Batch batch =
        problem.data.train.take(0, std::min(args.batch, problem.data.train.count()));
    TapeOptions options;
    options.differentiable = args.plain;
    Tape tape(options);
    (void)cross_entropy(model(batch), batch.targets, {.ignore = kIgnored});
    drawn = {tape.to_dot(), tape.size()};
  });
  return drawn;
}

int run(const Args& args, Output& out) {
  if (args.batch < 1) throw Misuse("--batch must be at least 1");
  const bool svg = args.output.ends_with(".svg");
  if (args.given("--output") && !svg && !args.output.ends_with(".dot")) {
    throw Misuse(fmt::format("--output must end in .svg or .dot, got '{}'", args.output));
  }
  const Drawn drawn = draw_tape(args);
  out.result().set("task", args.task).set("nodes", drawn.nodes);
  if (args.output.empty()) {
    if (out.json()) {
      out.result().set("dot", drawn.dot);
    } else {
      out.say(drawn.dot);
    }
    return kDone;
  }
  detail::replace_file(args.output, svg ? svg_of(drawn.dot) : drawn.dot);
  out.result().set("output", args.output);
  out.note(fmt::format("tapehead: {} nodes in {}\n", drawn.nodes, args.output));
  return kDone;
}

}  // namespace

void add_graph(Cli& cli) {
  const auto args = std::make_shared<Args>();
  Verb verb = cli.verb("graph", "Draw what the tape records of a task's model",
                       [args](Output& out) { return run(*args, out); });
  args->given = [verb](const char* name) { return verb.given(name); };
  verb.argument("TASK", args->task, "Whose model; see 'tapehead tasks'")
      .option("--output", args->output, "FILE",
              ".svg, which needs Graphviz, or .dot; else the graph is printed")
      .option("--batch", args->batch, "N", "Sequences")
      .flag("--plain-ops", args->plain, "Fused ops as their compositions of plain ones")
      .option("--data", args->options.data, "FILE",
              "What text, lines, pairs and labels learn from");
  args->options.add_model_to(verb);
  verb.footer(
      "One forward pass with its loss: modules are boxes, edges carry shapes, parameters have\n"
      "their names.\n"
      "\nExamples:\n"
      "  tapehead graph reverse --output reverse.svg\n"
      "  tapehead graph sort --layers 1 --plain-ops | dot -Tpng -o sort.png\n");
}

}  // namespace tapehead::cli

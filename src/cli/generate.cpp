// `tapehead generate RUN`: text from a trained language model or encoder-decoder.
#include <functional>

#include <fmt/format.h>

#include <tapehead/generate.hpp>

#include "cli/session.hpp"
#include "report/samples.hpp"

namespace tapehead::cli {
namespace {

struct Args {
  std::string run;
  std::string prompt;
  std::uint64_t seed = 0;
  std::int64_t tokens = 200;
  std::int64_t samples = 1;
  std::int64_t beams = 0;
  SamplingOptions sampling;
  std::function<bool(const char*)> given;
};

int run(const Args& args, Output& out) {
  as_misuse([&] { check(args.sampling); });
  if (args.tokens < 1) throw Misuse("--tokens must be at least 1");
  if (args.samples < 1) throw Misuse("--samples must be at least 1");
  constexpr std::int64_t kMostBeams = 10'000;
  if (args.beams < 0 || args.beams > kMostBeams)
    throw Misuse(fmt::format("--beams must be 0..{}, got {}", kMostBeams, args.beams));
  for (const char* option : {"--samples", "--seed", "--temperature", "--top-k", "--top-p"}) {
    if (args.beams > 0 && args.given(option))
      throw Misuse(fmt::format("{} means nothing to --beams, which draws nothing", option));
  }
  const Opened opened = open_run(args.run);
  const Checkpoint& checkpoint = opened.checkpoint;
  const EncoderDecoder* pair = opened.model.encoder_decoder();
  const LanguageModel* language = opened.model.language_model();
  if (pair == nullptr && language == nullptr) {
    throw Misuse("generate: the model answers at once and generates nothing; use eval");
  }
  const AnswerSymbols& answer = find_task(checkpoint.config.task).answer;
  const std::optional<std::int64_t> stop = checkpoint.outputs.find(answer.stop);
  std::vector<std::int64_t> given;
  as_misuse([&] { given = checkpoint.inputs.encode(args.prompt); });
  if (pair != nullptr && given.empty()) throw Misuse("generate: --prompt says the source");
  std::vector<std::int64_t> prompt = given;
  if (pair != nullptr) prompt.clear();
  const bool lines = checkpoint.config.task == "lines" || pair != nullptr;
  if (prompt.empty() || lines)
    prompt.insert(prompt.begin(), checkpoint.outputs.find(answer.start).value_or(0));
  const NextToken next = pair != nullptr ? next_token(*pair, given) : next_token(*language);
  std::int64_t tokens = args.tokens;
  if (pair != nullptr && !stop) {
    tokens =
        std::min(tokens, answer.length > 0 ? answer.length : std::ssize(given) + answer.length);
  }

  detail::Json texts = detail::Json::array();
  if (args.beams > 0) {
    for (const Beam& beam : beam_search(next, prompt, tokens, stop, args.beams)) {
      const std::string text = checkpoint.outputs.decode(beam.ids);
      out.say(fmt::format("{:9.4f}  {}\n", beam.log_probability, text));
      texts.push(text);
    }
  } else {
    Rng rng(args.seed, Stream::sampling);
    GenerateOptions options{.tokens = tokens, .stop = stop, .sampling = args.sampling};
    options.each = [&](std::int64_t id) { out.say(checkpoint.outputs.symbol(id)); };
    for (std::int64_t i = 0; i < args.samples; ++i) {
      if (pair == nullptr) out.say(args.prompt);
      texts.push(checkpoint.outputs.decode(generate(next, prompt, options, rng)));
      out.say("\n");
    }
  }
  out.result().set("run", args.run).set("prompt", args.prompt).set("texts", std::move(texts));
  return kDone;
}

}  // namespace

void add_generate(Cli& cli) {
  const auto args = std::make_shared<Args>();
  Verb verb = cli.verb("generate", "Let a trained model go on with a text",
                       [args](Output& out) { return run(*args, out); });
  args->given = [verb](const char* name) { return verb.given(name); };
  verb.argument("RUN", args->run, "The folder of the run")
      .option("--prompt", args->prompt, "TEXT", "What to go on with; the source to translate")
      .option("--tokens", args->tokens, "N", "Tokens at most")
      .option("--samples", args->samples, "N", "How many texts, from one random stream")
      .option("--seed", args->seed, "N", "Of the sampling, which has a stream of its own")
      .option("--temperature", args->sampling.temperature, "X", "0: always the likeliest token")
      .option("--top-k", args->sampling.top_k, "N", "Among the N likeliest only; 0: all")
      .option("--top-p", args->sampling.top_p, "X", "Among the likeliest that reach this much")
      .option("--beams", args->beams, "N", "Beam search of this width in place of sampling")
      .footer(
          "\nExamples:\n"
          "  tapehead generate runs/text-seed0 --prompt 'To be' --temperature 0.8\n"
          "  tapehead generate runs/lines-seed0 --samples 20 --temperature 0.5\n"
          "  tapehead generate runs/dates-seed0 --prompt 'march 3, 2019' --temperature 0\n"
          "  tapehead generate runs/pairs-seed0 --prompt hello --beams 4\n");
}

}  // namespace tapehead::cli

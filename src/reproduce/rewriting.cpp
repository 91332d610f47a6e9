// reverse, sort, addition, copy: generated sequences that are to be learnt without a fault.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <tapehead/generate.hpp>

#include "reproduce/catalog.hpp"
#include "train/median.hpp"

namespace tapehead::detail {

namespace {

Finding all_right(const char* what, const Evaluation& test, std::int64_t wanted) {
  return {what, fmt::format("{}/{}", wanted, wanted),
          fmt::format("{}/{}", test.sequences_right, test.sequences),
          test.sequences == wanted && test.sequences_right == wanted};
}

}  // namespace

void mingpt(RunConfig& config) {
  config.model.positions = Positions::learned;
  config.model.one_hot = false;
  config.model.output_bias = false;
  TransformerOptions& stack = config.model.stack;
  stack.activation = Activation::gelu_tanh;
  stack.place = NormPlace::pre;
  stack.dropout = {.embedding = 0.1, .attention = 0.1, .hidden = 0, .branch = 0.1};
  stack.init = Initialiser::gpt;
  config.fit.beta2 = 0.95;
  config.fit.weight_decay = 0.1;
  config.fit.clip = 1;
  config.fit.warmup = 0;
}

Reproduction reverse_reproduction() {
  Reproduction entry{.name = "reverse",
                     .what = "an encoder of one layer and one head reads sequences backwards",
                     .source = "P. Lippe, UvA Deep Learning Tutorials, 6",
                     .published = "100.00% of the test tokens",
                     .minutes = 0.15};
  entry.config = default_config("reverse");
  entry.run = each_seed([](const Trained& trained) -> std::vector<Finding> {
    const double accuracy = trained.result.test->accuracy();
    return {{"test tokens right", "100.00%", fmt::format("{:.4f}%", 100 * accuracy),
             accuracy >= 0.99995}};
  });
  return entry;
}

Reproduction sort_reproduction() {
  Reproduction entry{.name = "sort",
                     .what = "a GPT of 3 layers sorts 6 digits of 3 kinds",
                     .source = "A. Karpathy, minGPT, demo",
                     .published = "5000/5000 held out, loss <= 0.01",
                     .minutes = 0.5};
  RunConfig& config = entry.config;
  config.task = "sort";
  mingpt(config);
  config.model.stack.layers = 3;
  config.model.stack.heads = 3;
  config.model.stack.width = 48;
  config.model.stack.hidden = 192;
  FitOptions& fit = config.fit;
  fit.steps = 2'000;
  fit.batch = 64;
  fit.lr = 5e-4;
  fit.schedule = Schedule::constant;
  fit.evaluate_every = 500;
  // Every step sees new draws.
  config.sizes = {.train = fit.steps * fit.batch, .validation = 1'000, .test = 5'000};
  entry.run = each_seed([](const Trained& trained) -> std::vector<Finding> {
    const Evaluation& test = *trained.result.test;
    return {all_right("held-out sequences sorted", test, 5'000),
            {"held-out loss", "<= 0.01", fmt::format("{:.6f}", test.loss), test.loss <= 0.01}};
  });
  return entry;
}

Reproduction addition_reproduction() {
  Reproduction entry{.name = "addition",
                     .what = "a GPT of 2 layers adds two 2-digit numbers, digits in plain order",
                     .source = "A. Karpathy, minGPT, play_math",
                     .published = "1000/1000 held out",
                     .minutes = 2};
  RunConfig& config = entry.config;
  config.task = "addition";
  config.options.length = 2;
  mingpt(config);
  config.model.stack.layers = 2;
  config.model.stack.heads = 4;
  config.model.stack.width = 128;
  config.model.stack.hidden = 512;
  FitOptions& fit = config.fit;
  fit.epochs = 50;
  fit.batch = 512;
  fit.keep_last = true;
  fit.lr = 6e-4;
  fit.warmup_tokens = 1'024;
  fit.evaluate_every = 90;
  entry.run = each_seed([](const Trained& trained) -> std::vector<Finding> {
    return {all_right("held-out sums right", *trained.result.test, 1'000)};
  });
  return entry;
}

namespace {

bool copies_one_to_ten(const EncoderDecoder& model) {
  std::vector<std::int64_t> source(10);
  std::iota(source.begin(), source.end(), std::int64_t{1});
  Rng unused(0);
  const std::vector<std::int64_t> said = generate(
      next_token(model, source), {1}, {.tokens = 9, .sampling = {.temperature = 0}}, unused);
  return std::equal(said.begin(), said.end(), source.begin() + 1, source.end());
}

// The median over the seeds; each seed's number is a remark.
std::vector<Finding> run_copy(const Reproduction& self, const ReproduceOptions& options) {
  std::vector<double> losses;
  std::int64_t exact = 0;
  const std::int64_t seeds = seeds_of(self, options);
  for (std::int64_t i = 0; i < seeds; ++i) {
    const auto trained = train_one(self, options, options.seed + static_cast<std::uint64_t>(i));
    if (!trained) return {};
    losses.push_back(trained->result.validation.back().loss);
    exact += copies_one_to_ten(*trained->model.encoder_decoder()) ? 1 : 0;
  }
  std::string each;
  for (const double loss : losses) each += fmt::format(" {:.3f}", loss);
  const double middle = median(losses);
  return {{fmt::format("last evaluation loss, median of {}", seeds), "<= 0.35",
           fmt::format("{:.4f} of{}", middle, each), middle <= 0.35},
          {"greedy copy of 1 .. 10 exact, seeds", fmt::format("{0}/{0}", seeds),
           fmt::format("{}/{}", exact, seeds), exact == seeds}};
}

}  // namespace

Reproduction copy_reproduction() {
  Reproduction entry{.name = "copy",
                     .what = "an encoder-decoder of 2 layers and width 512 copies 10 tokens",
                     .source = "A. Rush, The Annotated Transformer (2018)",
                     .published = "median of the last loss <= 0.35, greedy copy exact",
                     .minutes = 5,
                     .seeds = 5};
  RunConfig& config = entry.config;
  config.task = "copy-rest";
  config.model.positions = Positions::sinusoidal;
  config.model.one_hot = false;
  config.model.scaled = true;
  config.model.stack = {
      .layers = 2,
      .width = 512,
      .heads = 8,
      .hidden = 2048,
      .activation = Activation::relu,
      .place = NormPlace::pre,
      .dropout = {.embedding = 0.1, .attention = 0.1, .hidden = 0.1, .branch = 0.1},
      .init = Initialiser::xavier};
  FitOptions& fit = config.fit;
  fit.steps = 200;
  fit.batch = 30;
  fit.beta2 = 0.98;
  fit.eps = 1e-9;
  fit.clip = std::numeric_limits<double>::infinity();
  // factor 1, width 512: lr is the rate at the end of the warm-up.
  fit.schedule = Schedule::inverse_sqrt;
  fit.warmup = 400;
  fit.lr = 1 / std::sqrt(512.0 * 400.0);
  fit.evaluate_every = 20;
  config.sizes = {.train = fit.steps * fit.batch, .validation = 150, .test = 150};
  entry.run = run_copy;
  return entry;
}

}  // namespace tapehead::detail

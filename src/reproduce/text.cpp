// shakespeare, gpt-dev: characters of Shakespeare's plays.
#include <limits>

#include <fmt/format.h>

#include "reproduce/catalog.hpp"

namespace tapehead::detail {

namespace {

RunReproduction validation_loss(const char* published, double low, double high) {
  return each_seed([=](const Trained& trained) -> std::vector<Finding> {
    const double loss = trained.result.validation.back().loss;
    return {{"loss of the whole validation split", published, fmt::format("{:.4f}", loss),
             low <= loss && loss <= high}};
  });
}

}  // namespace

Reproduction shakespeare_reproduction() {
  Reproduction entry{.name = "shakespeare",
                     .what = "a GPT of 4 layers and width 128 on Shakespeare's plays",
                     .source = "A. Karpathy, nanoGPT, on a laptop",
                     .published = "validation loss <= 1.90 (1.88)",
                     .minutes = 2,
                     .data = "tinyshakespeare.txt"};
  RunConfig& config = entry.config;
  config.task = "text";
  config.options.length = 64;
  config.model.positions = Positions::learned;
  config.model.one_hot = false;
  config.model.tied = true;
  config.model.output_bias = false;
  config.model.stack = {.layers = 4,
                        .width = 128,
                        .heads = 4,
                        .hidden = 512,
                        .activation = Activation::gelu,
                        .place = NormPlace::pre,
                        .bias = false,
                        .init = Initialiser::gpt};
  FitOptions& fit = config.fit;
  fit.steps = 2'000;
  fit.batch = 12;
  fit.lr = 1e-3;
  fit.lr_end = 1e-4;
  fit.warmup = 100;
  fit.beta2 = 0.99;
  fit.weight_decay = 0.1;
  fit.clip = 1;
  fit.evaluate_every = 500;
  entry.run = validation_loss("<= 1.90", -std::numeric_limits<double>::infinity(), 1.90);
  return entry;
}

Reproduction gpt_dev_reproduction() {
  Reproduction entry{.name = "gpt-dev",
                     .what = "a GPT of 4 layers and width 64 on Shakespeare's plays",
                     .source = "A. Karpathy, Let's build GPT, gpt.py",
                     .published = "validation loss 1.82 +- 0.03",
                     .minutes = 3,
                     .data = "tinyshakespeare.txt"};
  RunConfig& config = entry.config;
  config.task = "text";
  config.options.length = 32;
  config.model.positions = Positions::learned;
  config.model.one_hot = false;
  config.model.stack = {.layers = 4,
                        .width = 64,
                        .heads = 4,
                        .hidden = 256,
                        .activation = Activation::relu,
                        .place = NormPlace::pre,
                        .qkv_bias = false,
                        .init = Initialiser::fan_in};
  FitOptions& fit = config.fit;
  fit.steps = 5'000;
  fit.batch = 16;
  fit.lr = 1e-3;
  fit.schedule = Schedule::constant;
  fit.warmup = 0;
  fit.weight_decay = 0.01;
  fit.decay_all = true;
  fit.clip = std::numeric_limits<double>::infinity();
  fit.evaluate_every = 1'000;
  entry.run = validation_loss("1.82 +- 0.03", 1.79, 1.85);
  return entry;
}

}  // namespace tapehead::detail

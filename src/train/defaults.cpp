// What each task is trained with when nothing else is said.
#include <fmt/format.h>

#include <tapehead/runs.hpp>

#include "core/message.hpp"

namespace tapehead {
namespace {

// The pre-norm GPT of small size: Radford et al. 2019, as in nanoGPT and minGPT.
void small_gpt(RunConfig& config) {
  config.model.positions = Positions::learned;
  config.model.one_hot = false;
  config.model.output_bias = false;
  config.model.stack = {.layers = 2,
                        .width = 64,
                        .heads = 4,
                        .hidden = 256,
                        .activation = Activation::gelu_tanh,
                        .place = NormPlace::pre,
                        .init = Initialiser::gpt};
  config.sizes = {.train = 20'000, .validation = 1'000, .test = 2'000};
  config.fit.steps = 2'000;
  config.fit.batch = 64;
  config.fit.lr = 2e-3;
  config.fit.warmup = 100;
  config.fit.beta2 = 0.98;
  config.fit.weight_decay = 0.1;
  config.fit.clip = 1;
  config.fit.evaluate_every = 250;
}

}  // namespace

RunConfig default_config(std::string_view task) {
  RunConfig config;
  config.task = task;
  if (task == "reverse") return config;
  small_gpt(config);
  TransformerOptions& stack = config.model.stack;
  FitOptions& fit = config.fit;
  if (task == "copy" || task == "dates" || task == "pairs") {
    config.model.positions = Positions::sinusoidal;
    config.model.scaled = true;
    stack.init = Initialiser::xavier;
    fit.steps = task == "copy" ? 400 : 1'000;
  } else if (task == "parity" || task == "first" || task == "majority" || task == "labels") {
    stack.init = Initialiser::standard;
    if (task == "first" || task == "majority") fit.steps = 500;
    if (task == "parity") {
      stack.activation = Activation::relu;
      stack.place = NormPlace::post;
      fit.lr = 1e-3;
      fit.weight_decay = 0;
    }
  } else if (task == "recall") {
    fit.steps = 4'000;
    fit.lr = 1e-3;
  } else if (task == "sort") {
    fit.steps = 600;
  } else if (task == "text") {
    // nanoGPT's setup for Shakespeare's plays on a laptop.
    config.model.tied = true;
    stack.layers = 4;
    stack.width = 128;
    stack.hidden = 512;
    stack.activation = Activation::gelu;
    stack.bias = false;
    fit.batch = 12;
    fit.lr = 1e-3;
    fit.lr_end = 1e-4;
    fit.beta2 = 0.99;
  } else if (task.ends_with("-mod")) {
    stack.width = 128;
    stack.hidden = 512;
    fit.batch = 512;
    fit.lr = 1e-3;
    fit.weight_decay = 1;
    fit.warmup = 10;
    fit.schedule = Schedule::constant;
  } else if (task.starts_with("addition")) {
    stack.width = 128;
    stack.hidden = 512;
    fit.batch = 256;
    fit.steps = 1'000;
    fit.lr = 1e-3;
  }
  return config;
}

Loaded load(RunConfig& config) {
  Loaded loaded;
  if (config.data.empty()) {
    loaded.task = make_task(config.task, config.options);
    loaded.data = draw(loaded.task, config.sizes, config.fit.seed);
    loaded.leaked = leaked(loaded.data);
  } else {
    loaded = load_task(config.task, config.data, config.options, config.fit.seed);
  }
  const Task& task = loaded.task;
  config.options = task.options;
  config.model.kind = task.model;
  config.model.symbols = task.symbols;
  config.model.classes = task.classes;
  config.model.max_length = task.length;
  return loaded;
}

}  // namespace tapehead

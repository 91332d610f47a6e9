#include "reproduce/microgpt.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <tapehead/generate.hpp>
#include <tapehead/python_random.hpp>
#include <tapehead/tape.hpp>

#include "core/message.hpp"
#include "tasks/catalog.hpp"

namespace tapehead::detail {

namespace {

using Ids = std::vector<std::int64_t>;

constexpr double kTemperature = 0.5;

// The distinct characters by code point, then the boundary of documents.
Vocabulary vocabulary_of(const std::vector<std::string>& documents) {
  std::vector<std::string> symbols;
  for (const std::string& document : documents) {
    for (const std::string_view one : characters(document, "document")) symbols.emplace_back(one);
  }
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  symbols.emplace_back("\n");
  return Vocabulary(std::move(symbols));
}

// Row by row of [out][in], as the Python program keeps its matrices; ours are [in, out] but for the
// tables.
void draw_weights(PythonRandom& random, const Params& params) {
  const auto draw = [&](const std::string& name, bool table) {
    const Param param = params.at(name);
    const auto rows = param.shape()[table ? 0 : 1];
    const auto columns = param.shape()[table ? 1 : 0];
    std::vector<double> values(static_cast<std::size_t>(rows * columns));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t at = table ? row * columns + column : column * rows + row;
        values[static_cast<std::size_t>(at)] = random.gauss(0, 0.08);
      }
    }
    param.set(tensor(std::span<const double>(values), param.shape()));
  };
  draw("input.weight", true);
  draw("positions.weight", true);
  draw("output.weight", false);
  for (const char* name : {"attention.query", "attention.key", "attention.value",
                           "attention.output", "ffn.up", "ffn.down"}) {
    draw(fmt::format("stack.layers.0.{}.weight", name), false);
  }
}

std::string drawn_text(const NextToken& next, const Vocabulary& symbols, std::int64_t block,
                       PythonRandom& random) {
  const std::int64_t boundary = symbols.size() - 1;
  Ids ids{boundary};
  for (std::int64_t i = 0; i < block; ++i) {
    std::vector<double> weights = next(ids);
    const double most = *std::max_element(weights.begin(), weights.end());
    double total = 0;
    for (double& w : weights) total += w = std::exp((w - most) / kTemperature);
    for (double& w : weights) w /= total;
    const auto id = static_cast<std::int64_t>(random.choice(weights));
    if (id == boundary) break;
    ids.push_back(id);
  }
  return symbols.decode(std::span(ids).subspan(1));
}

Tensor row(std::span<const std::int64_t> ids) {
  return tensor(ids, {1, static_cast<std::int64_t>(ids.size())});
}

}  // namespace

RunConfig microgpt_config() {
  RunConfig config;
  config.task = "lines";
  ModelConfig& model = config.model;
  model.kind = ModelKind::language_model;
  model.symbols = model.classes = 27;
  model.max_length = 16;
  model.positions = Positions::learned;
  model.one_hot = false;
  model.output_bias = false;
  model.input_norm = true;
  model.final_norm = false;
  model.stack = {.layers = 1,
                 .width = 16,
                 .heads = 4,
                 .hidden = 64,
                 .activation = Activation::relu,
                 .norm = NormKind::rms,
                 .place = NormPlace::pre,
                 .norm_eps = 1e-5,
                 .norm_gain = false,
                 .bias = false};
  FitOptions& fit = config.fit;
  fit.seed = 42;
  fit.steps = 1'000;
  fit.batch = 1;
  fit.lr = 0.01;
  fit.schedule = Schedule::linear;
  fit.warmup = 0;
  fit.beta1 = 0.85;
  fit.beta2 = 0.99;
  fit.clip = std::numeric_limits<double>::infinity();
  return config;
}

std::vector<std::string> documents_of(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\f\v";
  std::vector<std::string> documents;
  for (const std::string_view line : lines_of(text)) {
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) continue;
    documents.emplace_back(line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin));
  }
  return documents;
}

// As in scripts/fixtures/microgpt.py: 1 to 9 syllables, all 26 letters, some longer than the block.
std::vector<std::string> made_up_words() {
  PythonRandom random(7);
  const auto one_of = [&](std::string_view letters) {
    return letters[static_cast<std::size_t>(random.below(std::ssize(letters)))];
  };
  std::vector<std::string> words(200);
  for (std::string& word : words) {
    for (std::int64_t left = 1 + random.below(9); left > 0; --left) {
      word += one_of("bcdfghjklmnprstvwz");
      word += one_of("aeiouy");
    }
    if (random.below(4) == 0) word += one_of("xq");
  }
  return words;
}

MicrogptResult run_microgpt(std::vector<std::string> documents, const RunConfig& config,
                            std::int64_t samples, const std::atomic<int>* stop) {
  PythonRandom random(config.fit.seed);
  random.shuffle(std::span(documents));
  const Vocabulary symbols = vocabulary_of(documents);
  ModelConfig wanted = config.model;
  wanted.symbols = wanted.classes = symbols.size();

  Params params(0, DType::f64);
  const Model model(params, wanted);
  draw_weights(random, params);
  const FitOptions& fit = config.fit;
  Adam adam(params, {.lr = fit.lr, .beta1 = fit.beta1, .beta2 = fit.beta2, .eps = fit.eps});

  MicrogptResult result;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < fit.steps && !result.stopped; ++step) {
    const std::string& document = documents[static_cast<std::size_t>(step) % documents.size()];
    Ids ids = symbols.encode(document);
    ids.insert(ids.begin(), symbols.size() - 1);
    ids.push_back(symbols.size() - 1);
    const auto count = std::min(static_cast<std::size_t>(wanted.max_length), ids.size() - 1);
    const std::span<const std::int64_t> all(ids);

    Tape tape;
    const Tensor logits = model({.inputs = row(all.first(count))});
    const Tensor loss = cross_entropy(logits, row(all.subspan(1, count)));
    result.losses.push_back(loss.item());
    // Counted from 0: the first step has the full rate, and the last one still moves.
    adam.step(tape.backward(loss), learning_rate(fit, step, fit.steps));
    result.stopped = stop != nullptr && stop->load() != 0;
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  const NextToken next = next_token(*model.language_model());
  for (std::int64_t i = 0; i < samples && !result.stopped; ++i) {
    result.samples.push_back(drawn_text(next, symbols, wanted.max_length, random));
  }
  return result;
}

}  // namespace tapehead::detail

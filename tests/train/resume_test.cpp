// Stop, save, load, go on: the same bits as without a stop. And what a checkpoint refuses.
#include <cmath>

#include <fmt/format.h>

#include <tapehead/io.hpp>
#include <tapehead/runs.hpp>

#include "io/files.hpp"
#include "support/catch.hpp"

using namespace tapehead;

namespace {

RunConfig small(const char* task) {
  RunConfig config = default_config(task);
  config.model.stack.layers = 1;
  config.model.stack.width = 16;
  config.model.stack.heads = 2;
  config.model.stack.hidden = 24;
  config.model.stack.dropout = {.embedding = 0.1, .attention = 0.1, .hidden = 0.1, .branch = 0.1};
  config.sizes = {.train = 70, .validation = 20, .test = 20};
  config.fit.seed = 3;
  config.fit.steps = 14;  // an epoch is 4 steps: the stop is in the middle of one
  config.fit.batch = 16;
  config.fit.warmup = 3;
  config.fit.evaluate_every = 5;
  return config;
}

struct Bits {
  std::uint64_t fingerprint;
  std::vector<double> losses;
  std::vector<float> weights;
  std::vector<float> moments;
  friend bool operator==(const Bits&, const Bits&) = default;
};

SequenceModel forward(const Model& model) {
  return [&model](const Batch& batch, Rng* rng) { return model(batch, rng); };
}

Bits bits(const FitResult& result, const Params& params, const FitState& state) {
  return {result.fingerprint, result.losses, params.flat().to_vector<float>(),
          state.optimiser.tensors.at(1).second.to_vector<float>()};
}

Bits straight(RunConfig config) {
  const Loaded problem = load(config);
  Params params(config.fit.seed);
  const Model model(params, config.model);
  FitState last;
  FitCallbacks callbacks;
  callbacks.checkpoint = [&](const FitState& state) { last = state; };
  const FitResult result = fit(params, forward(model), problem.data, config.fit, callbacks);
  return bits(result, params, last);
}

// Stopped after `steps`, saved, everything thrown away, loaded and finished.
Bits in_two_parts(RunConfig config, std::int64_t steps, bool evaluate) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "c";
  {
    Loaded problem = load(config);
    if (!evaluate) problem.data.validation = {};
    Params params(config.fit.seed);
    const Model model(params, config.model);
    std::atomic<int> stop{0};
    FitOptions options = config.fit;
    options.stop = &stop;
    FitCallbacks callbacks;
    callbacks.step = [&](const StepReport& report) { stop = report.step == steps - 1 ? 1 : 0; };
    callbacks.checkpoint = [&](const FitState& state) {
      save_checkpoint(path, config, problem.task, params, state);
    };
    REQUIRE(fit(params, forward(model), problem.data, options, callbacks).stopped);
  }
  Checkpoint saved = read_checkpoint(path);
  REQUIRE(saved.state.step == steps);
  CHECK(differences(saved.config, config).empty());
  Loaded problem = load(saved.config);
  if (!evaluate) problem.data.validation = {};
  Params params(saved.config.fit.seed);
  const Model model(params, saved.config.model);
  load_weights(path, params);
  FitState last;
  FitCallbacks callbacks;
  callbacks.checkpoint = [&](const FitState& state) { last = state; };
  const FitResult result =
      fit(params, forward(model), problem.data, saved.config.fit, callbacks, &saved.state);
  return bits(result, params, last);
}

}  // namespace

TEST_CASE("N steps, stop, save, resume, N steps are 2N steps, bit for bit") {
  for (const char* task : {"reverse", "sort", "dates", "parity", "repeat"}) {
    INFO(task);
    RunConfig config = small(task);
    if (std::string(task) == "dates") config.fit.accumulate = 2;
    const Bits whole = straight(config);
    CHECK(whole.losses.size() == 14);
    CHECK(in_two_parts(config, 7, true) == whole);
    CHECK(in_two_parts(config, 4, false) == whole);
  }
}

TEST_CASE("a user's file goes on as well, and dropout and order matter to the bits") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the quick brown fox " + std::to_string(i * i) + "\n";
  write_bytes(folder / "f", text);
  RunConfig config = small("text");
  config.data = (folder / "f").string();
  config.options.length = 8;
  const Bits whole = straight(config);
  CHECK(in_two_parts(config, 7, true) == whole);
  config.model.stack.dropout = {};
  CHECK_FALSE(straight(config) == whole);
  config.data = (folder / "f").string();
  config.task = "lines";
  config.fit.batch = 4;  // lines differ in length: batches of like lengths
  CHECK(in_two_parts(config, 7, true) == straight(config));
}

TEST_CASE("a step over several batches is the step over all of them at once") {
  RunConfig config = small("dates");
  config.model.stack.dropout = {};
  config.fit.batch = 32;
  config.fit.steps = 1;
  config.fit.warmup = 1;
  const auto step = [&](std::int64_t batch, std::int64_t accumulate) {
    RunConfig one = config;
    one.fit.batch = batch;
    one.fit.accumulate = accumulate;
    Loaded problem = load(one);
    problem.data.train.lengths.clear();  // one order for both
    // Rows with few answers that count: a mean of means would be another number.
    const Shape shape = problem.data.train.targets.shape();
    std::vector<std::int64_t> ids = problem.data.train.targets.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i / 10 % 2 == 0 && i % 10 > 1) ids[i] = kIgnored;
    }
    problem.data.train.targets = tensor(std::span<const std::int64_t>(ids), shape);
    Params params(one.fit.seed, DType::f64);
    const Model model(params, one.model);
    return fit(params, forward(model), problem.data, one.fit).loss;
  };
  CHECK(step(8, 4) == Approx(step(32, 1)).epsilon(1e-12));
}

TEST_CASE("settings survive as JSON, and each difference is named") {
  RunConfig config = small("sort");
  config.fit.clip = std::numeric_limits<double>::infinity();
  config.fit.lr = 0.1 + 0.2;
  config.fit.seed = 18'000'000'000'000'000'000u;
  config.model.stack.activation = Activation::swiglu;
  const RunConfig back = config_from_json(to_json(config));
  CHECK(differences(config, back).empty());
  CHECK(back.fit.seed == config.fit.seed);
  CHECK(back.fit.lr == config.fit.lr);
  CHECK(std::isinf(back.fit.clip));
  RunConfig other = config;
  other.fit.batch = 17;
  other.model.stack.norm = NormKind::rms;
  CHECK(differences(config, other) ==
        std::vector<std::string>{"model.norm: \"layer\" and \"rms\"", "train.batch: 16 and 17"});
  CHECK_THROWS_WITH(config_from_json("{}"), ContainsSubstring("'task' is missing"));
  std::string text = to_json(config);
  text.replace(text.find("\"sort\""), 6, "17");
  CHECK_THROWS_WITH(config_from_json(text), ContainsSubstring("task.name is of another type"));
}

TEST_CASE("a checkpoint of another model, or none at all, changes nothing") {
  const TemporaryFolder folder;
  RunConfig config = small("sort");
  const Loaded problem = load(config);
  Params params(1);
  const Model model(params, config.model);
  const FitState state;
  save_checkpoint(folder / "c", config, problem.task, params, state);
  RunConfig wide = config;
  wide.model.stack.width = 32;
  Params others(1);
  const Model other(others, wide.model);
  const std::vector<float> before = others.flat().to_vector<float>();
  CHECK_THROWS_WITH(load_weights(folder / "c", others),
                    ContainsSubstring("the file has f32 [16, 16], the model f32 [32, 32]"));
  CHECK(others.flat().to_vector<float>() == before);
  save_model(folder / "m", params);
  CHECK_THROWS_WITH(read_checkpoint(folder / "m"), ContainsSubstring("not a checkpoint"));
  std::string bytes = read_bytes(folder / "c");
  write_bytes(folder / "half", bytes.substr(0, bytes.size() / 2));
  CHECK_THROWS_AS(read_checkpoint(folder / "half"), FileError);
  bytes[bytes.size() - 9] ^= 1;
  write_bytes(folder / "flipped", bytes);
  CHECK_THROWS_WITH(read_checkpoint(folder / "flipped"), ContainsSubstring("checksum"));
}

TEST_CASE("a checkpoint whose counters or symbols are no such thing is refused") {
  const TemporaryFolder folder;
  RunConfig config = small("reverse");
  const Loaded problem = load(config);
  Params params(1);
  const Model model(params, config.model);
  save_checkpoint(folder / "c", config, problem.task, params, {});
  const auto with = [&](const char* key, const std::string& from, const std::string& to) {
    TensorFile file = read_tensors(folder / "c");
    std::string& text = file.metadata[key];
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    write_tensors(folder / "d", file);
    (void)read_checkpoint(folder / "d");
  };
  CHECK_NOTHROW(with("counters", "\"step\"", "\"step\""));
  for (const char* number : {"1e300", "-1.5", "\"3\"", "null", "18446744073709551615"}) {
    CHECK_THROWS_WITH(with("counters", "\"step\":0", fmt::format("\"step\":{}", number)),
                      ContainsSubstring("counter 'step'"));
  }
  for (const char* symbol : {"\"3\"", "\"3z\"", "\"zz\"", "\"+1\"", "7"}) {
    CHECK_THROWS_AS(with("inputs", "\"30\"", symbol), FileError);
  }
}

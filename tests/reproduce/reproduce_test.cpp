// The list of published results: its setups as published, its files, its scores.
#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include <tapehead/reproduce.hpp>

#include "io/files.hpp"
#include "reproduce/catalog.hpp"
#include "support/catch.hpp"

using namespace tapehead;

namespace {

std::int64_t parameters_of(const Reproduction& entry) {
  RunConfig config = entry.config;
  if (entry.data.empty() && entry.name != "microgpt-words") {
    config.sizes = {.train = 600, .validation = 10, .test = 10};
    (void)load(config);
  } else if (entry.data == "tinyshakespeare.txt") {
    config.model.kind = ModelKind::language_model;
    config.model.symbols = config.model.classes = 65;
    config.model.max_length = *config.options.length;
  }
  Params params(1);
  const Model model(params, config.model);
  return params.size();
}

void put(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("every published model has the size it should have", "[reproduce]") {
  const auto size = [](const char* name) { return parameters_of(find_reproduction(name)); };
  // 2 * 27 * 16 + 16 * 16 + 4 * 16 * 16 + 2 * 16 * 64
  CHECK(size("microgpt") == 4'192);
  CHECK(size("microgpt-words") == 4'192);
  // A layer of width D with biases: 12 D^2 + 13 D; a last norm, 2 D; tables and output without
  // bias.
  CHECK(size("sort") == 3 * (12 * 48 * 48 + 13 * 48) + 2 * 48 + (3 + 11 + 3) * 48);
  CHECK(size("addition") == 2 * (12 * 128 * 128 + 13 * 128) + 2 * 128 + (10 + 6 + 10) * 128);
  // 4 D^2 + 4 D an attention and 8 D^2 + 5 D a feed-forward, 2 D a norm; two tables, output, bias.
  const std::int64_t d = 512, attention = 4 * d * d + 4 * d, ffn = 8 * d * d + 5 * d;
  CHECK(size("copy") == 2 * (attention + ffn + 4 * d) + 2 * (2 * attention + ffn + 6 * d) + 4 * d +
                            2 * 11 * d + 11 * d + 11);
  // Without biases: 12 D^2 + 2 D, D for the last norm; the output is the table.
  CHECK(size("shakespeare") == 4 * (12 * 128 * 128 + 2 * 128) + 128 + (65 + 64) * 128);
  CHECK(size("gpt-dev") == 209'729);  // as gpt.py prints
}

TEST_CASE("setups are those published", "[reproduce]") {
  std::set<std::string> names;
  for (const Reproduction& one : reproductions()) {
    INFO(one.name);
    CHECK(names.insert(one.name).second);
    CHECK(&find_reproduction(one.name) == &one);
    CHECK(one.minutes > 0);
    CHECK(one.run);
    CHECK(differences(config_from_json(to_json(one.config)), one.config).empty());
  }
  CHECK_THROWS_WITH(find_reproduction("micro-gpt"), ContainsSubstring("did you mean 'microgpt'?"));

  const auto steps = [](const char* name, std::int64_t sequences) {
    return step_count(find_reproduction(name).config.fit, sequences);
  };
  CHECK(steps("addition", 9'000) == 50 * 18);
  CHECK(steps("sort", 128'000) == 2'000);
  CHECK(steps("copy", 6'000) == 10 * 20);
  const RunConfig& copy = find_reproduction("copy").config;
  CHECK(learning_rate(copy.fit, 200, 200) == Approx(0.0011048543456039805).epsilon(1e-12));
  const FitOptions& micro = find_reproduction("microgpt").config.fit;
  CHECK(learning_rate(micro, 250, 1'000) == Approx(0.0075).epsilon(1e-14));
}

TEST_CASE("the induction score is the weight behind the earlier occurrence, of the best head",
          "[reproduce]") {
  std::vector<double> weights(2 * 2 * 4 * 4, 0.0);
  const auto at = [&](std::size_t row, std::size_t head, std::size_t t, std::size_t s) -> double& {
    return weights[((row * 2 + head) * 4 + t) * 4 + s];
  };
  const auto score = [&](const std::vector<std::int64_t>& periods) {
    return detail::induction_score(tensor(std::span<const double>(weights), {2, 2, 4, 4}), periods);
  };
  // Row 0 is a b a b: token 2 repeats token 0, behind which is 1; token 3 repeats 1, behind it
  // is 2. Row 1 is a b c a: token 3 repeats token 0.
  at(0, 0, 2, 1) = 0.25;
  at(0, 0, 3, 2) = 0.5;
  at(1, 0, 3, 1) = 0.75;
  at(0, 1, 2, 1) = 1;
  at(0, 1, 2, 0) = 1;  // this and what follows does not count
  at(0, 1, 3, 3) = 1;
  at(0, 1, 3, 1) = 1;
  at(1, 1, 3, 2) = 1;
  CHECK(score({2, 3}) == Approx(1.5 / 3).epsilon(1e-15));
  at(0, 1, 3, 2) = 0.9;
  CHECK(score({2, 3}) == Approx(1.9 / 3).epsilon(1e-15));
  CHECK_THROWS_AS(score({2}), ShapeError);
  CHECK_THROWS_AS(score({2, 4}), ShapeError);
  CHECK_THROWS_AS(score({0, 2}), ShapeError);
}

TEST_CASE("examples of induction repeat with a period that varies", "[reproduce]") {
  const Task task = make_task("induction", {.symbols = 5, .length = 16});
  const Batch batch = draw(task, 400, Rng(1)).take(0, 400);
  const std::vector<std::int64_t> periods = detail::periods_of(batch);
  CHECK(std::set<std::int64_t>(periods.begin(), periods.end()) ==
        std::set<std::int64_t>{4, 5, 6, 7, 8});
  for (std::int64_t row = 0; row < 400; ++row) {
    const std::int64_t period = periods[static_cast<std::size_t>(row)];
    for (std::int64_t t = period; t < 15; ++t) {
      REQUIRE(batch.inputs.at({row, t}) == batch.inputs.at({row, t - period}));
      REQUIRE(batch.targets.at({row, t}) == batch.inputs.at({row, t - period + 1}));
    }
  }
}

TEST_CASE("a file that is missing or another one is refused in one sentence", "[reproduce]") {
  const TemporaryFolder folder;
  const Reproduction& micro = find_reproduction("microgpt");
  CHECK(data_file(find_reproduction("sort"), "").empty());
  CHECK_THROWS_WITH(data_file(micro, ""), ContainsSubstring("microgpt needs names.txt"));
  CHECK_THROWS_WITH(data_file(micro, folder.path() / "none"),
                    ContainsSubstring("there is no file"));
  CHECK_THROWS_WITH(data_file(micro, folder.path()), ContainsSubstring("names.txt"));
  put(folder.path() / "names.txt", "emma\n");
  CHECK_THROWS_WITH(data_file(micro, folder.path()),
                    ContainsSubstring("(5 bytes) is not the names.txt of 228145 bytes"));
  put(folder.path() / "names.txt", std::string(228'145, 'a'));
  CHECK_THROWS_WITH(data_file(micro, folder.path() / "names.txt"),
                    ContainsSubstring("(228145 bytes) is not the names.txt"));
}

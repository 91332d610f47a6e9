#include <sstream>

#include <tapehead/runs.hpp>

#include "io/files.hpp"
#include "support/catch.hpp"

using namespace tapehead;

TEST_CASE("a run folder never writes over another") {
  const TemporaryFolder folder;
  const RunFolder first = RunFolder::create_numbered(folder / "runs/a");
  CHECK(first.path() == folder / "runs/a");
  CHECK(RunFolder::create_numbered(folder / "runs/a").path() == folder / "runs/a-2");
  CHECK(RunFolder::create_numbered(folder / "runs/a/").path() == folder / "runs/a-3");

  CHECK_THROWS_WITH(RunFolder::create(folder / "runs/a"), ContainsSubstring("is there already"));
  std::filesystem::create_directory(folder / "empty");
  CHECK(RunFolder::create(folder / "empty").path() == folder / "empty");
  CHECK_THROWS_AS(RunFolder::create(folder / "empty"), ValueError);
  write_bytes(folder / "file", "");
  CHECK_THROWS_AS(RunFolder::create(folder / "file"), ValueError);
  CHECK_THROWS_WITH(RunFolder::create(folder / "file/below"), ContainsSubstring("cannot make"));
  CHECK_THROWS_AS(RunFolder::create(""), ValueError);
}

TEST_CASE("metrics give back the same numbers") {
  const TemporaryFolder folder;
  RunFolder run = RunFolder::create(folder / "a");
  const Tensor logits = zeros({1, 1, 2});
  const Tensor targets = zeros({1, 1}, DType::i64);
  const double loss = 2.3025850929940459;
  const double lr = 1.0 / 3;
  const Evaluation validation{
      .loss = 0.1, .tokens = 3, .tokens_right = 1, .sequences = 3, .sequences_right = 2};
  run.add_metrics({1, 2, 1, loss, lr, 0.1 + 0.2, 64, 1e-9, logits, targets, nullptr});
  run.add_metrics({2, 2, 1, loss, lr, 0.1 + 0.2, 128, 1e-9, logits, targets, &validation});
  run.flush_metrics();

  std::istringstream text(read_bytes(run.file("metrics.csv")));
  std::string line;
  std::getline(text, line);
  CHECK(line ==
        "step,loss,lr,grad_norm,tokens,seconds,validation_loss,validation_accuracy,"
        "validation_exact");
  std::getline(text, line);
  std::vector<std::string> cells;
  std::istringstream row(line + "end");
  for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
  REQUIRE(cells.size() == 9);
  CHECK(cells[0] == "1");
  CHECK(std::stod(cells[1]) == loss);
  CHECK(std::stod(cells[2]) == lr);
  CHECK(std::stod(cells[3]) == 0.1 + 0.2);
  CHECK(cells[4] == "64");
  CHECK(cells[6].empty());
  std::getline(text, line);
  CHECK_THAT(line,
             ContainsSubstring(",0.10000000000000001,0.33333333333333331,0.66666666666666663"));
  CHECK_FALSE(std::getline(text, line));
}

// resume, eval, generate, compare and inspect on small runs, and how they refuse what cannot be.
#include <csignal>
#include <fstream>

#include <tapehead/io.hpp>

#include "cli/process.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using namespace tapehead;
using detail::Json;
using detail::parse_json;

namespace {

Result run_in(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  return run(Launch{.arguments = std::move(arguments), .folder = folder.path()});
}

std::vector<std::string> small(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"train",
                                        "dates",
                                        "--width",
                                        "16",
                                        "--heads",
                                        "2",
                                        "--layers",
                                        "1",
                                        "--steps",
                                        "30",
                                        "--batch",
                                        "8",
                                        "--train-sequences",
                                        "100",
                                        "--validation-sequences",
                                        "20",
                                        "--test-sequences",
                                        "30",
                                        "--evaluate-every",
                                        "10",
                                        "--dropout",
                                        "0.1",
                                        "--warmup",
                                        "5"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string fingerprint_of(const std::filesystem::path& result) {
  return *parse_json(read_bytes(result)).find("fingerprint")->get<std::string>();
}

// metrics.csv without its seconds.
std::string metrics_of(const std::filesystem::path& file) {
  std::string kept;
  const std::string text = read_bytes(file);
  int column = 0;
  for (const char c : text) {
    if (c == '\n') column = 0;
    if (c == ',') ++column;
    if (column != 5) kept += c;
  }
  return kept;
}

}  // namespace

TEST_CASE("a run that is interrupted and resumed ends as the one that was not") {
  const TemporaryFolder folder;
  const std::vector<std::string> length{"--steps", "600", "--evaluate-every", "200"};
  const auto long_run = [&](std::vector<std::string> more) {
    more.insert(more.end(), length.begin(), length.end());
    return small(std::move(more));
  };
  REQUIRE(run_in(folder, long_run({"--out", "whole"})).status == 0);
  // The same run is stopped by a signal somewhere on its long way.
  Process process(Launch{.arguments = long_run({"--out", "part", "--log-every", "1"}),
                         .folder = folder.path()});
  REQUIRE(process.wait_for("step 3/600"));
  process.send(SIGINT);
  const Result stopped = process.finish();
  REQUIRE(stopped.status == 130);
  CHECK_THAT(stopped.err, ContainsSubstring("tapehead resume part"));
  const Result resumed = run_in(folder, {"resume", "part", "--json"});
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.err, ContainsSubstring("going on after step"));
  CHECK(*parse_json(resumed.out).find("steps")->natural() == 600);
  CHECK(fingerprint_of(folder / "part/result.json") ==
        fingerprint_of(folder / "whole/result.json"));
  CHECK(metrics_of(folder / "part/metrics.csv") == metrics_of(folder / "whole/metrics.csv"));
  CHECK(read_bytes(folder / "part/film.json") == read_bytes(folder / "whole/film.json"));
  const TensorFile a = read_tensors(folder / "part/model.safetensors");
  const TensorFile b = read_tensors(folder / "whole/model.safetensors");
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    CHECK(same_bits(a.tensors[i].tensor, b.tensors[i].tensor));
  }

  const Result complete = run_in(folder, {"resume", "whole"});
  CHECK(complete.status == 2);
  CHECK_THAT(complete.err, ContainsSubstring("600 of 600 steps are done"));
  const Result other = run_in(folder, {"resume", "whole", "--steps", "610", "--lr", "1e-4"});
  CHECK(other.status == 2);
  CHECK_THAT(other.err, ContainsSubstring("train.steps: 600 and 610") &&
                            ContainsSubstring("train.lr: ") && ContainsSubstring("--change"));
  const Result model = run_in(folder, {"resume", "whole", "--width", "32", "--change"});
  CHECK(model.status == 2);
  CHECK_THAT(model.err, ContainsSubstring("model.width: 16 and 32"));
  const Result longer = run_in(folder, {"resume", "whole", "--steps", "610", "--change", "--json"});
  CHECK(longer.status == 0);
  CHECK(*parse_json(longer.out).find("steps")->natural() == 610);
}

TEST_CASE("a saved run is evaluated, generates, and is shown and compared") {
  const TemporaryFolder folder;
  REQUIRE(run_in(folder, small({"--out", "a"})).status == 0);
  REQUIRE(run_in(folder, small({"--out", "b", "--lr", "1e-4"})).status == 0);
  const Json trained = parse_json(read_bytes(folder / "a/result.json"));
  const Json found = parse_json(run_in(folder, {"eval", "a", "--json"}).out);
  CHECK(*found.find("loss")->get<double>() == *trained.find("test_loss")->get<double>());
  CHECK(*found.find("accuracy")->get<double>() == *trained.find("test_accuracy")->get<double>());
  CHECK(*found.find("tokens")->natural() == 300);
  CHECK(run_in(folder, {"eval", "a", "--split", "best"}).status == 2);

  const std::vector<std::string> ask = {"generate", "a", "--prompt", "may 3, 1999", "--json"};
  const Result once = run_in(folder, ask), again = run_in(folder, ask);
  REQUIRE(once.status == 0);
  CHECK(once.out == again.out);
  const Json answer = parse_json(once.out);
  const Json::Array* texts = answer.find("texts")->get<Json::Array>();
  REQUIRE(texts != nullptr);
  CHECK(texts->front().get<std::string>()->size() == 10);
  const Result unknown = run_in(folder, {"generate", "a", "--prompt", "may\u4f60"});
  CHECK(unknown.status == 2);
  CHECK_THAT(unknown.err, ContainsSubstring("U+4F60") && ContainsSubstring("byte 3"));
  CHECK(run_in(folder, {"generate", "a"}).status == 2);
  CHECK(run_in(folder, {"generate", "a", "--prompt", "may", "--top-p", "2"}).status == 2);
  const Json beams = parse_json(
      run_in(folder, {"generate", "a", "--prompt", "may", "--beams", "3", "--json"}).out);
  CHECK(beams.find("texts")->get<Json::Array>()->size() == 3);

  const Result table = run_in(folder, {"inspect", "a"});
  CHECK_THAT(table.out, ContainsSubstring("decoder.layers.0.cross.query.weight") &&
                            ContainsSubstring("[16, 16]"));
  const Json inspected = parse_json(run_in(folder, {"inspect", "a", "--json"}).out);
  CHECK(*inspected.find("parameters")->natural() == *trained.find("parameters")->natural());
  const Result compared = run_in(folder, {"compare", "a", "b"});
  CHECK(compared.status == 0);
  CHECK_THAT(compared.out, ContainsSubstring("train.lr: ") && !ContainsSubstring("train.batch"));
  CHECK(run_in(folder, {"compare", "a"}).status == 2);
}

TEST_CASE("a user's file is trained on and goes on being written") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "all work and no play\n";
  write_bytes(folder / "book.txt", text);
  REQUIRE(run_in(folder, {"train", "text", "--data", "book.txt", "--length", "8", "--width", "16",
                          "--layers", "1", "--steps", "20", "--warmup", "5", "--out", "t"})
              .status == 0);
  const Result written = run_in(folder, {"generate", "t", "--prompt", "all w", "--tokens", "30"});
  CHECK(written.status == 0);
  CHECK(written.out.starts_with("all w"));
  CHECK(written.out.size() == 5 + 30 + 1);
  const Result missing = run_in(folder, {"train", "text", "--out", "u"});
  CHECK(missing.status == 2);
  CHECK_THAT(missing.err, ContainsSubstring("--data"));
  write_bytes(folder / "tiny.txt", "abc");
  const Result tiny = run_in(folder, {"train", "lines", "--data", "tiny.txt", "--out", "u"});
  CHECK(tiny.status == 2);
  CHECK_THAT(tiny.err, ContainsSubstring("holds 1 lines"));
  CHECK_FALSE(std::filesystem::exists(folder / "u"));
}

TEST_CASE("what is no run, or only half of one, is one sentence") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "empty");
  write_bytes(folder / "half", "abc");
  for (const char* verb : {"resume", "eval", "generate", "inspect"}) {
    INFO(verb);
    for (const char* path : {"nowhere", "empty"}) {
      const Result result = run_in(folder, {verb, path});
      CHECK(result.status == 2);
      CHECK_THAT(result.err, ContainsSubstring("is not a run"));
    }
    const Result half = run_in(folder, {verb, "half"});
    CHECK(half.status == 1);
    CHECK_THAT(half.err, ContainsSubstring("half"));
  }
}

TEST_CASE("a run leaves a report, and it can be written again") {
  const TemporaryFolder folder;
  REQUIRE(run_in(folder, small({"--out", "r"})).status == 0);
  const std::string page = read_bytes(folder / "r/report.html");
  CHECK_THAT(page, ContainsSubstring("<!doctype html>") && ContainsSubstring("</html>"));
  std::filesystem::remove(folder / "r/report.html");
  std::filesystem::remove(folder / "r/film.json");
  const Result again = run_in(folder, {"report", "r", "--json"});
  CHECK(again.status == 0);
  CHECK(*parse_json(again.out).find("report")->get<std::string>() == "r/report.html");
  CHECK_THAT(read_bytes(folder / "r/report.html"), ContainsSubstring("</html>"));
  const Result none = run_in(folder, {"report", "nothing"});
  CHECK(none.status == 2);
  CHECK_THAT(none.err, ContainsSubstring("'nothing' is not a run"));
}

TEST_CASE("seeds side by side and settings crossed with them give one table") {
  const TemporaryFolder folder;
  const auto many = [&](const std::vector<std::string>& more) {
    return run_in(folder, small(more));
  };
  const Result table = many({"--seeds", "2", "--sweep", "lr=1e-3,2e-3", "--json"});
  REQUIRE(table.status == 0);
  const Json object = parse_json(table.out);
  const auto& settings = *object.find("settings")->get<Json::Array>();
  REQUIRE(settings.size() == 2);
  CHECK(*settings[1].find("setting")->get<std::string>() == "lr=2e-3");
  const auto& runs = *settings[1].find("runs")->get<Json::Array>();
  REQUIRE(runs.size() == 2);
  CHECK(*runs[1].find("seed")->natural() == 1);
  REQUIRE(many({"--lr", "2e-3", "--seed", "1", "--out", "alone"}).status == 0);
  CHECK(*runs[1].find("fingerprint")->get<std::string>() ==
        fingerprint_of(folder / "alone/result.json"));
  CHECK_THAT(table.err, ContainsSubstring("4/4  lr="));

  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--sweep", "lr"},
                                                {"--sweep", "lr="},
                                                {"--sweep", "nothing=1"},
                                                {"--seeds", "0"},
                                                {"--seeds", "2", "--solved", "0"},
                                                {"--solved", "0.5"},
                                                {"--seeds", "2", "--out", "many"},
                                                {"--sweep", "heads=3"},
                                                {"--sweep", "kind=encoder,classifier"},
                                                {"--sweep", "max_length=2"},
                                                {"--sweep", "depth=3"},
                                                {"--sweep", "name=dates,copy"},
                                                {"--sweep", "seed=0,1"},
                                                {"--sweep", "lr=1,1"},
                                                {"--sweep", "lr=1", "--sweep", "lr=2"},
                                                {"--seeds", "1000000000"},
                                                {"--sweep", "lr=1e-3,"},
                                                {"--sweep", "lr=null"}}) {
    const Result result = many(wrong);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
  }
  CHECK_FALSE(std::filesystem::exists(folder / "many"));
}

TEST_CASE("a run's settings can be fed back") {
  const TemporaryFolder folder;
  REQUIRE(run_in(folder, small({"--seed", "5", "--out", "a"})).status == 0);
  REQUIRE(run_in(folder, {"train", "dates", "--config", "a/config.json", "--out", "b"}).status ==
          0);
  CHECK(fingerprint_of(folder / "a/result.json") == fingerprint_of(folder / "b/result.json"));
  CHECK(read_bytes(folder / "a/config.json") == read_bytes(folder / "b/config.json"));
  const Result other = run_in(folder, {"train", "sort", "--config", "a/config.json"});
  CHECK(other.status == 2);
  CHECK_THAT(other.err, ContainsSubstring("is of task dates"));
  CHECK(run_in(folder, {"train", "dates", "--config", "none.json"}).status == 2);
}

TEST_CASE("runs that explode are told from runs that learn") {
  const TemporaryFolder folder;
  const Result mixed =
      run_in(folder, small({"--sweep", "lr=1e30,1e-3", "--clip", "inf", "--json"}));
  CHECK(mixed.status == 0);
  const Json object = parse_json(mixed.out);
  const auto& settings = *object.find("settings")->get<Json::Array>();
  CHECK(*settings[0].find("failed")->natural() == 1);
  CHECK(settings[0].find("validation_loss")->is_null());
  CHECK(settings[0].find("median_steps")->is_null());
  CHECK(*settings[1].find("failed")->natural() == 0);
  CHECK_FALSE(settings[1].find("validation_loss")->is_null());
  CHECK_THAT(mixed.err, ContainsSubstring("nothing finished"));
  CHECK(run_in(folder, small({"--seeds", "2", "--lr", "1e30", "--clip", "inf"})).status == 1);
  // A warm-up that was not asked for is shortened for each setting.
  CHECK(run_in(folder, small({"--sweep", "steps=2,4"})).status == 2);  // --warmup 5 was
  CHECK(run_in(folder, {"train", "reverse", "--sweep", "steps=1,2", "--train-sequences", "300",
                        "--test-sequences", "9", "--validation-sequences", "9"})
            .status == 0);
}

TEST_CASE("a run on a file can be looked at from another folder") {
  const TemporaryFolder folder;
  std::ofstream(folder / "text.txt") << std::string(40, 'a') + "\n" + std::string(900, 'b');
  REQUIRE(
      run_in(folder, {"train",   "text", "--data",   "text.txt", "--length", "8", "--width",  "8",
                      "--heads", "1",    "--layers", "1",        "--steps",  "3", "--warmup", "1",
                      "--batch", "4",    "--out",    "r"})
          .status == 0);
  const std::filesystem::path other = folder / "other";
  std::filesystem::create_directory(other);
  const auto there = [&](std::vector<std::string> arguments) {
    return run(Launch{.arguments = std::move(arguments), .folder = other}).status;
  };
  CHECK(there({"report", "../r"}) == 1);
  CHECK(there({"report", "../r", "--data", "../text.txt"}) == 0);
  CHECK(there({"eval", "../r", "--data", "../text.txt"}) == 0);
}

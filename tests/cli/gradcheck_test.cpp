// `tapehead gradcheck`: what it refuses, its exit statuses, what stands in its reports, the file
// that it writes and how it ends when it is interrupted. The verdicts that right code cannot reach
// (1, 3, 4, 6) are tested at the library.
#include <csignal>

#include "cli/process.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using tapehead::detail::Json;
using tapehead::detail::parse_json;

namespace {

using Words = std::vector<std::string>;

Words gradcheck(Words more) {
  more.insert(more.begin(), "gradcheck");
  return more;
}

std::string text_of(const Json& object, const char* name) {
  return *object.find(name)->get<std::string>();
}

const Json::Array& list_of(const Json& object, const char* name) {
  return *object.find(name)->get<Json::Array>();
}

std::int64_t count_of(const Json& object, const char* name) {
  return *object.find(name)->natural();
}

}  // namespace

TEST_CASE("gradcheck refuses what means nothing, in one sentence with status 2") {
  struct Case {
    Words arguments;
    const char* why;
  };
  const std::vector<Case> cases{
      {{"softmx"}, "did you mean 'softmax'?"},
      {{"--heads", "2"}, "--heads needs a name to go with"},
      {{"relu", "--heads", "2"}, "'relu' has no sizes to choose"},
      {{"attention", "--activation", "relu"}, "--activation means nothing to attention"},
      {{"headwise", "--no-bias"}, "--no-bias means nothing to headwise"},
      {{"feed-forward", "--heads", "2"}, "--heads means nothing to feed-forward"},
      {{"encoder-layer", "--layers", "2"}, "--layers means nothing to encoder-layer"},
      {{"encoder", "--symbols", "7"}, "--symbols means nothing to encoder"},
      {{"attention", "--heads", "5"}, "12 does not divide into 5 heads"},
      {{"attention", "--time", "0"}, "--time must be 1 or more, got 0"},
      {{"attention", "--keys", "-1"}, "--keys must be 0 or more, got -1"},
      {{"attention", "--mask", "caussal"}, "--mask: 'caussal' is unknown"},
      {{"relu", "--tolerance", "-1e-9"}, "--tolerance must be finite and 0 or more, got -1e-09"},
      {{"relu", "--tolerance", "nan"}, "--tolerance must be finite and 0 or more, got nan"},
      {{"relu", "--tolerance", "inf"}, "--tolerance must be finite and 0 or more, got inf"},
      {{"relu", "--worst", "-1"}, "--worst must be 0 or more, got -1"},
      {{"relu", "--cotangents", "1"}, "--cotangents must be at least 2"},
      {{"relu", "--bound", "3"}, "--bound means nothing to a check of gradients"},
      {{"relu", "--float32", "--bound", "0"}, "--bound must be finite and above 0, got 0"},
      {{"relu", "--float32", "--fast"}, "--fast means nothing to --float32"},
      {{"relu", "--float32", "--second"}, "--second means nothing to --float32"},
      {{"relu", "--float32", "--cotangents", "3"}, "--cotangents means nothing to --float32"},
      {{"relu", "--float32", "--self-test"}, "--self-test means nothing to --float32"},
      {{"relu", "--self-test", "--tolerance", "1"}, "--tolerance means nothing to --self-test"},
      {{"attention", "--self-test", "--heads", "2"}, "--heads means nothing to --self-test"},
      {{"relu", "--write", "missing.md"}, "missing.md"},
  };
  const TemporaryFolder folder;
  for (const Case& one : cases) {
    INFO(one.why);
    const Result result =
        run(Launch{.arguments = gradcheck(one.arguments), .folder = folder.path()});
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find('\n') == result.err.size() - 1);
    CHECK_THAT(result.err, ContainsSubstring(one.why));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("what has no gradient to compare is no pass: status 5") {
  for (const Words& arguments :
       {Words{"one_hot"}, Words{"argmax", "equal"}, Words{"one_hot", "--fast"},
        Words{"argmax", "--self-test"}, Words{"argmax", "--float32"}, Words{"relu", "--second"}}) {
    INFO(arguments.back());
    const Result result = run(gradcheck(arguments));
    CHECK(result.status == 5);
    CHECK_THAT(result.err, ContainsSubstring("nothing was checked"));
  }
}

TEST_CASE("one module in the user's sizes, with all that a report holds") {
  const Result text = run(gradcheck({"attention", "--heads", "4", "--mask", "causal"}));
  CHECK(text.status == 0);
  CHECK(text.err.empty());
  for (const char* part :
       {"query.weight", "worst element", "in bars", "step", "relative error      count",
        "within one bar", "ops exercised:", "attention", "evaluations,", "truly 0"})
    CHECK_THAT(text.out, ContainsSubstring(part));

  const Json suite =
      parse_json(run(gradcheck({"attention", "--heads", "4", "--mask", "causal", "--json"})).out);
  CHECK(text_of(suite, "verdict") == "pass");
  REQUIRE(list_of(suite, "modules").size() == 1);
  const Json& report = list_of(suite, "modules")[0];
  CHECK(list_of(report, "worst").size() == 10);
  for (const char* member :
       {"name", "tape", "numeric", "bar", "error", "relative", "ratio", "step"})
    CHECK(list_of(report, "worst")[0].find(member) != nullptr);
  CHECK(list_of(report, "histogram").size() == 20);
  CHECK_FALSE(list_of(report, "coverage").empty());
  // 3 inputs [2,5,12], 4 weights [12,12], 4 biases; two cotangents each.
  CHECK(count_of(report, "compared") == 2 * (3 * 120 + 4 * 144 + 4 * 12));
  CHECK(count_of(report, "evaluations") > count_of(report, "compared"));
  CHECK(report.find("seconds") != nullptr);
  // The softmax does not see a key bias: its gradient is truly 0, and listed.
  bool found = false;
  for (const Json& tensor : list_of(report, "tensors")) {
    if (text_of(tensor, "name") != "key.bias") continue;
    found = true;
    CHECK(count_of(tensor, "zeros") >= 20);
    CHECK(text_of(tensor, "name") + "[0]" == *list_of(tensor, "zero_names")[0].get<std::string>());
  }
  CHECK(found);

  CHECK(run(gradcheck({"attention", "--mask", "blocked-row+padding", "--keys", "3"})).status == 0);
  CHECK(run(gradcheck({"attention", "--mask", "causal", "--fast"})).status == 0);
  CHECK(run(gradcheck({"attention", "--heads", "2", "--second", "--time", "3"})).status == 0);
}

TEST_CASE("what is named twice is checked once") {
  const Json ops = parse_json(run(gradcheck({"relu", "relu", "--json"})).out);
  CHECK(list_of(ops, "ops").size() == 1);
  const Json modules =
      parse_json(run(gradcheck({"feed-forward", "feed-forward", "--batch", "1", "--json"})).out);
  CHECK(list_of(modules, "modules").size() == 1);
}

TEST_CASE("float32: one thing in full, several in a table") {
  const Result one = run(gradcheck({"encoder-layer", "--float32", "--heads", "2"}));
  CHECK(one.status == 0);
  CHECK_THAT(one.out, ContainsSubstring("every op rounds as it may") &&
                          ContainsSubstring("attention backward") &&
                          ContainsSubstring("attention.query.weight"));
  const Json json = parse_json(run(gradcheck({"softmax", "linear", "--float32", "--json"})).out);
  CHECK(text_of(json, "verdict") == "pass");
  CHECK(list_of(json, "things").size() == 2);
  CHECK(text_of(list_of(json, "ops")[0], "op") != "");
  // An add is off by half an ulp: no op rounds a hundred times less.
  CHECK(run(gradcheck({"add", "--float32", "--bound", "0.01"})).status == 1);
}

TEST_CASE("the table goes between the markers of a file, all or nothing") {
  const TemporaryFolder folder;
  const std::string before =
      "# Title\n<!-- gradcheck: begin -->\nold\n<!-- gradcheck: end -->\nrest\n";
  const Words arguments = gradcheck({"relu", "--write", "table.md"});
  const auto launch = [&](long limit = 0) {
    return run(Launch{.arguments = arguments, .folder = folder.path(), .file_size_limit = limit});
  };
  // No markers: refused before the check, and left alone.
  write_bytes(folder / "table.md", "no markers\n");
  const Result refused = launch();
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, ContainsSubstring("must hold the lines"));
  CHECK(refused.out.empty());
  CHECK(read_bytes(folder / "table.md") == "no markers\n");
  // A full disk: the old file is whole.
  write_bytes(folder / "table.md", before);
  CHECK(launch(80).status == 1);
  CHECK(read_bytes(folder / "table.md") == before);
  CHECK(launch().status == 0);
  const std::string after = read_bytes(folder / "table.md");
  CHECK(after.starts_with("# Title\n<!-- gradcheck: begin -->\n| |"));
  CHECK_THAT(after, ContainsSubstring("| `relu` |"));
  CHECK(after.ends_with("<!-- gradcheck: end -->\nrest\n"));
  CHECK(after.find("old") == std::string::npos);
}

TEST_CASE("an interrupted check says what was checked so far") {
  struct Case {
    int signal;
    int status;
  };
  for (const Case one : {Case{SIGINT, 130}, Case{SIGTERM, 143}}) {
    // Large enough to run for minutes.
    Process process(Launch{.arguments = gradcheck({"encoder-model", "--json", "--width", "64",
                                                   "--hidden", "256", "--layers", "4"})});
    REQUIRE(process.wait_for_handler(one.signal));
    process.send(one.signal);
    const Result result = process.finish();
    CHECK(result.status == one.status);
    CHECK_THAT(result.err, ContainsSubstring("interrupted after ") &&
                               ContainsSubstring("gradients compared, nothing wrong so far"));
    CHECK(result.err.find('\n') == result.err.size() - 1);
    const Json object = parse_json(result.out);
    CHECK(text_of(object, "status") == "interrupted");
    CHECK(object.find("evaluations")->natural() != nullptr);
  }
}

// Exit statuses, misuse and --json of every verb.
#include "cli/process.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using tapehead::detail::Json;
using tapehead::detail::parse_json;

namespace {

// One sentence on one line.
bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == text.size() - 1;
}

}  // namespace

TEST_CASE("help and version") {
  const Result help = run({"--help"});
  CHECK(help.status == 0);
  CHECK_THAT(help.out, ContainsSubstring("train") && ContainsSubstring("Examples:"));
  CHECK(help.err.empty());
  const Result version = run({"--version"});
  CHECK(version.status == 0);
  CHECK_THAT(version.out, ContainsSubstring("tapehead 0."));
  for (const char* verb : {"train", "tasks", "ops", "graph", "gradcheck", "selftest"}) {
    INFO(verb);
    const Result result = run({verb, "--help"});
    CHECK(result.status == 0);
    CHECK_THAT(result.out, ContainsSubstring("Usage: tapehead " + std::string(verb)) &&
                               ContainsSubstring("--json"));
  }
  const Result nothing = run(std::vector<std::string>{});
  CHECK(nothing.status == 2);
  CHECK(nothing.out.empty());
  CHECK_THAT(nothing.err, ContainsSubstring("Usage: tapehead"));
}

TEST_CASE("misuse is one clear sentence with the nearest match and status 2") {
  struct Case {
    std::vector<std::string> arguments;
    const char* why;
  };
  const std::vector<Case> cases = {
      {{"trian", "reverse"}, "no command 'trian'; did you mean 'train'?"},
      {{"--versoin"}, "no option '--versoin'; did you mean '--version'?"},
      {{"train", "revers"}, "no task 'revers'; did you mean 'reverse'?"},
      {{"train"}, "TASK"},
      {{"train", "reverse", "--epoch", "3"}, "no option '--epoch'; did you mean '--epochs'?"},
      {{"train", "reverse", "--sed=1"}, "no option '--sed'; did you mean '--seed'?"},
      {{"train", "reverse", "twice"}, "'twice' is one word too many"},
      {{"train", "reverse", "--seed", "x"}, "--seed: 'x' is not a whole number from 0"},
      {{"train", "reverse", "--seed", "-1"}, "--seed: '-1' is not a whole number from 0"},
      {{"train", "reverse", "--epochs", "1.5"}, "--epochs: '1.5' is not a whole number"},
      {{"train", "reverse", "--epochs", "99999999999999999999"}, "that fits"},
      {{"train", "reverse", "--lr", "fast"}, "--lr: 'fast' is not a number"},
      {{"train", "reverse", "--lr", "nan"}, "lr must be"},
      {{"train", "reverse", "--beta1", "1"}, "beta1 must be at least 0 and below 1, got 1"},
      {{"train", "reverse", "--label-smoothing", "1"}, "label_smoothing must be at least 0"},
      {{"train", "reverse", "--epochs"}, "--epochs needs a value"},
      {{"train", "reverse", "--no-save=yes"}, "--no-save takes no value"},
      {{"train", "reverse", "--epochs", "0"}, "epochs must be at least 1, got 0"},
      {{"train", "reverse", "--symbols", "1"}, "symbols must be 2..1024, got 1"},
      {{"train", "reverse", "--length", "0"}, "length must be 1..1024, got 0"},
      {{"train", "reverse", "--train-sequences", "100"}, "there are 100"},
      {{"train", "reverse", "--test-sequences", "0"}, "--test-sequences must be at least 1"},
      {{"train", "reverse", "--threads", "2000"}, "threads must be"},
      {{"train", "reverse", "--no-save", "--out", "x"}, "exclude each other"},
      {{"tasks", "more"}, "'more' is one word too many"},
      {{"train", "reverse", "--out", ""}, "--out needs the name of a folder"},
      {{"reverse", "train"}, "'reverse' stands before the command; write 'tapehead train reverse'"},
      {{"train", "reverse", "--length", "1024", "--train-sequences", "99999999999"}, "too many"},
  };
  const TemporaryFolder folder;
  for (const Case& one : cases) {
    INFO(one.why);
    const Result result = run(Launch{.arguments = one.arguments, .folder = folder.path()});
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(is_one_line(result.err));
    CHECK_THAT(result.err, ContainsSubstring(one.why));

    std::vector<std::string> with_json = one.arguments;
    with_json.insert(with_json.begin() + 1, "--json");
    const Result json = run(Launch{.arguments = with_json, .folder = folder.path()});
    CHECK(json.status == 2);
    const Json object = parse_json(json.out);
    CHECK(*object.find("status")->get<std::string>() == "misused");
    CHECK_FALSE(object.find("error")->get<std::string>()->empty());
  }
  CHECK(std::filesystem::is_empty(folder.path()));  // misuse leaves nothing behind
}

TEST_CASE("every verb prints exactly one JSON object") {
  for (const std::string verb : {"tasks", "ops", "selftest"}) {
    INFO(verb);
    const Result plain = run({verb});
    CHECK(plain.status == 0);
    CHECK(plain.err.empty());
    const Result json = run({verb, "--json"});
    CHECK(json.status == 0);
    CHECK(parse_json(json.out).get<Json::Object>() != nullptr);
    CHECK_FALSE(json.err.empty());
  }
  CHECK(parse_json(run({"selftest", "--json"}).out).find("passed")->get<bool>() != nullptr);
  CHECK(parse_json(run({"--version", "--json"}).out).find("version") != nullptr);
  CHECK(parse_json(run({"train", "--help", "--json"}).out).get<Json::Object>() != nullptr);
}

TEST_CASE("output that cannot be written is a failure") {
  const Result result = run(Launch{.arguments = {"tasks"}, .out_file = "/dev/full"});
  CHECK(result.status == 1);
  CHECK_THAT(result.err, ContainsSubstring("cannot write to the standard output"));
}

// Looking into a run: --check-finite, --profile, and the graph of a model.
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "cli/process.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using tapehead::detail::Json;
using tapehead::detail::parse_json;

namespace {

std::vector<std::string> tiny_run(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"train",
                                        "reverse",
                                        "--length",
                                        "4",
                                        "--steps",
                                        "6",
                                        "--lr",
                                        "3e-3",
                                        "--train-sequences",
                                        "64",
                                        "--batch",
                                        "16",
                                        "--validation-sequences",
                                        "16",
                                        "--test-sequences",
                                        "16",
                                        "--warmup",
                                        "2",
                                        "--no-save"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

double number(const Json& object, const char* name) {
  const Json* found = object.find(name);
  REQUIRE(found != nullptr);
  const double* value = found->get<double>();
  return value != nullptr ? *value : static_cast<double>(*found->natural());
}

std::string text(const Json& object, const char* name) {
  return *object.find(name)->get<std::string>();
}

// A program called dot, first in the PATH.
std::string path_with_dot(const TemporaryFolder& folder, const std::string& script) {
  const std::string name = (folder / "dot").string();
  std::ofstream(name) << "#!/bin/sh\n" << script;
  ::chmod(name.c_str(), 0755);
  return folder.path().string() + ":" + std::getenv("PATH");
}

}  // namespace

TEST_CASE("--check-finite names where the first NaN or infinity comes from") {
  const Result result = run(tiny_run({"--lr", "1e30", "--check-finite", "--json"}));
  CHECK(result.status == 1);
  // After the first step the weights are about 1e30, and squares of them leave the range of f32.
  CHECK_THAT(result.err, ContainsSubstring("tapehead: fit: step 2: "));
  CHECK_THAT(result.err, ContainsSubstring(" in its output f32[16, 4") &&
                             ContainsSubstring("\n  node ") && ContainsSubstring(" in encoder.") &&
                             ContainsSubstring("(model.cpp:"));
  CHECK_THAT(result.err, ContainsSubstring("\n  input 0: f32[") &&
                             ContainsSubstring("\n  recorded before it:\n"));
  CHECK(text(parse_json(result.out), "status") == "failed");
}

TEST_CASE("--profile adds up, and neither it nor --check-finite changes the run") {
  const Result plain = run(tiny_run({"--json"}));
  const Result looked = run(tiny_run({"--json", "--profile", "--check-finite"}));
  REQUIRE(plain.status == 0);
  REQUIRE(looked.status == 0);
  const Json before = parse_json(plain.out);
  const Json after = parse_json(looked.out);
  CHECK(text(before, "fingerprint") == text(after, "fingerprint"));
  CHECK(before.find("profile") == nullptr);
  const Json* profile = after.find("profile");
  REQUIRE(profile != nullptr);
  CHECK(number(*profile, "tapes") == 6);
  double sum = number(*profile, "outside");
  double attention_calls = 0;
  double evaluations = 0;
  double optimiser = 0;
  bool in_module = false;
  for (const Json& entry : *profile->find("entries")->get<Json::Array>()) {
    sum += number(entry, "forward") + number(entry, "backward");
    if (text(entry, "op") == "attention") {
      attention_calls = number(entry, "calls");
      in_module = text(entry, "module") == "encoder.layers.0.attention";
      // At least q, k and v of [16, 1, 4, 32] stay for backward in each of the 6 steps.
      CHECK(number(entry, "bytes") >= 0);
    }
    if (text(entry, "op") == "evaluation") evaluations = number(entry, "calls");
    if (text(entry, "op") == "optimiser") optimiser = number(entry, "calls");
  }
  CHECK(std::abs(sum - number(*profile, "seconds")) <= 1e-9 * sum);
  CHECK(number(*profile, "seconds") <= number(after, "total_seconds"));
  CHECK(attention_calls == 6);
  CHECK(in_module);
  CHECK(optimiser == 6);
  CHECK(evaluations == 3);  // after each epoch of 4 steps and the last step, and the test
  CHECK_THAT(looked.err, ContainsSubstring("\nop  ") && ContainsSubstring("\nmodule  ") &&
                             ContainsSubstring("\nencoder.layers.0.ffn.up  ") &&
                             ContainsSubstring("\n6 tapes, "));
  const Result many = run({"train", "reverse", "--seeds", "2", "--profile"});
  CHECK(many.status == 2);
}

TEST_CASE("graph prints the tape in the language of Graphviz") {
  const Result result = run({"graph", "reverse", "--length", "5", "--batch", "3"});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(result.out.starts_with("digraph tape {\n"));
  CHECK(result.out.ends_with("}\n"));
  CHECK_THAT(result.out, ContainsSubstring("label=\"encoder.layers.0.attention.query.weight\"") &&
                             ContainsSubstring("label=\"f32[3, 5, 32]\"") &&
                             ContainsSubstring("[label=\"attention\"") &&
                             ContainsSubstring("[label=\"cross_entropy\""));
  const Result plain = run({"graph", "reverse", "--plain-ops"});
  CHECK_THAT(plain.out, ContainsSubstring("[label=\"masked_softmax\"") ||
                            ContainsSubstring("[label=\"softmax\""));
  CHECK(plain.out.size() > result.out.size());
  const Json json = parse_json(run({"graph", "sort", "--json"}).out);
  CHECK(text(json, "dot").starts_with("digraph"));
  CHECK(number(json, "nodes") > 10);
}

TEST_CASE("graph writes .dot by itself and .svg by Graphviz, which is given no shell") {
  const TemporaryFolder folder;
  const auto graph = [&](const char* output, const std::string& path) {
    return run(Launch{.arguments = {"graph", "reverse", "--output", output},
                      .folder = folder.path(),
                      .environment = {{"PATH", path}}});
  };
  const std::string own = path_with_dot(folder, "echo \"<svg $# $1>\"; cat | head -n 1\n");
  CHECK(graph("a.dot", "/nowhere").status == 0);
  CHECK(read_bytes(folder / "a.dot").starts_with("digraph tape {\n"));
  const Result drawn = graph("a; b.svg", own);
  CHECK(drawn.status == 0);
  CHECK(read_bytes(folder / "a; b.svg") == "<svg 1 -Tsvg>\ndigraph tape {\n");

  const Result missing = graph("c.svg", "/nowhere");
  CHECK(missing.status == 1);
  CHECK_THAT(missing.err, ContainsSubstring("needs the program dot of Graphviz, which is not "
                                            "installed: apt-get install graphviz"));
  const Result failing = graph("d.svg", path_with_dot(folder, "exit 3\n"));
  CHECK(failing.status == 1);
  CHECK_THAT(failing.err, ContainsSubstring("dot of Graphviz failed"));
  CHECK_FALSE(std::filesystem::exists(folder / "c.svg"));
  CHECK_FALSE(std::filesystem::exists(folder / "d.svg"));
}

TEST_CASE("graph refuses what it cannot mean") {
  const auto refused = [](std::vector<std::string> more, const char* why) {
    std::vector<std::string> arguments = {"graph", "reverse"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(why);
    CHECK(result.status == 2);
    CHECK_THAT(result.err, ContainsSubstring(why));
  };
  refused({"--output", "a.png"}, "--output must end in .svg or .dot, got 'a.png'");
  refused({"--output", ""}, "--output must end in");
  refused({"--batch", "0"}, "--batch must be at least 1");
  refused({"--epochs", "3"}, "no option '--epochs'");
  CHECK(run({"graph", "revers"}).status == 2);
}

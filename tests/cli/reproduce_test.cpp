// `tapehead reproduce`: lists, runs, refuses.
#include "cli/process.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using tapehead::detail::Json;
using tapehead::detail::parse_json;

TEST_CASE("reproduce lists what there is", "[cli]") {
  const Result result = run({"reproduce"});
  CHECK(result.status == 0);
  for (const char* word : {"microgpt", "names.txt", "induction", "tinyshakespeare.txt",
                           "5000/5000 held out", "2.6496944697"}) {
    CHECK_THAT(result.out, ContainsSubstring(word));
  }
  const Json json = parse_json(run({"reproduce", "--json"}).out);
  CHECK(json.find("reproductions")->get<Json::Array>()->size() >= 9);
}

TEST_CASE("reproduce compares with what was published", "[cli]") {
  const Result result = run({"reproduce", "microgpt-words"});
  CHECK(result.status == 0);
  CHECK_THAT(result.out, ContainsSubstring("PASS microgpt-words"));
  CHECK_THAT(result.out, ContainsSubstring("1000 losses in PyTorch"));
  const Result as_json = run({"reproduce", "microgpt-words", "--json"});
  const Json json = parse_json(as_json.out);
  CHECK(*json.find("status")->get<std::string>() == "passed");
  const Json& first = json.find("reproductions")->get<Json::Array>()->front();
  CHECK(*first.find("passed")->get<bool>());
  CHECK(first.find("seconds")->get<double>() != nullptr);
  CHECK(first.find("findings")->get<Json::Array>()->size() == 2);
}

TEST_CASE("reproduce shows its settings", "[cli]") {
  const Result result = run({"reproduce", "shakespeare", "--config"});
  CHECK(result.status == 0);
  const Json json = parse_json(result.out);
  CHECK(*json.find("train")->find("steps")->get<std::int64_t>() == 2000);
  CHECK(*json.find("model")->find("init")->get<std::string>() == "gpt");
}

TEST_CASE("reproduce refuses what cannot be in one sentence", "[cli]") {
  const TemporaryFolder folder;
  const auto refused = [&](std::vector<std::string> arguments, const char* why) {
    arguments.insert(arguments.begin(), "reproduce");
    const Result result = run(Launch{.arguments = std::move(arguments), .folder = folder.path()});
    CHECK(result.status == 2);
    CHECK_THAT(result.err, ContainsSubstring(why));
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  };
  refused({"microgtp"}, "no reproduction 'microgtp'; did you mean 'microgpt'?");
  refused({"microgpt"}, "microgpt needs names.txt: name it");
  refused({"reverse", "shakespeare", "--data", "none"}, "there is no file 'none'");
  refused({"microgpt", "--data", folder.path().string()}, "names.txt is wanted");
  refused({"reverse", "--seeds", "0"}, "--seeds must be at least 1");
  refused({"reverse", "--all"}, "name some, or say --all, not both");
  refused({"reverse", "--threads", "-1"}, "threads");
}

// `tapehead train`: what it prints, what it leaves behind, and how it ends when it is disturbed.
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <tapehead/io.hpp>

#include "cli/process.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using namespace tapehead;
using detail::Json;
using detail::parse_json;

namespace {

// 2 epochs of 10 steps.
std::vector<std::string> small_run(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"train",
                                        "reverse",
                                        "--length",
                                        "5",
                                        "--epochs",
                                        "2",
                                        "--lr",
                                        "3e-3",
                                        "--train-sequences",
                                        "325",
                                        "--validation-sequences",
                                        "40",
                                        "--batch",
                                        "32",
                                        "--test-sequences",
                                        "50",
                                        "--warmup",
                                        "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// A run that nobody waits for.
std::vector<std::string> long_run(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"train",  "reverse",     "--epochs",
                                        "100000", "--log-every", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string text_of(const Json& object, const char* name) {
  return *object.find(name)->get<std::string>();
}

std::int64_t lines_in(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("a run prints one JSON object and leaves a whole folder") {
  const TemporaryFolder folder;
  const Result result =
      run(Launch{.arguments = small_run({"--json", "--seed", "7"}), .folder = folder.path()});
  REQUIRE(result.status == 0);
  const Json object = parse_json(result.out);
  CHECK(text_of(object, "status") == "done");
  CHECK(text_of(object, "task") == "reverse");
  CHECK(*object.find("seed")->natural() == 7);
  CHECK(*object.find("steps")->natural() == 20);
  CHECK(*object.find("seconds")->get<double>() > 0);
  CHECK(object.find("test_accuracy")->get<double>() != nullptr);
  CHECK(object.find("test_exact")->get<double>() != nullptr);
  CHECK(object.find("loss")->get<double>() != nullptr);
  CHECK(*object.find("parameters")->natural() > 1000);
  CHECK(*object.find("threads")->natural() >= 1);
  CHECK(text_of(object, "fingerprint").size() == 18);
  CHECK(text_of(object, "run") == "runs/reverse-seed7");

  const std::filesystem::path run_folder = folder / "runs/reverse-seed7";
  CHECK(to_string(parse_json(read_bytes(run_folder / "result.json"))) == to_string(object));
  const Json config = parse_json(read_bytes(run_folder / "config.json"));
  CHECK(*config.find("train")->find("seed")->natural() == 7);
  CHECK(*config.find("task")->find("length")->natural() == 5);
  CHECK(lines_in(read_bytes(run_folder / "metrics.csv")) == 21);
  const TensorFile model = read_tensors(run_folder / "model.safetensors");
  CHECK(model.metadata.at("task") == "reverse");
  CHECK(model.metadata.at("layout") == "[in,out]");
  CHECK(model.metadata.at("step") == "20");
  CHECK(to_string(parse_json(model.metadata.at("config"))) == to_string(config));
  std::int64_t parameters = 0;
  for (const NamedTensor& named : model.tensors) parameters += named.tensor.size();
  CHECK(parameters == *object.find("parameters")->natural());
  const std::string picture = read_bytes(run_folder / "attention.svg");
  CHECK(picture.starts_with("<svg "));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(std::distance(std::filesystem::directory_iterator(run_folder), {}) == 8);
}

TEST_CASE("what is for people is plain text when nobody looks") {
  const TemporaryFolder folder;
  const Result result = run(
      Launch{.arguments = small_run({"--no-save", "--log-every", "5"}), .folder = folder.path()});
  REQUIRE(result.status == 0);
  CHECK((result.out + result.err).find_first_of("\r\x1b") == std::string::npos);
  CHECK_THAT(result.out, ContainsSubstring("parameters") && ContainsSubstring("OpenBLAS") &&
                             ContainsSubstring("seed 0") && ContainsSubstring("fingerprint  0x"));
  CHECK((result.out.find("\u2713") != std::string::npos ||
         result.out.find("\u2717") != std::string::npos));
  for (const char* step : {"step 1/20", "step 5/20", "step 10/20", "step 15/20", "step 20/20",
                           "epoch 1/2: validation loss", "epoch 2/2: validation loss"}) {
    CHECK_THAT(result.err, ContainsSubstring(step));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("on a terminal one line is rewritten that fits the width") {
  if (!terminals_available()) {
    WARN("not tested: this system gives out no pseudo terminals (is /dev/pts mounted?)");
    return;
  }
  const TemporaryFolder folder;
  for (const int columns : {30, 50, 120}) {
    const Result result = run(Launch{.arguments = small_run({"--no-save"}),
                                     .folder = folder.path(),
                                     .terminal_columns = columns});
    REQUIRE(result.status == 0);
    CHECK(result.err.find('\x1b') == std::string::npos);
    CHECK(result.err.find('\r') != std::string::npos);
    CHECK(result.out.find('\r') == std::string::npos);
    std::size_t longest = 0;
    for (std::size_t at = result.err.find('\r'); at != std::string::npos;) {
      const std::size_t next = result.err.find('\r', at + 1);
      const std::string piece = result.err.substr(at + 1, next - at - 1);
      // A line that ends in a newline is one that stays, not one that is rewritten.
      if (piece.find('\n') == std::string::npos) longest = std::max(longest, piece.size());
      at = next;
    }
    CHECK(longest > 10);
    CHECK(longest < static_cast<std::size_t>(columns));
  }
  const Result dumb = run(Launch{.arguments = small_run({"--no-save"}),
                                 .folder = folder.path(),
                                 .environment = {{"TERM", "dumb"}},
                                 .terminal_columns = 80});
  CHECK(dumb.err.find('\r') == std::string::npos);
}

TEST_CASE("the fingerprint is the same on one thread, on two and on every repeat") {
  const TemporaryFolder folder;
  const auto fingerprint = [&](const char* omp, std::vector<std::string> more) {
    more.insert(more.end(), {"--json", "--no-save"});
    const Result result = run(Launch{.arguments = small_run(more),
                                     .folder = folder.path(),
                                     .environment = {{"OMP_NUM_THREADS", omp}}});
    REQUIRE(result.status == 0);
    return text_of(parse_json(result.out), "fingerprint");
  };
  const std::string one = fingerprint("1", {});
  CHECK(fingerprint("1", {}) == one);
  CHECK(fingerprint("2", {}) == one);
  CHECK(fingerprint("1", {"--threads", "2"}) == one);
  CHECK(fingerprint("1", {"--seed", "1"}) != one);
}

TEST_CASE("a second run does not touch the first") {
  const TemporaryFolder folder;
  const Launch launch{.arguments = small_run(), .folder = folder.path()};
  REQUIRE(run(launch).status == 0);
  const std::string first = read_bytes(folder / "runs/reverse-seed0/result.json");
  REQUIRE(run(launch).status == 0);
  CHECK(read_bytes(folder / "runs/reverse-seed0/result.json") == first);
  CHECK(std::filesystem::exists(folder / "runs/reverse-seed0-2/result.json"));

  const Result named =
      run(Launch{.arguments = small_run({"--out", "runs/reverse-seed0"}), .folder = folder.path()});
  CHECK(named.status == 2);
  CHECK_THAT(named.err, ContainsSubstring("is there already"));
  CHECK(read_bytes(folder / "runs/reverse-seed0/result.json") == first);
}

TEST_CASE("an interrupted run finishes its step and leaves valid files") {
  struct Case {
    int signal;
    int status;
  };
  for (const Case one : {Case{SIGINT, 130}, Case{SIGTERM, 143}}) {
    const TemporaryFolder folder;
    Process process(
        Launch{.arguments = long_run({"--json", "--out", "r"}), .folder = folder.path()});
    REQUIRE(process.wait_for("step 3/"));
    process.send(one.signal);
    const Result result = process.finish();
    CHECK(result.status == one.status);
    CHECK_THAT(result.err, ContainsSubstring("interrupted after step "));
    const Json object = parse_json(result.out);
    CHECK(text_of(object, "status") == "interrupted");
    CHECK(object.find("test_accuracy")->is_null());
    const std::int64_t steps = *object.find("steps")->natural();
    CHECK(steps >= 3);
    CHECK(text_of(parse_json(read_bytes(folder / "r/result.json")), "status") == "interrupted");
    CHECK(lines_in(read_bytes(folder / "r/metrics.csv")) == steps + 1);
    CHECK(read_tensors(folder / "r/model.safetensors").metadata.at("step") ==
          std::to_string(steps));
  }
}

TEST_CASE("a second signal ends the program at once") {
  const TemporaryFolder folder;
  // Steps of a second or so, so that the second signal comes within the same one.
  Process process(Launch{
      .arguments = long_run({"--length", "64", "--batch", "4096", "--warmup", "1", "--out", "r"}),
      .folder = folder.path()});
  REQUIRE(process.wait_for("model  "));
  // Two that come before the program runs again count as one: many are sent.
  for (int i = 0; i < 10; ++i) {
    process.send(SIGINT);
    ::usleep(20'000);
  }
  const Result result = process.finish();
  CHECK(result.status == 130);
  CHECK_FALSE(std::filesystem::exists(folder / "r/result.json"));
}

TEST_CASE("a run that is killed keeps the weights of its last whole epoch") {
  const TemporaryFolder folder;
  Process process(Launch{.arguments = small_run({"--epochs", "100000", "--out", "r"}),
                         .folder = folder.path()});
  REQUIRE(process.wait_for("epoch 2/100000: validation"));
  process.send(SIGKILL);
  CHECK(process.finish().status == -SIGKILL);
  const TensorFile model = read_tensors(folder / "r/model.safetensors");
  const std::int64_t step = std::stoll(model.metadata.at("step"));
  CHECK(step >= 20);
  CHECK(step % 10 == 0);
  CHECK(lines_in(read_bytes(folder / "r/metrics.csv")) >= 21);
}

TEST_CASE("numbers that explode stop the run and keep the last good weights") {
  const TemporaryFolder folder;
  const Result result = run(Launch{.arguments = small_run({"--lr", "1e30", "--json", "--out", "r"}),
                                   .folder = folder.path()});
  CHECK(result.status == 1);
  CHECK_THAT(result.err, ContainsSubstring("stopped the run") && ContainsSubstring("weight"));
  CHECK_THAT(result.err,
             ContainsSubstring("run again with") && ContainsSubstring("--check-finite"));
  const Json object = parse_json(result.out);
  CHECK(text_of(object, "status") == "failed");
  CHECK_THAT(text_of(object, "error"), ContainsSubstring("step "));
  CHECK(text_of(parse_json(read_bytes(folder / "r/result.json")), "status") == "failed");
  CHECK_FALSE(std::filesystem::exists(folder / "r/model.safetensors"));
}

TEST_CASE("a folder that cannot be made and a full disk are one sentence and status 1") {
  const TemporaryFolder folder;
  const Result nowhere =
      run(Launch{.arguments = small_run({"--out", "/dev/null/run"}), .folder = folder.path()});
  CHECK(nowhere.status == 1);
  CHECK(lines_in(nowhere.err) == 1);
  CHECK_THAT(nowhere.err, ContainsSubstring("cannot make the folder '/dev/null"));

  const Result full = run(Launch{.arguments = small_run({"--out", "r", "--log-every", "1000"}),
                                 .folder = folder.path(),
                                 .file_size_limit = 1500});
  CHECK(full.status == 1);
  CHECK_THAT(full.err,
             ContainsSubstring("cannot write 'r/") && ContainsSubstring("File too large"));
}

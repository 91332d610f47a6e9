#include <algorithm>
#include <set>

#include <tapehead/tasks.hpp>

#include "support/catch.hpp"

using namespace tapehead;

TEST_CASE("reverse: the target is the input read backwards") {
  const Task task = make_task("reverse", {.symbols = 5, .length = 7});
  const Sequences data = draw(task, 200, Rng(3, Stream::data));
  REQUIRE(data.inputs.shape() == Shape{200, 7});
  std::set<std::int64_t> seen;
  for (std::int64_t n = 0; n < 200; ++n) {
    for (std::int64_t t = 0; t < 7; ++t) {
      CHECK(data.targets.at({n, t}) == data.inputs.at({n, 6 - t}));
      CHECK(data.targets.at({n, t}) == data.inputs.at({n, task.source(t)}));
      seen.insert(static_cast<std::int64_t>(data.inputs.at({n, t})));
    }
  }
  CHECK(seen == std::set<std::int64_t>{0, 1, 2, 3, 4});
  CHECK(task.chance == Approx(0.2));
  CHECK(task.symbols == 5);
  CHECK(task.classes == 5);
}

TEST_CASE("splits are drawn from the seed alone, each from a stream of its own") {
  const Task task = make_task("reverse");
  const Dataset a = draw(task, {.train = 50, .validation = 20, .test = 30}, 7);
  const Dataset b = draw(task, {.train = 80, .validation = 20, .test = 30}, 7);
  const Dataset c = draw(task, {.train = 50, .validation = 20, .test = 30}, 8);
  CHECK(same_bits(a.validation.inputs, b.validation.inputs));
  CHECK(same_bits(a.test.inputs, b.test.inputs));
  const auto long_train = b.train.inputs.to_vector<std::int64_t>();
  const auto train = a.train.inputs.to_vector<std::int64_t>();
  CHECK(std::equal(train.begin(), train.end(), long_train.begin()));
  CHECK_FALSE(same_bits(a.train.inputs, c.train.inputs));
  const auto validation = a.validation.inputs.to_vector<std::int64_t>();
  CHECK_FALSE(std::equal(validation.begin(), validation.end(), train.begin()));
}

TEST_CASE("every task of the catalog keeps what it promises") {
  for (const TaskEntry& entry : task_catalog()) {
    INFO(entry.name);
    CHECK_FALSE(entry.summary.empty());
    if (!entry.make) continue;  // a file
    const Task task = make_task(entry.name);
    CHECK(task.name == entry.name);
    CHECK_FALSE(task.summary.empty());
    CHECK(task.chance > 0);
    CHECK(task.chance < 1);
    CHECK(task.loss_floor >= 0);
    const Sequences data = draw(task, {.train = 50, .validation = 50, .test = 50}, 1).train;
    for (const std::int64_t id : data.inputs.to_vector<std::int64_t>()) {
      CHECK((id >= 0 && id < task.symbols));
    }
    for (const std::int64_t id : data.targets.to_vector<std::int64_t>()) {
      CHECK(((id >= 0 && id < task.classes) || id == kIgnored));
    }
    std::set<std::string> names;
    for (std::int64_t id = 0; id < task.symbols; ++id) names.insert(task.inputs.symbol(id));
    CHECK(static_cast<std::int64_t>(names.size()) == task.symbols);
    CHECK(task.outputs.size() == task.classes);
  }
}

TEST_CASE("bad options and names are refused with what to do") {
  CHECK_THROWS_WITH(make_task("revers"), ContainsSubstring("did you mean 'reverse'?"));
  CHECK_THROWS_WITH(make_task("reverse", {.symbols = 1}),
                    ContainsSubstring("reverse: symbols must be 2..1024, got 1"));
  CHECK_THROWS_WITH(make_task("reverse", {.length = 0}),
                    ContainsSubstring("reverse: length must be 1..1024, got 0"));
  CHECK_THROWS_AS(make_task("reverse", {.symbols = 1025}), ValueError);
  CHECK_THROWS_WITH(draw(make_task("reverse"), {.train = 10, .validation = 0, .test = 10}, 0),
                    ContainsSubstring("at least 1 sequence, got 0"));
}

TEST_CASE("a generated answer begins and ends as the examples of its task do") {
  for (const char* name : {"copy", "copy-rest", "dates"}) {
    INFO(name);
    const Task task = make_task(name, {});
    const AnswerSymbols& answer = find_task(name).answer;
    Example example;
    Rng rng(1);
    task.draw(rng, example);
    CHECK(task.outputs.find(answer.start) == example.decoder.front());
    CHECK_FALSE(task.outputs.find(answer.stop));
    const std::int64_t length =
        answer.length > 0 ? answer.length : std::ssize(example.input) + answer.length;
    CHECK(length == std::ssize(example.target));
  }
  for (const char* name : {"lines", "pairs"}) {
    CHECK((find_task(name).answer.start == "\n" && find_task(name).answer.stop == "\n"));
  }
  CHECK(find_task("text").answer.stop.empty());
  CHECK_THROWS_WITH(find_task("dats"), ContainsSubstring("did you mean 'dates'"));
}

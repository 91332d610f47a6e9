// What each generated task asks, worked out again from its text.
#include <algorithm>
#include <map>
#include <set>

#include <tapehead/tasks.hpp>

#include "support/catch.hpp"

using namespace tapehead;

namespace {

using Ids = std::vector<std::int64_t>;

std::vector<Example> examples_of(const Task& task, int count) {
  if (task.all) return task.all();
  Rng rng(9, Stream::data);
  std::vector<Example> list(static_cast<std::size_t>(count));
  for (Example& example : list) task.draw(rng, example);
  return list;
}

// The answers that count, and where they stand.
Ids counted(const Example& example) {
  Ids ids;
  std::copy_if(example.target.begin(), example.target.end(), std::back_inserter(ids),
               [](std::int64_t id) { return id != kIgnored; });
  return ids;
}

std::int64_t number(const Ids& digits, std::size_t from, std::size_t count) {
  std::int64_t value = 0;
  for (std::size_t i = from; i < from + count; ++i) value = 10 * value + digits[i];
  return value;
}

}  // namespace

TEST_CASE("copy says its input behind a start symbol") {
  const Task task = make_task("copy", {.symbols = 5, .length = 4});
  for (const Example& e : examples_of(task, 50)) {
    CHECK(e.target == e.input);
    CHECK(e.decoder == Ids{5, e.input[0], e.input[1], e.input[2]});
  }
}

TEST_CASE("sort goes on with the digits in order, and holds a part of the inputs out") {
  const Task task = make_task("sort");
  CHECK(task.length == 11);
  int held = 0;
  for (const Example& e : examples_of(task, 2000)) {
    REQUIRE(e.input.size() == 11);
    Ids digits(e.input.begin(), e.input.begin() + 6);
    std::sort(digits.begin(), digits.end());
    CHECK(counted(e) == digits);
    CHECK(std::equal(digits.begin(), digits.end() - 1, e.input.begin() + 6));
    CHECK(e.target[4] == kIgnored);
    CHECK(e.target[5] == digits[0]);
    held += task.held_out(e) ? 1 : 0;
  }
  CHECK(held > 300);  // 500 expected, 19 the deviation were the inputs independent
  CHECK(held < 700);
  const Dataset data = draw(task, {.train = 400, .validation = 50, .test = 200}, 3);
  CHECK(leaked(data) == 0);
  CHECK(leaked({data.test, {}, data.test}) == 200);
}

TEST_CASE("sums are right in either order of digits, and every pair is there once") {
  for (const bool reversed : {false, true}) {
    const Task task = make_task(reversed ? "addition-reversed" : "addition");
    std::set<Ids> pairs;
    for (const Example& e : examples_of(task, 0)) {
      Ids sum = counted(e);
      REQUIRE(sum.size() == 3);
      CHECK(Ids(e.input.begin() + 4, e.input.end()) == Ids(sum.begin(), sum.end() - 1));
      if (reversed) std::reverse(sum.begin(), sum.end());
      CHECK(number(sum, 0, 3) == number(e.input, 0, 2) + number(e.input, 2, 2));
      pairs.insert(Ids(e.input.begin(), e.input.begin() + 4));
    }
    CHECK(pairs.size() == 10'000);
    const Dataset data = draw(task, {}, 1);
    CHECK(data.train.count() == 9'000);
    CHECK(data.test.count() == 1'000);
    CHECK(leaked(data) == 0);
  }
  const Task longer = make_task("addition", {.length = 5});
  const Dataset data = draw(longer, {.train = 500, .validation = 20, .test = 100}, 1);
  CHECK(leaked(data) == 0);
}

TEST_CASE("modular arithmetic") {
  const std::map<std::string, std::int64_t (*)(std::int64_t, std::int64_t, std::int64_t)> checks = {
      {"add-mod", [](std::int64_t a, std::int64_t b, std::int64_t c) { return (a + b - c) % 7; }},
      {"subtract-mod",
       [](std::int64_t a, std::int64_t b, std::int64_t c) { return (c + b - a) % 7; }},
      {"multiply-mod",
       [](std::int64_t a, std::int64_t b, std::int64_t c) { return (a * b - c) % 7; }},
      {"divide-mod",
       [](std::int64_t a, std::int64_t b, std::int64_t c) { return (c * b - a) % 7; }}};
  for (const auto& check : checks) {
    INFO(check.first);
    const Task task = make_task(check.first, {.symbols = 7});
    const std::vector<Example> all = examples_of(task, 0);
    CHECK(all.size() == (check.first == "divide-mod" ? 42 : 49));
    std::map<std::int64_t, int> answers;
    for (const Example& e : all) {
      REQUIRE(counted(e).size() == 1);
      CHECK(e.target[3] >= 0);
      CHECK(e.target[3] < 7);
      CHECK(check.second(e.input[0], e.input[2], e.target[3]) % 7 == 0);
      CHECK(e.input[1] == 7);
      CHECK(e.input[3] == 8);
      ++answers[e.target[3]];
    }
    int most = 0;
    for (const auto& answer : answers) most = std::max(most, answer.second);
    CHECK(task.chance == Approx(most / static_cast<double>(all.size())));
  }
  CHECK(make_task("divide-mod").all().size() == 9'312);
  CHECK_THROWS_WITH(make_task("divide-mod", {.symbols = 8}), ContainsSubstring("prime"));
}

TEST_CASE("one answer for the whole sequence") {
  for (const Example& e : examples_of(make_task("parity"), 100)) {
    CHECK(e.target == Ids{std::count(e.input.begin(), e.input.end(), 1) % 2});
  }
  for (const Example& e : examples_of(make_task("first"), 100)) CHECK(e.target == Ids{e.input[0]});
  for (const Example& e : examples_of(make_task("majority", {.symbols = 3}), 100)) {
    const std::int64_t winner = e.target.at(0);
    const auto votes = [&](std::int64_t id) {
      return std::count(e.input.begin(), e.input.end(), id);
    };
    for (std::int64_t id = 0; id < 3; ++id) CHECK((id == winner || votes(id) < votes(winner)));
  }
}

TEST_CASE("brackets are well-formed, no deeper than asked, and the answer closes the innermost") {
  const Task task = make_task("dyck", {.symbols = 3, .length = 20, .depth = 3});
  std::size_t deepest = 0;
  for (const Example& e : examples_of(task, 200)) {
    std::string open;
    for (std::size_t t = 0; t < e.input.size(); ++t) {
      const char c = task.inputs.symbol(e.input[t])[0];
      const std::size_t kind = std::string("([{").find(c);
      if (kind != std::string::npos) {
        open += ")]}"[kind];
      } else {
        REQUIRE_FALSE(open.empty());
        CHECK(open.back() == c);
        open.pop_back();
      }
      deepest = std::max(deepest, open.size());
      CHECK(task.outputs.symbol(e.target[t])[0] == (open.empty() ? '.' : open.back()));
    }
    CHECK(open.empty());
  }
  CHECK(deepest == 3);
}

TEST_CASE("repeat, recall and selective copy can be answered from what stands before") {
  for (const Example& e : examples_of(make_task("repeat"), 50)) {
    REQUIRE(e.input.size() == 31);
    CHECK(counted(e).size() == 15);
    for (std::size_t t = 16; t < 31; ++t) {
      CHECK(e.input[t] == e.input[t - 16]);
      CHECK(e.target[t] == e.input[t - 15]);
    }
  }
  for (const Example& e : examples_of(make_task("recall"), 50)) {
    std::map<std::int64_t, std::int64_t> values;
    for (std::size_t i = 0; i < 8; i += 2) values[e.input[i]] = e.input[i + 1];
    CHECK(values.size() == 4);
    for (std::size_t i = 8; i < 16; i += 2) {
      CHECK(e.target[i] == values.at(e.input[i]));
      CHECK(e.target[i + 1] == kIgnored);
    }
    CHECK(counted(e).size() == 4);
  }
  const Task task = make_task("selective-copy");
  for (const Example& e : examples_of(task, 50)) {
    Ids seen;
    for (std::size_t i = 0; i < 16; ++i) {
      if (e.input[i] < 8) seen.push_back(e.input[i]);
    }
    CHECK(counted(e) == seen);
    CHECK(seen.size() == 4);
    CHECK(e.input[16] == 9);
  }
}

TEST_CASE("dates are the same day in both columns") {
  const Task task = make_task("dates");
  const std::vector<std::string> months = {"jan", "feb", "mar", "apr", "may", "jun",
                                           "jul", "aug", "sep", "oct", "nov", "dec"};
  std::size_t shortest = 99, longest = 0;
  for (const Example& e : examples_of(task, 300)) {
    const std::string text = task.inputs.decode(e.input);
    const std::string iso = task.outputs.decode(e.target);
    REQUIRE(iso.size() == 10);
    CHECK(task.outputs.decode(e.decoder) == std::string("|").append(iso, 0, 9));
    CHECK(text.substr(text.size() - 4) == iso.substr(0, 4));
    const auto month = static_cast<std::size_t>(std::stoi(iso.substr(5, 2)));
    const std::string day = std::to_string(std::stoi(iso.substr(8)));
    const bool named = text.find(months[month - 1]) != std::string::npos;
    const bool numbers = text.find(day + "." + std::to_string(month) + ".") == 0;
    CHECK((named || numbers));
    CHECK(text.find(day) != std::string::npos);
    shortest = std::min(shortest, text.size());
    longest = std::max(longest, text.size());
  }
  CHECK(longest > shortest + 5);
}

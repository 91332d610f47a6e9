// repeat: a random half, then the same again; asked in the second half. What an induction head
//   does.  Olsson et al. 2022, "In-context learning and induction heads".
// induction: a random part of a quarter to a half of the length, repeated to fill it.
// recall: pairs of key and value, then the keys in another order, each followed by its value, which
//   is asked.  Arora et al. 2023, "Zoology" (MQAR).
// selective-copy: symbols scattered among blanks, then ">" and the symbols in order.
//   Gu & Dao 2023, "Mamba".
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/message.hpp"
#include "tasks/catalog.hpp"

namespace tapehead::detail {

namespace {

using Ids = std::vector<std::int64_t>;

// `length` tokens of which each is the one a period before it; asked from the first such one on.
// The period is drawn from least(length) to length / 2.
TaskEntry repeating_task(const char* name, const char* summary, std::int64_t shortest,
                         std::int64_t (*least)(std::int64_t length)) {
  return {name, summary, [=](const TaskOptions& options) {
            const std::int64_t symbols = option_in(name, "symbols", options.symbols, 28, 2, 1024);
            const std::int64_t length =
                option_in(name, "length", options.length, 32, shortest, 1024);
            check_even(name, "length", length);
            Task task = basic_task(name, summary, ModelKind::language_model,
                                   Vocabulary(plain_symbols(symbols)));
            task.options = {.symbols = symbols, .length = length};
            task.length = length - 1;
            task.chance = 1.0 / static_cast<double>(symbols);
            task.draw = [=](Rng& rng, Example& example) {
              const std::int64_t most = length / 2;
              const std::int64_t from = least(length);
              const std::int64_t period = from == most ? most : from + rng.below(most - from + 1);
              Ids all(static_cast<std::size_t>(length));
              for (std::int64_t t = 0; t < length; ++t) {
                all[static_cast<std::size_t>(t)] =
                    t < period ? rng.below(symbols) : all[static_cast<std::size_t>(t - period)];
              }
              example.input.assign(all.begin(), all.end() - 1);
              example.target.assign(static_cast<std::size_t>(period), kIgnored);
              example.target.insert(example.target.end(), all.begin() + period + 1, all.end());
            };
            return task;
          }};
}

TaskEntry repeat_task() {
  return repeating_task("repeat", "go on with the second half, which repeats the first", 4,
                        [](std::int64_t length) { return length / 2; });
}

// Were the period the same each time, one could look so many positions back and not at the tokens.
TaskEntry induction_task() {
  return repeating_task("induction", "go on with what repeats after a number of tokens that varies",
                        8, [](std::int64_t length) { return length / 4; });
}

TaskEntry recall_task() {
  const char* name = "recall";
  const char* summary = "tell the value that stood after each key";
  return {
      name, summary, [=](const TaskOptions& options) {
        const std::int64_t symbols = option_in(name, "symbols", options.symbols, 16, 2, 512);
        const std::int64_t pairs = option_in(name, "length", options.length, 4, 1, symbols);
        std::vector<std::string> words;
        for (std::int64_t key = 0; key < symbols; ++key) words.push_back(fmt::format("k{} ", key));
        for (std::int64_t value = 0; value < symbols; ++value)
          words.push_back(fmt::format("v{} ", value));
        Task task =
            basic_task(name, summary, ModelKind::language_model, Vocabulary(std::move(words)));
        task.options = {.symbols = symbols, .length = pairs};
        task.length = 4 * pairs;
        task.chance = 1.0 / static_cast<double>(symbols);
        task.draw = [=](Rng& rng, Example& example) {
          Ids keys(static_cast<std::size_t>(symbols));
          std::iota(keys.begin(), keys.end(), std::int64_t{0});
          rng.shuffle(std::span(keys));
          Ids values(static_cast<std::size_t>(pairs));
          for (std::int64_t& value : values) value = symbols + rng.below(symbols);
          Ids order(values.size());
          std::iota(order.begin(), order.end(), std::int64_t{0});
          example.input.clear();
          example.target.clear();
          const auto say = [&](std::int64_t pair, bool asked) {
            const auto i = static_cast<std::size_t>(pair);
            example.input.insert(example.input.end(), {keys[i], values[i]});
            example.target.insert(example.target.end(), {asked ? values[i] : kIgnored, kIgnored});
          };
          for (const std::int64_t pair : order) say(pair, false);
          rng.shuffle(std::span(order));
          for (const std::int64_t pair : order) say(pair, true);
        };
        return task;
      }};
}

TaskEntry selective_copy_task() {
  const char* name = "selective-copy";
  const char* summary = "tell the symbols that stood among blanks, in order";
  return {name, summary, [=](const TaskOptions& options) {
            const std::int64_t symbols = option_in(name, "symbols", options.symbols, 8, 2, 1024);
            const std::int64_t length = option_in(name, "length", options.length, 16, 4, 1024);
            const std::int64_t count = length / 4;
            std::vector<std::string> words = plain_symbols(symbols);
            words.emplace_back(".");
            words.emplace_back(">");
            Task task =
                basic_task(name, summary, ModelKind::language_model, Vocabulary(std::move(words)));
            task.options = {.symbols = symbols, .length = length};
            task.length = length + count;
            task.chance = 1.0 / static_cast<double>(symbols);
            task.draw = [=](Rng& rng, Example& example) {
              Ids places(static_cast<std::size_t>(length));
              std::iota(places.begin(), places.end(), std::int64_t{0});
              rng.shuffle(std::span(places));
              std::sort(places.begin(), places.begin() + count);
              example.input.assign(static_cast<std::size_t>(length), symbols);
              example.input.push_back(symbols + 1);
              example.target.assign(static_cast<std::size_t>(length), kIgnored);
              for (std::int64_t i = 0; i < count; ++i) {
                const std::int64_t id = rng.below(symbols);
                example.input[static_cast<std::size_t>(places[static_cast<std::size_t>(i)])] = id;
                if (i + 1 < count) example.input.push_back(id);
                example.target.push_back(id);
              }
            };
            return task;
          }};
}

}  // namespace

std::vector<TaskEntry> recalling_tasks() {
  return {repeat_task(), induction_task(), recall_task(), selective_copy_task()};
}

}  // namespace tapehead::detail

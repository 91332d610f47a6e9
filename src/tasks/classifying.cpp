// parity:   whether the number of ones is odd
// first:    the first symbol
// majority: the commonest symbol; sequences without one are not drawn
// One answer for the whole sequence.  Hahn 2020, "Theoretical limitations of self-attention".
#include <algorithm>

#include "tasks/catalog.hpp"

namespace tapehead::detail {

namespace {

using Ids = std::vector<std::int64_t>;

struct Limits {
  std::int64_t symbols;  // the default
  std::int64_t most;     // symbols at most
  std::int64_t length;   // the default
};

// `answer` gives -1 for a sequence that is not to be drawn.
TaskEntry classifying_task(const char* name, const char* summary, Limits limits,
                           std::int64_t (*answer)(const Ids& input, std::int64_t symbols)) {
  return {name, summary, [=](const TaskOptions& options) {
            const std::int64_t symbols =
                option_in(name, "symbols", options.symbols, limits.symbols, 2, limits.most);
            const std::int64_t length =
                option_in(name, "length", options.length, limits.length, 1, 1024);
            Task task = basic_task(name, summary, ModelKind::classifier,
                                   Vocabulary(plain_symbols(symbols)));
            task.options = {.symbols = symbols, .length = length};
            task.length = length;
            // By symmetry all answers are equally common.
            task.chance = 1.0 / static_cast<double>(symbols);
            task.draw = [=](Rng& rng, Example& example) {
              example.input.resize(static_cast<std::size_t>(length));
              example.target.resize(1);
              do {
                for (std::int64_t& id : example.input) id = rng.below(symbols);
                example.target[0] = answer(example.input, symbols);
              } while (example.target[0] < 0);
            };
            return task;
          }};
}

std::int64_t commonest(const Ids& input, std::int64_t symbols) {
  Ids counts(static_cast<std::size_t>(symbols), 0);
  for (const std::int64_t id : input) ++counts[static_cast<std::size_t>(id)];
  const auto most = std::max_element(counts.begin(), counts.end());
  if (std::count(counts.begin(), counts.end(), *most) > 1) return -1;
  return most - counts.begin();
}

}  // namespace

std::vector<TaskEntry> classifying_tasks() {
  return {classifying_task("parity", "is the number of ones odd?", {2, 2, 8},
                           [](const Ids& input, std::int64_t) {
                             return std::count(input.begin(), input.end(), 1) % 2;
                           }),
          classifying_task("first", "which symbol came first?", {10, 1024, 16},
                           [](const Ids& input, std::int64_t) { return input.front(); }),
          classifying_task("majority", "which symbol is the commonest?", {2, 1024, 15}, commonest)};
}

}  // namespace tapehead::detail

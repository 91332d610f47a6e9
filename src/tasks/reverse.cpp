// reverse: the target is the input read backwards, y_t = x_{T-1-t}.
//
// Symbols are uniform and independent, so a guess without the input is right once in `symbols`, and
// a model that looks at the right position can be certain. Solved by one attention head: the map is
// the anti-diagonal.
// Source: the "sequence to sequence" experiment of the UvA Deep Learning tutorial 6 (P. Lippe).
#include "tasks/catalog.hpp"

#include <algorithm>

namespace tapehead::detail {

TaskEntry reverse_task() {
  const char* name = "reverse";
  const char* summary = "read a random sequence backwards";
  return {name, summary, [name, summary](const TaskOptions& options) {
            check_options(name, options);
            Task task;
            task.name = name;
            task.summary = summary;
            task.options = options;
            task.symbols = options.symbols;
            task.classes = options.symbols;
            task.length = options.length;
            task.chance = 1.0 / static_cast<double>(options.symbols);
            task.loss_floor = 0;
            const std::int64_t symbols = options.symbols;
            task.draw = [symbols](Rng& rng, std::span<std::int64_t> input,
                                  std::span<std::int64_t> target) {
              for (std::int64_t& id : input) id = rng.below(symbols);
              std::reverse_copy(input.begin(), input.end(), target.begin());
            };
            const std::int64_t last = options.length - 1;
            task.source = [last](std::int64_t t) { return last - t; };
            task.symbol = plain_symbol;
            return task;
          }};
}

}  // namespace tapehead::detail

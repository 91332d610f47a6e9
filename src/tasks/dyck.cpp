// dyck: well-formed brackets of k kinds, at most `depth` deep; after each of them, which bracket
// would close the innermost open one? "." when none is open.
//
// The answer is a function of what stands before, so the loss can reach 0; a model needs a stack.
// Yao, Peng, Papadimitriou, Narasimhan 2021, "Self-attention networks can process bounded
// hierarchical languages".
#include <fmt/format.h>

#include "core/message.hpp"
#include "tasks/catalog.hpp"

namespace tapehead::detail {

TaskEntry dyck_task() {
  const char* name = "dyck";
  const char* summary = "which bracket closes the innermost open one?";
  return {name, summary, [=](const TaskOptions& options) {
            const std::int64_t kinds = option_in(name, "symbols", options.symbols, 2, 1, 4);
            const std::int64_t length = option_in(name, "length", options.length, 24, 2, 1024);
            const std::int64_t depth = option_in(name, "depth", options.depth, 4, 1, 512);
            check_even(name, "length", length);
            std::vector<std::string> words;
            for (std::int64_t kind = 0; kind < kinds; ++kind) {
              words.emplace_back(1, "([{<"[kind]);
              words.emplace_back(1, ")]}>"[kind]);
            }
            words.emplace_back(".");
            Task task =
                basic_task(name, summary, ModelKind::language_model, Vocabulary(std::move(words)));
            task.options = {.symbols = kinds, .length = length, .depth = depth};
            task.length = length;
            task.draw = [=](Rng& rng, Example& example) {
              std::vector<std::int64_t> open;
              example.input.clear();
              example.target.clear();
              for (std::int64_t left = length; left > 0; --left) {
                const auto height = static_cast<std::int64_t>(open.size());
                const bool may_open = height < depth && height < left - 1;
                if (height == 0 || (may_open && rng.bernoulli(0.5))) {
                  open.push_back(rng.below(kinds));
                  example.input.push_back(2 * open.back());
                } else {
                  example.input.push_back(2 * open.back() + 1);
                  open.pop_back();
                }
                example.target.push_back(open.empty() ? 2 * kinds : 2 * open.back() + 1);
              }
            };
            task.chance = measured_chance(task);
            return task;
          }};
}

}  // namespace tapehead::detail

// reverse: the target is the input read backwards, y_t = x_{T-1-t}.
// copy:    the target is the input; an encoder-decoder says it token by token.
// copy-rest: its first token is always 1, and the decoder is given it.
// sort:    after the input its digits in order; the model is asked from the last input digit on.
//
// Symbols are uniform and independent, so a guess without the input is right once in `symbols`, and
// a model that looks at the right position can be certain. `reverse` is solved by one attention
// head: the map is the anti-diagonal.
// Sources: reverse: the "sequence to sequence" experiment of the UvA Deep Learning tutorial 6 (P.
// Lippe); copy: "The Annotated Transformer" (Rush, Huang et al.); sort: minGPT's demo (Karpathy).
#include <algorithm>

#include <fmt/format.h>

#include "core/message.hpp"
#include "io/hash.hpp"
#include "tasks/catalog.hpp"

namespace tapehead::detail {

namespace {

void draw_symbols(Rng& rng, std::vector<std::int64_t>& ids, std::int64_t length,
                  std::int64_t symbols) {
  ids.resize(static_cast<std::size_t>(length));
  for (std::int64_t& id : ids) id = rng.below(symbols);
}

struct Sizes {
  std::int64_t symbols;
  std::int64_t length;
};

// The two options that all three have.
Sizes sizes_of(const char* name, const TaskOptions& options, Sizes standard) {
  return {option_in(name, "symbols", options.symbols, standard.symbols, 2, 1024),
          option_in(name, "length", options.length, standard.length, 1, 1024)};
}

bool many_kinds(std::vector<std::int64_t> digits) {
  const std::size_t half = digits.size() / 2;
  std::sort(digits.begin(), digits.end());
  return static_cast<std::size_t>(std::unique(digits.begin(), digits.end()) - digits.begin()) >
         half;
}

}  // namespace

TaskEntry reverse_task() {
  const char* name = "reverse";
  const char* summary = "read a random sequence backwards";
  return {name, summary, [=](const TaskOptions& options) {
            const auto [symbols, length] = sizes_of(name, options, {10, 16});
            Task task =
                basic_task(name, summary, ModelKind::encoder, Vocabulary(plain_symbols(symbols)));
            task.options = {.symbols = symbols, .length = length};
            task.length = length;
            task.chance = 1.0 / static_cast<double>(symbols);
            task.draw = [symbols = symbols, length = length](Rng& rng, Example& example) {
              draw_symbols(rng, example.input, length, symbols);
              example.target.assign(example.input.rbegin(), example.input.rend());
            };
            task.source = [last = length - 1](std::int64_t t) { return last - t; };
            return task;
          }};
}

TaskEntry copy_task() {
  const char* name = "copy";
  const char* summary = "say a random sequence again, token by token";
  return {name, summary, [=](const TaskOptions& options) {
            const auto [symbols, length] = sizes_of(name, options, {10, 10});
            std::vector<std::string> words = plain_symbols(symbols);
            words.push_back("|");  // what the decoder starts from
            Task task =
                basic_task(name, summary, ModelKind::encoder_decoder, Vocabulary(std::move(words)));
            task.options = {.symbols = symbols, .length = length};
            task.length = length;
            task.chance = 1.0 / static_cast<double>(symbols);
            task.draw = [symbols = symbols, length = length](Rng& rng, Example& example) {
              draw_symbols(rng, example.input, length, symbols);
              example.target = example.input;
              example.decoder.assign(1, symbols);
              example.decoder.insert(example.decoder.end(), example.input.begin(),
                                     example.input.end() - 1);
            };
            return task;
          }};
}

// Id 0, which the published program pads with, is never drawn.
TaskEntry copy_rest_task() {
  const char* name = "copy-rest";
  const char* summary = "say a random sequence that begins with 1 again, after its 1";
  return {
      name,
      summary,
      [=](const TaskOptions& options) {
        const auto [symbols, length] = sizes_of(name, options, {11, 10});
        if (symbols < 3 || length < 2) {
          fail<ValueError>(fmt::format("{}: needs 3 symbols and length 2 or more, got {} and {}",
                                       name, symbols, length));
        }
        Task task = basic_task(name, summary, ModelKind::encoder_decoder,
                               Vocabulary(plain_symbols(symbols)));
        task.options = {.symbols = symbols, .length = length};
        task.length = length;
        task.chance = 1.0 / static_cast<double>(symbols - 1);
        task.draw = [symbols = symbols, length = length](Rng& rng, Example& example) {
          draw_symbols(rng, example.input, length, symbols - 1);
          for (std::int64_t& id : example.input) ++id;
          example.input.front() = 1;
          example.target.assign(example.input.begin() + 1, example.input.end());
          example.decoder.assign(example.input.begin(), example.input.end() - 1);
        };
        return task;
      },
      {.start = "1", .length = -1}};
}

TaskEntry sort_task() {
  const char* name = "sort";
  const char* summary = "continue random digits with the same digits in order";
  return {name, summary, [=](const TaskOptions& options) {
            const auto [symbols, length] = sizes_of(name, options, {3, 6});
            Task task = basic_task(name, summary, ModelKind::language_model,
                                   Vocabulary(plain_symbols(symbols)));
            task.options = {.symbols = symbols, .length = length};
            task.length = 2 * length - 1;
            task.draw = [symbols = symbols, length = length](Rng& rng, Example& example) {
              do {
                draw_symbols(rng, example.input, length, symbols);
                // Half of the draws favour sequences with repeats, as minGPT does.
              } while (rng.bernoulli(0.5) && many_kinds(example.input));
              std::vector<std::int64_t> sorted = example.input;
              std::sort(sorted.begin(), sorted.end());
              example.target.assign(static_cast<std::size_t>(length - 1), kIgnored);
              example.target.insert(example.target.end(), sorted.begin(), sorted.end());
              example.input.insert(example.input.end(), sorted.begin(), sorted.end() - 1);
            };
            // A quarter of the inputs, by a hash of their digits. A handful of inputs leaves none.
            task.held_out = [length = length](const Example& example) {
              Fnv1a hash;
              hash.add(std::span(example.input).first(static_cast<std::size_t>(length)));
              return hash.value() >> 32 & 1 && hash.value() >> 33 & 1;
            };
            if (length < 3) task.held_out = nullptr;
            task.chance = measured_chance(task);
            return task;
          }};
}

}  // namespace tapehead::detail

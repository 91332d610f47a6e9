// addition: the digits of a and b, then those of a + b, from the highest on; "-reversed" from the
// lowest on, the order in which one adds by hand.
// add-mod and its kin: a op b = c modulo p, one token a number.  Power et al. 2022, "Grokking".
//
// The sum is asked from the last digit of b on. Below three digits all pairs are listed, and the
// splits are parts of the list; above, a tenth of the pairs is held out by hash.
#include <algorithm>

#include <fmt/format.h>

#include "core/message.hpp"
#include "io/hash.hpp"
#include "tasks/catalog.hpp"

namespace tapehead::detail {

namespace {

using Ids = std::vector<std::int64_t>;

void append_digits(Ids& to, std::int64_t number, std::int64_t count) {
  to.resize(to.size() + static_cast<std::size_t>(count));
  for (auto digit = to.rbegin(); count > 0; ++digit, --count) {
    *digit = number % 10;
    number /= 10;
  }
}

void fill_sum(Example& example, std::int64_t a, std::int64_t b, std::int64_t digits,
              bool reversed) {
  Ids sum;
  append_digits(sum, a + b, digits + 1);
  if (reversed) std::reverse(sum.begin(), sum.end());
  example.input.clear();
  append_digits(example.input, a, digits);
  append_digits(example.input, b, digits);
  example.input.insert(example.input.end(), sum.begin(), sum.end() - 1);
  example.target.assign(static_cast<std::size_t>(2 * digits - 1), kIgnored);
  example.target.insert(example.target.end(), sum.begin(), sum.end());
}

bool is_prime(std::int64_t p) {
  for (std::int64_t d = 2; d * d <= p; ++d) {
    if (p % d == 0) return false;
  }
  return p > 1;
}

std::int64_t apply(char op, std::int64_t a, std::int64_t b, std::int64_t p) {
  switch (op) {
    case '+': return (a + b) % p;
    case '-': return (a - b + p) % p;
    case '*': return a * b % p;
    default: break;
  }
  // Fermat: the inverse of b modulo a prime p is b^(p-2).
  std::int64_t inverse = 1;
  for (std::int64_t i = 0; i < p - 2; ++i) inverse = inverse * b % p;
  return a * inverse % p;
}

TaskEntry modular_task(const char* name, const char* summary, char op) {
  return {name, summary, [=](const TaskOptions& options) {
            const std::int64_t p = option_in(name, "symbols", options.symbols, 97, 2, 512);
            if (op == '/' && !is_prime(p)) {
              fail<ValueError>(fmt::format(
                  "{}: symbols is the modulus and must be a prime to divide by, got {}", name, p));
            }
            std::vector<std::string> words;
            for (std::int64_t n = 0; n < p; ++n) words.push_back(fmt::format("{} ", n));
            words.push_back(fmt::format("{} ", op));
            words.emplace_back("= ");
            Task task =
                basic_task(name, summary, ModelKind::language_model, Vocabulary(std::move(words)));
            task.options = {.symbols = p, .length = 4};
            task.length = 4;
            task.train_share = 0.5;
            task.all = [=] {
              std::vector<Example> list;
              for (std::int64_t a = 0; a < p; ++a) {
                for (std::int64_t b = op == '/' ? 1 : 0; b < p; ++b) {
                  list.push_back(
                      {{a, p, b, p + 1}, {kIgnored, kIgnored, kIgnored, apply(op, a, b, p)}});
                }
              }
              return list;
            };
            const auto m = static_cast<double>(p);
            // Zero is a product as often as either factor is 0; every other answer once in p.
            task.chance = op == '*' ? (2 * m - 1) / (m * m) : 1 / m;
            return task;
          }};
}

}  // namespace

TaskEntry addition_task(bool reversed) {
  const char* name = reversed ? "addition-reversed" : "addition";
  const char* summary = reversed ? "add two numbers, the lowest digit first" : "add two numbers";
  return {name, summary, [=](const TaskOptions& options) {
            const std::int64_t digits = option_in(name, "length", options.length, 2, 1, 16);
            Task task =
                basic_task(name, summary, ModelKind::language_model, Vocabulary(plain_symbols(10)));
            task.options = {.symbols = 10, .length = digits};
            task.length = 3 * digits;
            std::int64_t most = 1;
            for (std::int64_t i = 0; i < digits; ++i) most *= 10;
            task.draw = [=](Rng& rng, Example& example) {
              const std::int64_t a = rng.below(most);
              fill_sum(example, a, rng.below(most), digits, reversed);
            };
            if (digits < 3) {
              task.all = [=] {
                std::vector<Example> list(static_cast<std::size_t>(most * most));
                for (std::int64_t i = 0; i < most * most; ++i) {
                  fill_sum(list[static_cast<std::size_t>(i)], i / most, i % most, digits, reversed);
                }
                return list;
              };
            } else {
              task.held_out = [digits](const Example& example) {
                Fnv1a hash;
                hash.add(std::span(example.input).first(static_cast<std::size_t>(2 * digits)));
                return hash.value() % 10 == 0;
              };
            }
            task.chance = measured_chance(task);
            return task;
          }};
}

std::vector<TaskEntry> modular_tasks() {
  return {modular_task("add-mod", "a + b modulo a number", '+'),
          modular_task("subtract-mod", "a - b modulo a number", '-'),
          modular_task("multiply-mod", "a * b modulo a number", '*'),
          modular_task("divide-mod", "a / b modulo a prime", '/')};
}

}  // namespace tapehead::detail

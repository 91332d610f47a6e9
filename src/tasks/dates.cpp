// dates: a day of 1900-2099, written in one of four ways, as YYYY-MM-DD.  After the date
// normalisation example of Andrew Ng's sequence models course.
//   "march 3, 2019"   "3 mar 2019"   "3 march 2019"   "3.3.2019"
// Sources differ in length, so batches are padded. Inputs are drawn; a day may be in two splits.
#include <array>

#include <fmt/format.h>

#include "tasks/catalog.hpp"

namespace tapehead::detail {

namespace {

constexpr std::array<const char*, 12> kMonths = {"january",   "february", "march",    "april",
                                                 "may",       "june",     "july",     "august",
                                                 "september", "october",  "november", "december"};

std::int64_t days_in(std::int64_t month, std::int64_t year) {
  constexpr std::array<std::int64_t, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return kDays[static_cast<std::size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
}

std::string written(std::int64_t way, std::int64_t day, std::int64_t month, std::int64_t year) {
  const std::string name = kMonths[static_cast<std::size_t>(month - 1)];
  switch (way) {
    case 0: return fmt::format("{} {}, {}", name, day, year);
    case 1: return fmt::format("{} {} {}", day, name.substr(0, 3), year);
    case 2: return fmt::format("{} {} {}", day, name, year);
    default: return fmt::format("{}.{}.{}", day, month, year);
  }
}

Vocabulary letters(const std::string& text) {
  std::vector<std::string> symbols;
  for (const char c : text) symbols.emplace_back(1, c);
  return Vocabulary(std::move(symbols));
}

}  // namespace

TaskEntry dates_task() {
  const char* name = "dates";
  const char* summary = "write a date, given in one of four ways, as YYYY-MM-DD";
  return {name,
          summary,
          [=](const TaskOptions&) {
            Task task = basic_task(name, summary, ModelKind::encoder_decoder,
                                   letters(" ,.0123456789abcdefghijklmnopqrstuvwxyz"));
            task.outputs = letters("0123456789-|");  // "|": what the decoder starts from
            task.classes = task.outputs.size();
            task.length = 18;  // "september 30, 2099"
            task.options = {.symbols = task.symbols, .length = task.length};
            task.draw = [in = task.inputs, out = task.outputs](Rng& rng, Example& example) {
              const std::int64_t year = 1900 + rng.below(200);
              const std::int64_t month = 1 + rng.below(12);
              const std::int64_t day = 1 + rng.below(days_in(month, year));
              example.input = in.encode(written(rng.below(4), day, month, year));
              const std::string answer = fmt::format("{}-{:02}-{:02}", year, month, day);
              example.target = out.encode(answer);
              example.decoder = out.encode(fmt::format("|{}", answer.substr(0, answer.size() - 1)));
            };
            task.chance = measured_chance(task);
            return task;
          },
          {.length = 10}};  // of "2019-03-03"
}

}  // namespace tapehead::detail

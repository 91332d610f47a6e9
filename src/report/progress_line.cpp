#include "report/progress_line.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>

namespace tapehead::report {

std::string thousands(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string plural(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", thousands(count), what, count == 1 ? "" : "s");
}

std::string hex(std::uint64_t number) { return fmt::format("0x{:016x}", number); }

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(std::max(seconds, 0.0)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string progress_line(const StepReport& step, std::int64_t epochs, std::size_t width) {
  const double per_step = step.seconds / static_cast<double>(step.step);
  const auto speed = static_cast<std::int64_t>(static_cast<double>(step.tokens) / step.seconds);
  // In the order of the line; `keep` ranks what stays longest when it gets narrow.
  struct Part {
    int keep;
    std::string text;
  };
  const std::array<Part, 6> parts = {{
      {3, fmt::format("epoch {}/{}", step.epoch, epochs)},
      {1, fmt::format("step {}/{}", thousands(step.step), thousands(step.steps))},
      {0, fmt::format("loss {:#.6g}", step.loss)},
      {2, fmt::format("accuracy {:.2f}%", 100 * count_right(step.logits, step.targets).accuracy())},
      {5, fmt::format("{} tokens/s", thousands(speed))},
      {4, fmt::format("{} left", duration(per_step * static_cast<double>(step.steps - step.step)))},
  }};
  for (int kept = static_cast<int>(parts.size()); kept > 0; --kept) {
    std::string line;
    for (const Part& part : parts) {
      if (part.keep < kept) line += (line.empty() ? "" : "  ") + part.text;
    }
    if (line.size() <= width) return line;
  }
  return "";
}

namespace {

std::string words_of(const Evaluation& validation) {
  return fmt::format("validation loss {:#.6g}, {:.2f}% of tokens, {:.2f}% of sequences",
                     validation.loss, 100 * validation.accuracy(), 100 * validation.exact());
}

}  // namespace

std::string epoch_line(const Evaluation& validation, std::int64_t epoch, std::int64_t epochs) {
  return fmt::format("epoch {}/{}: {}", epoch, epochs, words_of(validation));
}

std::string evaluation_line(const StepReport& step) {
  return fmt::format("step {}/{}: {}", thousands(step.step), thousands(step.steps),
                     words_of(*step.validation));
}

}  // namespace tapehead::report

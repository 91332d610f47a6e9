// Learning-rate schedules. Each is a function of the step and of nothing else, so a run that is
// resumed at a step continues with exactly the same rates.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <tapehead/optim.hpp>

#include "core/message.hpp"

namespace tapehead::schedule {
namespace {

void check_rate(const char* schedule, const char* name, double value) {
  if (!(value >= 0 && std::isfinite(value))) {
    detail::fail<ValueError>(
        fmt::format("schedule::{}: {} must be finite and >= 0, got {}", schedule, name, value));
  }
}

void check_count(const char* schedule, const char* name, std::int64_t value, std::int64_t low = 0) {
  if (value < low) {
    detail::fail<ValueError>(
        fmt::format("schedule::{}: {} must be >= {}, got {}", schedule, name, low, value));
  }
}

void check_span(const char* schedule, std::int64_t warmup, std::int64_t total) {
  check_count(schedule, "warmup", warmup);
  if (total < warmup) {
    detail::fail<ValueError>(
        fmt::format("schedule::{}: a total of {} steps is shorter than the warm-up of {}", schedule,
                    total, warmup));
  }
}

double ramp(std::int64_t step, std::int64_t warmup) {
  return step >= warmup ? 1.0 : static_cast<double>(step) / static_cast<double>(warmup);
}

// How far `step` is on the way from `begin` to `end`, 0..1.
double progress(std::int64_t step, std::int64_t begin, std::int64_t end) {
  if (step >= end) return 1.0;
  return step <= begin ? 0.0 : static_cast<double>(step - begin) / static_cast<double>(end - begin);
}

}  // namespace

double constant(double lr, std::int64_t step) {
  check_rate("constant", "lr", lr);
  check_count("constant", "step", step);
  return lr;
}

double warmup(double lr, std::int64_t step, std::int64_t warmup) {
  check_rate("warmup", "lr", lr);
  check_count("warmup", "step", step);
  check_count("warmup", "warmup", warmup);
  return lr * ramp(step, warmup);
}

double cosine(double lr, std::int64_t step, std::int64_t warmup, std::int64_t total, double end) {
  check_rate("cosine", "lr", lr);
  check_rate("cosine", "end", end);
  check_count("cosine", "step", step);
  check_span("cosine", warmup, total);
  const double half_turn = std::numbers::pi * progress(step, 0, total);
  return ramp(step, warmup) * (end + (lr - end) * 0.5 * (1 + std::cos(half_turn)));
}

double linear(double lr, std::int64_t step, std::int64_t warmup, std::int64_t total, double end) {
  check_rate("linear", "lr", lr);
  check_rate("linear", "end", end);
  check_count("linear", "step", step);
  check_span("linear", warmup, total);
  if (step <= warmup) return lr * ramp(step, warmup);
  return lr + (end - lr) * progress(step, warmup, total);
}

double noam(double factor, std::int64_t step, std::int64_t width, std::int64_t warmup) {
  check_rate("noam", "factor", factor);
  check_count("noam", "step", step);
  check_count("noam", "width", width, 1);
  check_count("noam", "warmup", warmup);
  // min(s^-1/2, s w^-3/2) is s w^-3/2 before step w and s^-1/2 after; step 0 counts as step 1
  // where there is no warm-up to start from.
  const double s = static_cast<double>(step);
  const double w = static_cast<double>(warmup);
  const double shape = step < warmup ? s / (w * std::sqrt(w)) : 1 / std::sqrt(std::max(s, 1.0));
  return factor / std::sqrt(static_cast<double>(width)) * shape;
}

}  // namespace tapehead::schedule

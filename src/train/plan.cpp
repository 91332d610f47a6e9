// What a run will do, known before it begins: options that make sense, steps, rates, order.
#include <tapehead/train.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/message.hpp"
#include "optim/step.hpp"

namespace tapehead {

using detail::fail;

namespace {

void check_at_least(const char* option, std::int64_t value, std::int64_t low) {
  if (value < low) {
    fail<ValueError>(fmt::format("fit: {} must be at least {}, got {}", option, low, value));
  }
}

}  // namespace

std::int64_t steps_per_epoch(const FitOptions& options, std::int64_t sequences) {
  const std::int64_t step = options.batch * options.accumulate;
  return options.keep_last ? (sequences - 1) / step + 1 : sequences / step;
}

std::int64_t step_count(const FitOptions& options, std::int64_t sequences) {
  const double infinity = std::numeric_limits<double>::infinity();
  check_at_least("epochs", options.epochs, 1);
  check_at_least("batch", options.batch, 1);
  check_at_least("warmup", options.warmup, 0);
  check_at_least("warmup_tokens", options.warmup_tokens, 0);
  detail::check_option("fit", "threads", options.threads, 0, 1025);
  check_at_least("steps", options.steps, 0);
  check_at_least("accumulate", options.accumulate, 1);
  check_at_least("evaluate_every", options.evaluate_every, 0);
  check_at_least("patience", options.patience, 0);
  detail::check_option("fit", "lr", options.lr, 0, infinity);
  detail::check_option("fit", "lr_end", options.lr_end, 0, infinity);
  detail::check_option("fit", "beta1", options.beta1, 0, 1);
  detail::check_option("fit", "beta2", options.beta2, 0, 1);
  detail::check_option("fit", "weight_decay", options.weight_decay, 0, infinity);
  detail::check_option("fit", "label_smoothing", options.label_smoothing, 0, 1);
  detail::check_option("fit", "minutes", options.minutes, 0, infinity);
  if (!(options.eps > 0 && std::isfinite(options.eps))) {
    fail<ValueError>(fmt::format("fit: eps must be finite and > 0, got {}", options.eps));
  }
  if (!(options.clip > 0)) {
    fail<ValueError>(fmt::format("fit: clip must be above 0, got {}", options.clip));
  }
  if (sequences < (options.keep_last ? 1 : options.batch)) {
    fail<ValueError>(fmt::format(
        "fit: a batch of {} needs at least as many training sequences, but there are {}",
        options.batch, sequences));
  }
  if (!options.keep_last && options.accumulate > sequences / options.batch) {
    fail<ValueError>(fmt::format(
        "fit: {} batches of {} in a step need at least as many training sequences, but there are "
        "{}",
        options.accumulate, options.batch, sequences));
  }
  const std::int64_t per_epoch = steps_per_epoch(options, sequences);
  if (options.epochs > std::numeric_limits<std::int64_t>::max() / per_epoch) {
    fail<ValueError>(fmt::format("fit: {} epochs are too many", options.epochs));
  }
  const std::int64_t steps = options.steps > 0 ? options.steps : options.epochs * per_epoch;
  // Published runs with inverse_sqrt end while it still rises.
  if (options.warmup > steps && options.schedule != Schedule::inverse_sqrt) {
    fail<ValueError>(fmt::format(
        "fit: a warm-up of {} steps is longer than the run of {}; use a warmup of at most {}",
        options.warmup, steps, steps));
  }
  return steps;
}

void shorten_warmup(FitOptions& options, std::int64_t sequences) {
  FitOptions without = options;
  without.warmup = 0;
  options.warmup = std::min(options.warmup, step_count(without, sequences));
}

double learning_rate(const FitOptions& options, std::int64_t step, std::int64_t steps,
                     std::int64_t tokens) {
  if (tokens < options.warmup_tokens) {
    return learning_rate(options, step, steps) * static_cast<double>(tokens) /
           static_cast<double>(options.warmup_tokens);
  }
  switch (options.schedule) {
    case Schedule::linear:
      return schedule::linear(options.lr, step, options.warmup, steps, options.lr_end);
    case Schedule::constant: return schedule::warmup(options.lr, step, options.warmup);
    case Schedule::inverse_sqrt: {
      // noam's peak, at the end of the warm-up, is factor / sqrt(warmup) at width 1.
      const std::int64_t peak = std::max<std::int64_t>(options.warmup, 1);
      return schedule::noam(options.lr * std::sqrt(static_cast<double>(peak)), step, 1, peak);
    }
    case Schedule::cosine: break;
  }
  return schedule::cosine(options.lr, step, options.warmup, steps, options.lr_end);
}

std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Rng(seed, Stream::shuffle, static_cast<std::uint64_t>(epoch)).shuffle(std::span(order));
  return order;
}

std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, const Sequences& data,
                                      std::int64_t batch) {
  std::vector<std::int64_t> order = epoch_order(seed, epoch, data.count());
  if (data.lengths.empty()) return order;
  // Within runs of 16 batches sorted by length; then the batches in random order.
  const auto size = static_cast<std::size_t>(batch);
  const std::size_t pool = 16 * size;
  for (std::size_t begin = 0; begin < order.size(); begin += pool) {
    const auto from = order.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to =
        order.begin() + static_cast<std::ptrdiff_t>(std::min(begin + pool, order.size()));
    std::stable_sort(from, to, [&](std::int64_t a, std::int64_t b) {
      return data.lengths[static_cast<std::size_t>(a)] < data.lengths[static_cast<std::size_t>(b)];
    });
  }
  std::vector<std::size_t> batches(order.size() / size);
  std::iota(batches.begin(), batches.end(), std::size_t{0});
  Rng(seed, Stream::shuffle, static_cast<std::uint64_t>(epoch))
      .fork("batches")
      .shuffle(std::span(batches));
  std::vector<std::int64_t> sorted;
  for (const std::size_t one : batches) {
    const auto from = order.begin() + static_cast<std::ptrdiff_t>(one * size);
    sorted.insert(sorted.end(), from, from + static_cast<std::ptrdiff_t>(size));
  }
  const auto rest = static_cast<std::ptrdiff_t>(batches.size() * size);
  sorted.insert(sorted.end(), order.begin() + rest, order.end());
  return sorted;
}

}  // namespace tapehead

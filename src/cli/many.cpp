#include "cli/many.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "cli/interrupts.hpp"
#include "report/progress_line.hpp"

namespace tapehead::cli {
namespace {

using report::thousands;

constexpr std::int64_t kMostRuns = 10'000;

struct Setting {
  std::string text;  // "lr=0.001 width=32"; "" when nothing is swept
  RunConfig config;
};

// A setting with its data looked at: its warm-up is no longer than its run, unless that was asked
// for, and what the task decides by itself is not swept.
void settle(RunConfig& config, const std::string& name, const std::string& value, bool warmup) {
  RunConfig asked = config;
  const Loaded problem = load(config);
  for (const std::string& line : differences(asked, config)) {
    const std::string setting = line.substr(0, line.find(':'));
    if (setting == name || setting.ends_with("." + name))
      throw Misuse(
          fmt::format("--sweep: {} follows from the task: {} changes nothing", name, value));
  }
  if (warmup) shorten_warmup(config.fit, problem.data.train.count());
}

// Every combination of the values, the last setting varying fastest.
std::vector<Setting> crossed(const Many& many) {
  std::vector<Setting> settings{{"", many.config}};
  std::set<std::string> names;
  for (const std::string& one : many.sweep) {
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == one.size())
      throw Misuse(fmt::format("--sweep: '{}' is not NAME=VALUE,VALUE", one));
    const std::string name = one.substr(0, equals);
    const std::vector<std::string> values = split(one.substr(equals + 1), ',');
    if (name == "seed" || name == "train.seed") throw Misuse("--sweep: seeds are swept by --seeds");
    if (name == "name" || name == "task.name") throw Misuse("--sweep: a sweep is of one task");
    if (!names.insert(name.substr(name.find('.') + 1)).second)
      throw Misuse(fmt::format("--sweep: {} is swept twice", name));
    if (std::set<std::string>(values.begin(), values.end()).size() != values.size())
      throw Misuse(fmt::format("--sweep: a value of {} is given twice", name));
    if (static_cast<std::int64_t>(settings.size() * values.size()) > kMostRuns / many.seeds)
      throw Misuse(fmt::format("more than {} runs", thousands(kMostRuns)));
    std::vector<Setting> next;
    for (const Setting& setting : settings) {
      for (const std::string& value : values) {
        Setting changed = setting;
        as_misuse([&] {
          change_setting(changed.config, name, value);
          settle(changed.config, name, value, many.shorten_warmup && !names.contains("warmup"));
        });
        changed.text += fmt::format("{}{}={}", changed.text.empty() ? "" : " ", name, value);
        next.push_back(std::move(changed));
      }
    }
    settings = std::move(next);
  }
  return settings;
}

// Shares 0..1 as blocks of eight heights, thinned to `most`.
std::string blocks(const std::vector<double>& shares, std::size_t most) {
  constexpr std::array<const char*, 8> kHeights = {"\u2581", "\u2582", "\u2583", "\u2584",
                                                   "\u2585", "\u2586", "\u2587", "\u2588"};
  std::string text;
  const std::size_t count = std::min(shares.size(), most);
  for (std::size_t i = 0; i < count; ++i) {
    const double share = shares[(i + 1) * shares.size() / count - 1];
    text += kHeights[static_cast<std::size_t>(std::clamp(share * 8, 0.0, 7.0))];
  }
  return text;
}

detail::Json json_of(const Trial& trial) {
  detail::Json json;
  json.set("seed", trial.config.fit.seed).set("steps", trial.result.steps);
  json.set("solved_at", trial.solved_at > 0 ? detail::Json(trial.solved_at) : detail::Json());
  json.set("status", !trial.begun           ? "not begun"
                     : !trial.error.empty() ? "failed"
                     : trial.result.stopped ? "interrupted"
                                            : "done");
  if (!trial.error.empty()) json.set("error", trial.error);
  if (!trial.begun || !trial.error.empty()) return json;
  json.set("loss", trial.result.loss).set("seconds", trial.result.seconds);
  json.set("test_accuracy",
           trial.result.test ? detail::Json(trial.result.test->accuracy()) : detail::Json());
  json.set("fingerprint", report::hex(trial.result.fingerprint));
  return json;
}

}  // namespace

int run_many(const Many& many, Output& out) {
  if (many.seeds < 1 || many.seeds > kMostRuns)
    throw Misuse(fmt::format("--seeds must be 1..{}, got {}", thousands(kMostRuns), many.seeds));
  if (!(many.solved > 0 && many.solved <= 1))
    throw Misuse(fmt::format("--solved must be above 0 and at most 1, got {}", many.solved));
  const std::vector<Setting> settings = crossed(many);
  std::vector<RunConfig> configs;
  as_misuse([&] {
    for (const Setting& setting : settings) {
      for (RunConfig& config : with_seeds(setting.config, many.seeds))
        configs.push_back(std::move(config));
    }
  });

  const Interrupts interrupts;
  std::size_t done = 0;
  TrialOptions options{.solved = many.solved, .threads = many.threads, .stop = &Interrupts::flag()};
  options.done = [&](std::size_t index, const Trial& trial) {
    const std::string& setting = settings[index / static_cast<std::size_t>(many.seeds)].text;
    const std::string end = !trial.error.empty() ? "failed: " + trial.error
                            : trial.solved_at > 0
                                ? fmt::format("solved at step {}", thousands(trial.solved_at))
                            : trial.result.stopped ? "interrupted"
                                                   : "not solved";
    out.note(fmt::format("{}/{}  {}{}seed {}: {}, {:.1f} s\n", ++done, configs.size(), setting,
                         setting.empty() ? "" : " ", trial.config.fit.seed, end,
                         trial.result.seconds));
  };
  std::vector<Trial> trials;
  as_misuse([&] { trials = run_trials(configs, options); });

  std::size_t width = 8;
  for (const Setting& setting : settings) width = std::max(width, setting.text.size());
  out.say(fmt::format(
      "\n{}: {} of seeds {} to {}; solved: {:g}% of validation tokens\n", many.config.task,
      report::plural(std::ssize(configs), "run"), many.config.fit.seed,
      many.config.fit.seed + static_cast<std::uint64_t>(many.seeds) - 1, 100 * many.solved));
  detail::Json list = detail::Json::array();
  std::int64_t failed = 0;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const auto of = std::span(trials).subspan(i * static_cast<std::size_t>(many.seeds),
                                              static_cast<std::size_t>(many.seeds));
    const TrialSummary all = summary(of);
    failed += all.failed;
    const std::string medians = std::isfinite(all.loss)
                                    ? fmt::format("loss {:<10.4g}  {:7.3f}%  {}", all.loss,
                                                  100 * all.accuracy, blocks(all.curve, 24))
                                    : "nothing finished";
    out.say(fmt::format("{:<{}}  {:<44}  {}\n", settings[i].text.empty() ? "all" : settings[i].text,
                        width, to_string(all), medians));
    detail::Json item;
    item.set("setting", settings[i].text).set("trials", all.trials).set("solved", all.solved);
    item.set("failed", all.failed).set("unfinished", all.unfinished);
    const auto steps = [&](std::int64_t count) {
      return all.solved > 0 ? detail::Json(count) : detail::Json();
    };
    item.set("median_steps", steps(all.median)).set("fewest_steps", steps(all.fewest));
    item.set("most_steps", steps(all.most)).set("validation_loss", all.loss);
    item.set("validation_accuracy", all.accuracy);
    detail::Json runs = detail::Json::array();
    for (const Trial& trial : of) runs.push(json_of(trial));
    item.set("runs", std::move(runs));
    list.push(std::move(item));
  }
  out.say(
      "loss and accuracy: medians of the last evaluation; the curve: median accuracy over time\n");
  out.result().set("task", many.config.task).set("settings", std::move(list));
  if (Interrupts::flag().load() == 0) return failed == std::ssize(configs) ? kFailed : kDone;
  out.note("tapehead: interrupted; the runs so far are counted as they stand\n");
  return Interrupts::exit_status();
}

}  // namespace tapehead::cli

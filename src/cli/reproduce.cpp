// `tapehead reproduce NAME...`: trains what was published and says whether it came out again.
#include <algorithm>
#include <chrono>
#include <functional>

#include <fmt/format.h>

#include <tapehead/reproduce.hpp>
#include <tapehead/system.hpp>

#include "cli/cli.hpp"
#include "cli/interrupts.hpp"
#include "report/progress_line.hpp"

namespace tapehead::cli {
namespace {

struct Args {
  std::vector<std::string> names;
  std::string data;
  std::uint64_t seed = 0;
  std::optional<std::int64_t> seeds;
  int threads = 0;
  bool all = false;
  bool config = false;
  std::function<bool(const char*)> given;
};

int list(Output& out) {
  out.say(fmt::format("{:<18}{:<21}{:>10}  {}\n", "name", "data", "about", "what"));
  detail::Json items = detail::Json::array();
  for (const Reproduction& one : reproductions()) {
    out.say(fmt::format("{:<18}{:<21}{:>10}  {} ({})\n{:51}{}\n", one.name,
                        one.data.empty() ? "generated" : one.data,
                        report::duration(60 * one.minutes), one.what, one.source, "",
                        one.published));
    detail::Json item;
    item.set("name", one.name).set("what", one.what).set("source", one.source);
    item.set("published", one.published).set("minutes", one.minutes).set("data", one.data);
    item.set("seeds", one.seeds);
    items.push(std::move(item));
  }
  out.result().set("reproductions", std::move(items));
  return kDone;
}

// What is to be run, and the file of each.
struct Job {
  const Reproduction* entry;
  std::filesystem::path file;
};

std::vector<Job> jobs_of(const Args& args, Output& out) {
  std::vector<Job> jobs;
  if (args.all) {
    if (!args.names.empty()) throw Misuse("reproduce: name some, or say --all, not both");
    for (const Reproduction& one : reproductions()) {
      try {
        jobs.push_back({&one, data_file(one, args.data)});
      } catch (const ValueError& error) {
        out.note(fmt::format("tapehead: left out: {}\n", error.what()));
      }
    }
    return jobs;
  }
  as_misuse([&] {
    for (const std::string& name : args.names) {
      const Reproduction& one = find_reproduction(name);
      if (std::any_of(jobs.begin(), jobs.end(), [&](const Job& job) { return job.entry == &one; }))
        continue;
      jobs.push_back({&one, args.config ? "" : data_file(one, args.data)});
    }
  });
  return jobs;
}

detail::Json json_of(const std::vector<Finding>& findings) {
  detail::Json list = detail::Json::array();
  for (const Finding& finding : findings) {
    detail::Json item;
    item.set("what", finding.what).set("published", finding.published).set("ours", finding.ours);
    item.set("reached", finding.reached);
    list.push(std::move(item));
  }
  return list;
}

std::string table(const std::vector<Finding>& findings) {
  std::size_t what = 0, published = 9;
  for (const Finding& finding : findings) {
    what = std::max(what, finding.what.size());
    if (finding.published.size() < 40) published = std::max(published, finding.published.size());
  }
  std::string text = fmt::format("  {:<{}}  {:<{}}  ours\n", "", what, "published", published);
  for (const Finding& finding : findings) {
    const char* mark = finding.reached ? "✓" : "✗";
    if (finding.published.size() <= published) {
      text += fmt::format("{} {:<{}}  {:<{}}  {}\n", mark, finding.what, what, finding.published,
                          published, finding.ours);
    } else {
      text += fmt::format("{} {:<{}}  {}\n  {:<{}}  {}\n", mark, finding.what, what,
                          finding.published, "", what, finding.ours);
    }
  }
  return text;
}

int run(const Args& args, Output& out) {
  if (args.names.empty() && !args.all) {
    for (const char* option : {"--data", "--seed", "--seeds", "--threads", "--config"}) {
      if (args.given(option))
        throw Misuse(fmt::format("reproduce: {} needs a name, or --all", option));
    }
    return list(out);
  }
  if (args.seeds && *args.seeds < 1) throw Misuse("--seeds must be at least 1");
  const std::vector<Job> jobs = jobs_of(args, out);
  detail::Json items = detail::Json::array();
  if (args.config) {
    for (const Job& job : jobs) {
      out.say(to_json(job.entry->config, 2) + "\n");
      detail::Json item;
      item.set("name", job.entry->name)
          .set("config", detail::parse_json(to_json(job.entry->config)));
      items.push(std::move(item));
    }
    out.result().set("reproductions", std::move(items));
    return kDone;
  }
  std::optional<UseThreads> use;
  as_misuse([&] {
    if (args.threads != 0) use.emplace(args.threads);
  });

  const Interrupts interrupts;
  bool all_passed = true;
  std::string verdicts;
  for (const Job& job : jobs) {
    const Reproduction& one = *job.entry;
    out.say(fmt::format("{}: {} ({})\n", one.name, one.what, one.source));
    ReproduceOptions options{.data = job.file, .seed = args.seed, .seeds = args.seeds.value_or(0)};
    options.note = [&](const std::string& line) { out.note(line + "\n"); };
    options.stop = &Interrupts::flag();
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Finding> findings = one.run(one, options);
    if (Interrupts::flag().load() != 0) {
      out.note(fmt::format("tapehead: {} was interrupted\n", one.name));
      out.result().set("status", "interrupted").set("reproductions", std::move(items));
      return Interrupts::exit_status();
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const bool passed = std::all_of(findings.begin(), findings.end(),
                                    [](const Finding& finding) { return finding.reached; });
    all_passed = all_passed && passed;
    const std::string verdict =
        fmt::format("{} {}, {:.2f} s\n", passed ? "PASS" : "FAIL", one.name, seconds);
    out.say(fmt::format("{}{}\n", table(findings), verdict));
    verdicts += verdict;
    detail::Json item;
    item.set("name", one.name).set("passed", passed).set("seconds", seconds);
    item.set("findings", json_of(findings));
    items.push(std::move(item));
  }
  if (jobs.size() > 1) out.say(verdicts);
  out.result().set("status", all_passed ? "passed" : "failed");
  out.result().set("reproductions", std::move(items));
  return all_passed ? kDone : kFailed;
}

}  // namespace

void add_reproduce(Cli& cli) {
  const auto args = std::make_shared<Args>();
  Verb verb = cli.verb("reproduce", "List published results, or train them again and compare",
                       [args](Output& out) { return run(*args, out); });
  args->given = [verb](const char* name) { return verb.given(name); };
  verb.arguments("NAME", args->names, "Which; none: list them")
      .option("--data", args->data, "PATH", "The file that one needs, or a folder with such files")
      .option("--seed", args->seed, "N", "The first seed; microgpt has its own")
      .option("--seeds", args->seeds, "N", "How many seeds, in place of as many as published")
      .option("--threads", args->threads, "N", "Threads; the result is the same")
      .flag("--all", args->all, "All whose data are there")
      .flag("--config", args->config, "Print the settings, for train --config, and train nothing")
      .footer(
          "Status 0 when all is reached, 1 when something is not. data/README.md says where the\n"
          "files are from.\n"
          "\nExamples:\n"
          "  tapehead reproduce\n"
          "  tapehead reproduce reverse induction\n"
          "  tapehead reproduce microgpt --data names.txt\n"
          "  tapehead reproduce --all --data data\n");
}

}  // namespace tapehead::cli

#include "gradcheck/suite.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "core/jobs.hpp"

namespace tapehead::detail {

GradcheckStatus Suite::status() const {
  GradcheckStatus worst =
      ops.empty() && modules.empty() ? GradcheckStatus::nothing_checked : GradcheckStatus::pass;
  for (const OpCheck& op : ops) worst = graver(worst, op.status);
  for (const ModuleCheck& module : modules) worst = graver(worst, module.report.status);
  return worst;
}

std::int64_t Suite::compared() const {
  std::int64_t total = 0;
  for (const OpCheck& op : ops) total += op.compared;
  for (const ModuleCheck& module : modules) total += module.report.compared;
  return total;
}

Suite check_suite(const std::vector<OpEntry>& ops, const std::vector<ModuleEntry>& modules,
                  const SuiteOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  struct Case {
    const ModuleEntry* entry;
    const ModuleCase* module_case;
    std::vector<GradcheckReport> stripes;
  };
  std::vector<Case> cases;
  for (const ModuleEntry& entry : modules) {
    for (const ModuleCase& module_case : entry.cases) {
      const auto stripes =
          static_cast<std::size_t>(options.check.fast ? 1 : stripes_of(module_case));
      cases.push_back({&entry, &module_case, std::vector<GradcheckReport>(stripes)});
    }
  }
  Suite suite;
  suite.ops.resize(ops.size());
  // The models come first, as they take longest.
  std::vector<std::function<void()>> jobs;
  for (auto c = cases.rbegin(); c != cases.rend(); ++c) {
    for (std::size_t s = 0; s < c->stripes.size(); ++s) {
      jobs.emplace_back([&one = *c, s, &options] {
        one.stripes[s] = check_stripe(*one.entry, *one.module_case, static_cast<std::int64_t>(s),
                                      static_cast<std::int64_t>(one.stripes.size()), options);
        if (options.progress != nullptr) {
          const GradcheckStatus status = one.stripes[s].status;
          // A stripe alone may have nothing to compare.
          options.progress->add(
              one.stripes[s].compared,
              status != GradcheckStatus::pass && status != GradcheckStatus::nothing_checked);
        }
      });
    }
  }
  for (std::size_t i = 0; i < ops.size(); ++i)
    jobs.emplace_back([&, i] {
      suite.ops[i] = check_op(ops[i], options);
      if (options.progress != nullptr)
        options.progress->add(suite.ops[i].compared, suite.ops[i].status != GradcheckStatus::pass);
    });
  if (options.progress != nullptr) options.progress->parts = static_cast<std::int64_t>(jobs.size());
  run_jobs(jobs);
  // Second derivatives of a parameter that acts linearly are 0 for good reason.
  const Zeros zeros = options.order == Order::first ? options.zeros : Zeros::allowed;
  for (const Case& c : cases)
    suite.modules.push_back(joined(*c.entry, *c.module_case, c.stripes, zeros));
  suite.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return suite;
}

SelfTest self_test_suite(const std::vector<OpEntry>& ops, Progress* progress) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<SelfTest> parts(ops.size() + 1);
  std::vector<std::function<void()>> jobs;
  for (std::size_t i = 0; i < ops.size(); ++i)
    jobs.emplace_back([&, i] {
      parts[i] = self_test_op(ops[i]);
      if (progress != nullptr)
        progress->add(static_cast<std::int64_t>(parts[i].tallies.size()), !parts[i].passed());
    });
  if (progress != nullptr) progress->parts = static_cast<std::int64_t>(jobs.size());
  jobs.emplace_back([&] {
    std::vector<KnownFault> known;
    for (const auto& list :
         {attention_faults(), normalisation_faults(), loss_faults(), other_faults()}) {
      for (const KnownFault& fault : list) {
        // Named as recorded; cross_entropy and its sums share one kernel.
        const bool chosen = std::any_of(ops.begin(), ops.end(),
                                        [&](const OpEntry& op) { return op.name == fault.op; });
        if (chosen) known.push_back(fault);
      }
    }
    parts.back() = self_test_known(known);
  });
  run_jobs(jobs);
  SelfTest all;
  for (SelfTest& part : parts) merge(all, std::move(part));
  all.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return all;
}

}  // namespace tapehead::detail

#include "gradcheck/self_test.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "gradcheck/op_check.hpp"

namespace tapehead::detail {

namespace {

FaultTally& tally(SelfTest& test, const std::string& op, const std::string& edge,
                  const char* fault) {
  for (FaultTally& t : test.tallies) {
    if (t.op == op && t.edge == edge && t.fault == fault) return t;
  }
  test.tallies.push_back({op, edge, fault, 0, 0, 0, true, ""});
  return test.tallies.back();
}

// Missing a fault on a gradient that is not 0, or having no sample on which it shows.
bool weak(const FaultTally& t) { return t.missed > 0 || (t.caught == 0 && !t.zero); }

}  // namespace

bool SelfTest::passed() const {
  return broken.empty() && std::none_of(tallies.begin(), tallies.end(), weak);
}

SelfTest self_test_op(const OpEntry& entry) {
  const auto start = std::chrono::steady_clock::now();
  SelfTest test;
  if (!entry.differentiable) return test;
  for (const OpSample& sample : entry.samples(DType::f64)) {
    if (sample.kink) continue;
    Checker checker({sample.call}, sample.inputs, nullptr, options_for(entry, sample, {}));
    const GradcheckReport right = checker.run();
    if (right.status == GradcheckStatus::nothing_checked) continue;
    if (!right.passed()) {
      test.broken += fmt::format("{} {}: {}\n", entry.name, sample.name, right.message);
      continue;
    }
    for (const Edge& edge : edges_of(checker)) {
      const std::string label = fmt::format("{} input {}", edge.op, edge.input);
      for (const Fault fault : all_faults()) {
        std::vector<Tensor> gradients = faulty(fault, edge, checker);
        if (gradients.empty()) continue;
        const Planted planted = try_fault(checker, edge, std::move(gradients));
        FaultTally& t = tally(test, entry.name, label, name_of(fault));
        t.zero = t.zero && planted.zero;
        switch (planted.outcome) {
          case Outcome::equivalent: ++t.equivalent; break;
          case Outcome::caught: ++t.caught; break;
          case Outcome::missed:
            if (t.missed++ == 0)
              t.example = fmt::format("sample {}\n{}", sample.name, to_string(planted.report));
        }
      }
    }
  }
  test.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return test;
}

void merge(SelfTest& into, SelfTest part) {
  into.tallies.insert(into.tallies.end(), std::make_move_iterator(part.tallies.begin()),
                      std::make_move_iterator(part.tallies.end()));
  into.broken += part.broken;
  into.seconds += part.seconds;
}

namespace {

struct Counts {
  int planted = 0;
  int equivalent = 0;
  int caught = 0;
  int missed = 0;

  void add(const FaultTally& t) {
    ++planted;
    ++(t.missed > 0 ? missed : t.caught > 0 ? caught : equivalent);
  }
  [[nodiscard]] std::string line(const std::string& name) const {
    return fmt::format("  {:<22} {:>8} {:>11} {:>7} {:>7}\n", name, planted, equivalent, caught,
                       missed);
  }
};

}  // namespace

std::string to_string(const SelfTest& test) {
  std::string text = fmt::format("  {:<22} {:>8} {:>11} {:>7} {:>7}\n", "op", "planted",
                                 "equivalent", "caught", "missed");
  Counts all;
  for (std::size_t i = 0; i < test.tallies.size();) {
    Counts counts;
    const std::string& op = test.tallies[i].op;
    for (; i < test.tallies.size() && test.tallies[i].op == op; ++i) {
      counts.add(test.tallies[i]);
      all.add(test.tallies[i]);
    }
    text += counts.line(op);
  }
  text += all.line("all");
  for (const FaultTally& t : test.tallies) {
    if (!weak(t)) continue;
    if (t.missed > 0) {
      text += fmt::format("\nmissed: {}, {}, {} ({} samples); {}", t.op, t.edge, t.fault, t.missed,
                          t.example);
    } else {
      text += fmt::format(
          "\nno sample shows: {}, {}, {}: the catalog needs one on which it changes the gradient\n",
          t.op, t.edge, t.fault);
    }
  }
  if (!test.broken.empty()) text += "\nwrong without any fault:\n" + test.broken;
  return text;
}

}  // namespace tapehead::detail

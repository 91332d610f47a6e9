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

void count(FaultTally& t, const Planted& planted, const std::string& sample) {
  t.zero = t.zero && planted.zero;
  switch (planted.outcome) {
    case Outcome::equivalent: ++t.equivalent; break;
    case Outcome::caught: ++t.caught; break;
    case Outcome::missed:
      if (t.missed++ == 0)
        t.example = fmt::format("sample {}\n{}", sample, to_string(planted.report));
  }
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
        count(tally(test, entry.name, label, name_of(fault)), planted, sample.name);
      }
    }
  }
  test.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return test;
}

SelfTest self_test_known(const std::vector<KnownFault>& faults) {
  const auto start = std::chrono::steady_clock::now();
  SelfTest test;
  for (const KnownFault& fault : faults) {
    GradcheckOptions options;
    options.name = fmt::format("{}: {}", fault.op, fault.fault);
    Checker checker({fault.function}, fault.inputs, nullptr, options);
    const GradcheckReport right = checker.run();
    if (!right.passed()) {
      test.broken += fmt::format("{}: {}\n", options.name, right.message);
      continue;
    }
    bool found = false;
    for (const Edge& edge : edges_of(checker)) {
      if (edge.op != fault.op || edge.input != fault.input) continue;
      found = true;
      std::vector<Tensor> gradients;
      for (std::size_t k = 0; k < edge.gradients.size(); ++k)
        gradients.push_back(fault.wrong(edge.output_gradients[k], edge.gradients[k]));
      const Planted planted = try_fault(checker, edge, std::move(gradients));
      const std::string label = fmt::format("{} input {}", edge.op, edge.input);
      count(tally(test, fault.op, label, fault.fault.c_str()), planted, "of the fault");
    }
    if (!found) test.broken += fmt::format("{}: the op is not on the tape\n", options.name);
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

constexpr const char* kRow = "  {:<40} {:>8} {:>11} {:>7} {:>7}\n";

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
    return fmt::format(kRow, name, planted, equivalent, caught, missed);
  }
};

std::string header(const char* first) {
  return fmt::format(kRow, first, "planted", "equivalent", "caught", "missed");
}

}  // namespace

std::string to_string(const SelfTest& test) {
  std::string text = header("op");
  Counts all;
  std::vector<std::pair<std::string, Counts>> by_op;
  std::vector<std::pair<std::string, Counts>> by_fault;
  const auto add = [](auto& rows, const std::string& name, const FaultTally& t) {
    const auto same =
        std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first == name; });
    (same == rows.end() ? rows.emplace_back(name, Counts()) : *same).second.add(t);
  };
  for (const FaultTally& t : test.tallies) {
    add(by_op, t.op, t);
    add(by_fault, t.fault, t);
    all.add(t);
  }
  for (const auto& row : by_op) text += row.second.line(row.first);
  text += all.line("all");
  text += fmt::format("\n{}", header("fault"));
  for (const auto& row : by_fault) text += row.second.line(row.first);
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

// The self-test of the checker: every fault on every edge of every sample of an op, and the table.
#pragma once

#include <string>
#include <vector>

#include <tapehead/catalog.hpp>

#include "gradcheck/faults.hpp"
#include "gradcheck/known_faults.hpp"

namespace tapehead::detail {

// One planted fault: an op, an input of one of the nodes it records, and what was done to it. It is
// missed if any sample let it through, else caught if any sample caught it, else equivalent.
struct FaultTally {
  std::string op;
  std::string edge;  // "sum input 0"
  std::string fault;
  int caught = 0;  // samples
  int missed = 0;
  int equivalent = 0;
  bool zero = true;     // the true gradient was 0 on all samples
  std::string example;  // of a miss: sample and report
};

struct SelfTest {
  std::vector<FaultTally> tallies;
  std::string broken;  // ops whose right gradient does not pass: nothing can be planted there
  double seconds = 0;

  [[nodiscard]] bool passed()
      const;  // nothing missed, nothing equivalent with a gradient that is not 0
};

[[nodiscard]] SelfTest self_test_op(const OpEntry& entry);
// The classic mistakes, each on its own function.
[[nodiscard]] SelfTest self_test_known(const std::vector<KnownFault>& faults);
void merge(SelfTest& into, SelfTest part);

// Per op: planted, equivalent, caught, missed; then each miss in full.
[[nodiscard]] std::string to_string(const SelfTest& test);

}  // namespace tapehead::detail

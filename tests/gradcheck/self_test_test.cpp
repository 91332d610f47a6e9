// The checker catches what is planted.
#include "gradcheck/self_test.hpp"

#include <tapehead/ops.hpp>

#include "support/catch.hpp"

using namespace tapehead;
using namespace tapehead::detail;

TEST_CASE("every fault planted in the catalog is caught", "[gradcheck]") {
  SelfTest all;
  for (const OpEntry& entry : op_catalog()) merge(all, self_test_op(entry));
  INFO(to_string(all));
  CHECK(all.passed());
  CHECK(all.tallies.size() > 100);
}

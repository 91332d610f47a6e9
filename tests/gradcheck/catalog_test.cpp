// Every op of the catalog, every sample, every element, against central differences in f64.
#include <fmt/format.h>

#include "gradcheck/op_check.hpp"
#include "support/catch.hpp"

using namespace tapehead;

TEST_CASE("every op of the catalog has the gradient that differences show", "[gradcheck]") {
  std::int64_t compared = 0;
  std::int64_t within_three = 0;
  for (const OpEntry& entry : op_catalog()) {
    const detail::OpCheck op = detail::check_op(entry);
    std::string text = fmt::format("{}: {}", op.name, op.message);
    for (const GradcheckReport& report : op.failures)
      text += fmt::format("\n{}", to_string(report));
    INFO(text);
    CHECK(op.status == GradcheckStatus::pass);
    CHECK(op.worst_relative <= 1e-9);
    compared += op.compared;
    within_three += op.within_three_bars;
  }
  REQUIRE(compared > 1000);
  // The promise of the error bar: at least 99 of 100 elements of right functions within three bars.
  CHECK(static_cast<double>(within_three) >= 0.99 * static_cast<double>(compared));
}

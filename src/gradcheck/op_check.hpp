// Gradient checks of catalog entries: every sample of an op, and what they amount to.
#pragma once

#include <string>
#include <vector>

#include <tapehead/catalog.hpp>
#include <tapehead/gradcheck.hpp>

#include "gradcheck/progress.hpp"

namespace tapehead::detail {

// First derivatives, or second ones with the agreement of fused kernels and compositions; then ops
// with kinks are left out.
enum class Order { first, second };

// What a parameter of a module whose gradient is 0 throughout means. In the catalog each is
// declared, and an undeclared one fails: else a part of the model that nothing trains would pass.
// In sizes of the user's own there are good reasons for it, such as a single key.
enum class Zeros { declared, allowed };

struct SuiteOptions {
  GradcheckOptions check = {};
  Order order = Order::first;
  Zeros zeros = Zeros::declared;
  Progress* progress = nullptr;  // told of every part that is done
};

struct OpCheck {
  std::string name;
  std::string family;
  bool differentiable = true;
  bool smooth = true;
  GradcheckStatus status = GradcheckStatus::pass;
  std::string message;
  int samples = 0;
  std::int64_t compared = 0;
  std::int64_t kinks = 0;
  std::int64_t within_one_bar = 0;
  std::int64_t within_three_bars = 0;
  double worst_relative = 0;  // over the samples
  double widest_relative = 0;
  double from_composition = -1;  // largest difference of value or gradient; -1: it has none
  GradcheckReport worst;         // of the sample with the worst error
  std::int64_t evaluations = 0;
  double seconds = 0;
  std::vector<std::string> coverage;
  std::vector<GradcheckReport> failures;
};

[[nodiscard]] GradcheckOptions options_for(const OpEntry& entry, const OpSample& sample,
                                           GradcheckOptions options);

// Whether "nothing checked" is all that can be said of this sample: no elements in an input or an
// output, an op that is constant almost everywhere, or slopes that are all 0 (x to the power 0).
[[nodiscard]] bool excused(const OpEntry& entry, const OpSample& sample,
                           const GradcheckReport& report);

[[nodiscard]] OpCheck check_op(const OpEntry& entry, const SuiteOptions& options = {});

}  // namespace tapehead::detail

// Gradient checks of modules and small models, in stripes that can run side by side.
#pragma once

#include <string>
#include <vector>

#include <tapehead/catalog.hpp>
#include <tapehead/gradcheck.hpp>

#include "gradcheck/op_check.hpp"

namespace tapehead::detail {

struct ModuleCheck {
  std::string name;  // "EncoderLayer: post-norm, causal"
  GradcheckReport report;
  std::int64_t parameters = 0;  // scalars
};

// How many stripes the case is cut into: by its size alone.
[[nodiscard]] std::int64_t stripes_of(const ModuleCase& module_case);
// One stripe, on a model of its own.
[[nodiscard]] GradcheckReport check_stripe(const ModuleEntry& entry, const ModuleCase& module_case,
                                           std::int64_t stripe, std::int64_t stripes,
                                           const SuiteOptions& options);
// The stripes put together.
[[nodiscard]] ModuleCheck joined(const ModuleEntry& entry, const ModuleCase& module_case,
                                 const std::vector<GradcheckReport>& stripes, Zeros zeros);
}  // namespace tapehead::detail

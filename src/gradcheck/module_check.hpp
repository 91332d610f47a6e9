// Gradient checks of modules and small models, in stripes that can run side by side.
#pragma once

#include <string>
#include <vector>

#include <tapehead/catalog.hpp>
#include <tapehead/gradcheck.hpp>

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
                                           GradcheckOptions options);
// What a parameter whose gradient is 0 throughout means. In the catalog each is declared, and an
// undeclared one fails: else a part of the model that nothing trains would pass. In sizes of the
// user's own there are good reasons for it, such as a single key.
enum class Zeros { declared, allowed };

// The stripes put together.
[[nodiscard]] ModuleCheck joined(const ModuleEntry& entry, const ModuleCase& module_case,
                                 const std::vector<GradcheckReport>& stripes,
                                 Zeros zeros = Zeros::declared);
}  // namespace tapehead::detail

// Reports as JSON.
#pragma once

#include "gradcheck/self_test.hpp"
#include "gradcheck/suite.hpp"
#include "io/json.hpp"

namespace tapehead::detail {

[[nodiscard]] Json to_json(const GradcheckReport& report);
[[nodiscard]] Json to_json(const OpCheck& op);
[[nodiscard]] Json to_json(const Suite& suite);
[[nodiscard]] Json to_json(const SelfTest& test);

}  // namespace tapehead::detail

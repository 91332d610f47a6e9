// Reports as JSON.
#pragma once

#include "gradcheck/float32.hpp"
#include "gradcheck/self_test.hpp"
#include "gradcheck/suite.hpp"
#include "io/json.hpp"

namespace tapehead::detail {

[[nodiscard]] Json to_json(const GradcheckReport& report);
[[nodiscard]] Json to_json(const OpCheck& op);
[[nodiscard]] Json to_json(const Suite& suite);
[[nodiscard]] Json to_json(const SelfTest& test);
[[nodiscard]] Json to_json(const Float32Report& report);
[[nodiscard]] Json to_json(const Float32Suite& suite);

}  // namespace tapehead::detail

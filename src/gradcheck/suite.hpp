// Everything at once: all ops, all modules and models, shared out over threads.
#pragma once

#include <string>
#include <vector>

#include "gradcheck/module_check.hpp"
#include "gradcheck/op_check.hpp"
#include "gradcheck/self_test.hpp"
#include "gradcheck/verdict.hpp"

namespace tapehead::detail {

struct Suite {
  std::vector<OpCheck> ops;
  std::vector<ModuleCheck> modules;
  double seconds = 0;

  [[nodiscard]] GradcheckStatus status() const;  // the gravest of all
  [[nodiscard]] std::int64_t compared() const;
};

[[nodiscard]] Suite check_suite(const std::vector<OpEntry>& ops,
                                const std::vector<ModuleEntry>& modules,
                                const SuiteOptions& options = {});

// All faults on these ops.
[[nodiscard]] SelfTest self_test_suite(const std::vector<OpEntry>& ops,
                                       Progress* progress = nullptr);

// One line per op and module case with what was compared, the worst error and the widest bar; then
// the report of everything that did not pass.
[[nodiscard]] std::string to_string(const Suite& suite);
// Per op a row of a Markdown table: worst gradient error, error bar, elements compared.
[[nodiscard]] std::string to_markdown(const Suite& suite);

}  // namespace tapehead::detail

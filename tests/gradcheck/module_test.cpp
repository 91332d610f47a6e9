// Modules and whole models by name, in stripes; a parameter that nothing depends on is found.
#include <tapehead/ops.hpp>

#include "core/jobs.hpp"
#include "gradcheck/suite.hpp"
#include "support/catch.hpp"

using namespace tapehead;
using namespace tapehead::detail;

namespace {

using Tensors = std::vector<Tensor>;

// y = x * w, with a second parameter that is added with a factor.
ModuleEntry two_parameters(double factor, std::vector<std::string> declared, bool wrong = false) {
  ModuleEntry entry;
  entry.name = "Two";
  entry.cases.push_back(
      {"case", [=](Params& params) {
         const Param w = Scope(params).param("w", {30, 30}, init::normal(1));
         const Param idle = Scope(params).param("idle", {30, 30}, init::normal(1));
         ModuleSample sample;
         sample.inputs = {full({30, 30}, 0.5, params.dtype())};
         sample.call = [=, params_dtype = params.dtype()](const Tensors& x) {
           const Tensor value = w;
           Tensor y = x[0] * value + Tensor(idle) * factor;
           // Nothing that is there has a gradient all the same.
           if (wrong)
             y = y +
                 record("wrong", zeros({30, 30}, params_dtype)).input(value, [](const Tensor& dy) {
                   return dy * 1e-3;
                 });
           return Tensors{y};
         };
         sample.zero_gradient = declared;
         return sample;
       }});
  return entry;
}

GradcheckStatus status_of(const ModuleEntry& entry, Zeros zeros = Zeros::declared) {
  SuiteOptions options;
  options.zeros = zeros;
  return check_suite({}, {entry}, options).status();
}

}  // namespace

TEST_CASE("every module and model of the catalog has the right gradients", "[gradcheck]") {
  const Suite suite = check_suite({}, module_catalog());
  INFO(to_string(suite));
  CHECK(suite.status() == GradcheckStatus::pass);
  CHECK(suite.modules.size() > 20);
  std::int64_t compared = 0;
  std::int64_t within_three = 0;
  for (const ModuleCheck& module : suite.modules) {
    INFO(module.name);
    CHECK(module.report.worst_relative() <= 1e-9);
    compared += module.report.compared;
    within_three += module.report.within_three_bars;
  }
  // The promise of the error bar.
  CHECK(static_cast<double>(within_three) >= 0.99 * static_cast<double>(compared));
}

TEST_CASE("a model is checked whole, however many stripes it is cut into", "[gradcheck]") {
  const ModuleEntry entry = two_parameters(2, {});
  CHECK(stripes_of(entry.cases[0]) == 1 + 2700 / 500);
  const Suite suite = check_suite({}, {entry});
  REQUIRE(suite.modules.size() == 1);
  CHECK(suite.status() == GradcheckStatus::pass);
  CHECK(suite.modules[0].report.compared == 2 * 2700);
  CHECK(suite.modules[0].parameters == 1800);
}

TEST_CASE("a parameter without any influence must be declared, and the reverse", "[gradcheck]") {
  CHECK(status_of(two_parameters(0, {})) == GradcheckStatus::mismatch);
  CHECK(status_of(two_parameters(0, {}), Zeros::allowed) == GradcheckStatus::pass);
  CHECK(status_of(two_parameters(0, {"idle"})) == GradcheckStatus::pass);
  CHECK(status_of(two_parameters(2, {"idle"})) == GradcheckStatus::mismatch);
}

TEST_CASE("a wrong gradient in one module is a mismatch of the suite", "[gradcheck]") {
  const Suite suite = check_suite({}, {two_parameters(2, {}), two_parameters(2, {}, true)});
  CHECK(suite.status() == GradcheckStatus::mismatch);
  CHECK(suite.modules[0].report.passed());
  CHECK_THAT(to_string(suite), ContainsSubstring("w["));
}

TEST_CASE("jobs are all run, and an exception of one comes out at the end", "[gradcheck]") {
  std::vector<int> done(20, 0);
  std::vector<std::function<void()>> jobs;
  for (std::size_t i = 0; i < done.size(); ++i) {
    jobs.emplace_back([&, i] {
      done[i] = 1;
      if (i == 3) throw ValueError("job 3");
    });
  }
  CHECK_THROWS_WITH(run_jobs(jobs, 4), ContainsSubstring("job 3"));
  CHECK(done == std::vector<int>(20, 1));
}

TEST_CASE("an empty suite checks nothing", "[gradcheck]") {
  CHECK(check_suite({}, {}).status() == GradcheckStatus::nothing_checked);
}

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <tapehead/ops.hpp>

#include "gradcheck/float32.hpp"
#include "core/jobs.hpp"
#include "gradcheck/suite.hpp"

namespace tapehead::detail {

namespace {

using Thing = Float32Suite::Thing;

double most_used(const Float32Report& report) {
  double used = 0;
  for (const Float32Op& op : report.ops) used = std::max(used, op.used);
  return used;
}

// The rows of all reports of one thing, and the gravest report.
struct Part {
  Thing thing;
  std::vector<Float32Op> ops;

  void add(const Float32Report& report, const std::string& prefix) {
    for (Float32Op op : report.ops) {
      for (std::string* name : {&op.own_name, &op.leaving_name}) {
        if (!name->empty()) *name = prefix + *name;
      }
      add_to(ops, op);
    }
    const bool first = thing.samples++ == 0;
    const bool graver_one = graver(thing.report.status, report.status) != thing.report.status;
    const bool worse_one =
        report.status == thing.report.status && most_used(report) > most_used(thing.report);
    thing.compared += report.compared;
    if (first || graver_one || worse_one) thing.report = report;
  }
};

bool all_f32(const std::vector<Tensor>& outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const Tensor& y) {
    return y.dtype() == DType::f32 || !is_floating(y.dtype());
  });
}

Part op_part(const OpEntry& entry, Float32Options options) {
  Part part;
  part.thing.name = entry.name;
  if (!entry.differentiable) {
    part.thing.left_out = "no gradient: it records nothing";
    return part;
  }
  const std::vector<OpSample> single = entry.samples(DType::f32);
  const std::vector<OpSample> full = entry.samples(DType::f64);
  for (std::size_t i = 0; i < single.size(); ++i) {
    // At a kink the gradient jumps: rounding the place of the kink itself may take the other side.
    if (single[i].kink || !all_f32(single[i].call(single[i].inputs))) continue;
    options.name = fmt::format("{} {}", entry.name, single[i].name);
    const auto widened = [&] {
      std::vector<Tensor> inputs;
      for (const Tensor& x : single[i].inputs)
        inputs.push_back(is_floating(x.dtype()) ? cast(x, DType::f64) : x);
      return inputs;
    };
    const Float32Report report =
        compare_sides({single[i].call, single[i].inputs}, {full[i].call, widened()}, options);
    // An empty axis leaves nothing to compare.
    if (report.status == GradcheckStatus::nothing_checked) continue;
    part.add(report, fmt::format("{} {}: ", entry.name, single[i].name));
  }
  if (part.thing.samples == 0) part.thing.left_out = "its outputs are not f32";
  return part;
}

Part module_part(const ModuleEntry& entry, const ModuleCase& module_case, Float32Options options) {
  Part part;
  options.name = fmt::format("{}: {}", entry.name, module_case.name);
  part.thing.name = options.name;
  Params single(1, DType::f32);
  Params full(1, DType::f64);
  const ModuleSample in_single = module_case.build(single);
  const ModuleSample in_full = module_case.build(full);
  std::vector<Tensor> widened;
  for (const Tensor& x : in_single.inputs)
    widened.push_back(is_floating(x.dtype()) ? cast(x, DType::f64) : x);
  if (const std::string wrong = copy_values(single, full); !wrong.empty()) {
    part.thing.report.name = options.name;
    part.thing.report.status = GradcheckStatus::misused;
    part.thing.report.message = wrong;
    return part;
  }
  part.add(compare_sides({in_single.call, in_single.inputs, &single},
                         {in_full.call, widened, &full}, options),
           fmt::format("{}: ", entry.name));
  if (part.thing.report.status == GradcheckStatus::nothing_checked)
    part.thing.left_out = part.thing.report.message;
  return part;
}

}  // namespace

GradcheckStatus Float32Suite::status() const {
  GradcheckStatus worst =
      compared() == 0 ? GradcheckStatus::nothing_checked : GradcheckStatus::pass;
  for (const Thing& thing : things) {
    if (thing.left_out.empty()) worst = graver(worst, thing.report.status);
  }
  return worst;
}

std::int64_t Float32Suite::compared() const {
  std::int64_t total = 0;
  for (const Thing& thing : things) total += thing.compared;
  return total;
}

Float32Suite float32_suite(const std::vector<OpEntry>& ops, const std::vector<ModuleEntry>& modules,
                           const Float32Options& options, Progress* progress) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::function<Part()>> makers;
  for (const OpEntry& op : ops)
    makers.emplace_back([&op, &options] { return op_part(op, options); });
  for (const ModuleEntry& entry : modules) {
    for (const ModuleCase& module_case : entry.cases) {
      makers.emplace_back(
          [&entry, &module_case, &options] { return module_part(entry, module_case, options); });
    }
  }
  std::vector<Part> parts(makers.size());
  std::vector<std::function<void()>> jobs;
  for (std::size_t i = 0; i < makers.size(); ++i)
    jobs.emplace_back([&parts, &makers, progress, i] {
      parts[i] = makers[i]();
      const Thing& thing = parts[i].thing;
      if (progress != nullptr)
        progress->add(thing.compared, thing.left_out.empty() && !thing.report.passed());
    });
  if (progress != nullptr) progress->parts = static_cast<std::int64_t>(jobs.size());
  run_jobs(jobs);
  Float32Suite suite;
  suite.bound = options.bound;
  for (Part& part : parts) {
    for (const Float32Op& op : part.ops) add_to(suite.ops, op);
    suite.things.push_back(std::move(part.thing));
  }
  std::stable_sort(suite.ops.begin(), suite.ops.end(), loses_more);
  suite.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return suite;
}

}  // namespace tapehead::detail

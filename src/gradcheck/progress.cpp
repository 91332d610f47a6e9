#include "gradcheck/progress.hpp"

#include <utility>

#include <tapehead/gradcheck.hpp>

namespace tapehead::detail {

namespace {

TensorFunction stoppable(TensorFunction function, const std::atomic<int>& stop,
                         Progress& progress) {
  if (!function) return function;
  return [function = std::move(function), &stop, &progress](const std::vector<Tensor>& x) {
    if (stop.load() != 0) throw Stopped();
    ++progress.evaluations;
    return function(x);
  };
}

}  // namespace

std::vector<OpEntry> stoppable(std::vector<OpEntry> ops, const std::atomic<int>& stop,
                               Progress& progress) {
  for (OpEntry& op : ops) {
    op.samples = [make = std::move(op.samples), &stop, &progress](DType dtype) {
      std::vector<OpSample> samples = make(dtype);
      for (OpSample& sample : samples) {
        sample.call = stoppable(std::move(sample.call), stop, progress);
        sample.composition = stoppable(std::move(sample.composition), stop, progress);
      }
      return samples;
    };
  }
  return ops;
}

std::vector<ModuleEntry> stoppable(std::vector<ModuleEntry> modules, const std::atomic<int>& stop,
                                   Progress& progress) {
  for (ModuleEntry& entry : modules) {
    for (ModuleCase& one : entry.cases) {
      one.build = [make = std::move(one.build), &stop, &progress](Params& params) {
        ModuleSample sample = make(params);
        sample.call = stoppable(std::move(sample.call), stop, progress);
        return sample;
      };
    }
  }
  return modules;
}

}  // namespace tapehead::detail

// Every op of the catalog at its largest sample, forward alone and forward with backward.
//   bench_ops --benchmark_filter=softmax
#include <algorithm>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <tapehead/catalog.hpp>
#include <tapehead/tape.hpp>

namespace th = tapehead;
using th::Tensor;

namespace {

std::int64_t elements(const th::OpSample& sample) {
  std::int64_t total = 0;
  for (const Tensor& x : sample.inputs) total += x.size();
  return total;
}

th::OpSample largest_sample(const th::OpEntry& entry, th::DType dtype) {
  std::vector<th::OpSample> samples = entry.samples(dtype);
  return *std::max_element(
      samples.begin(), samples.end(),
      [](const th::OpSample& a, const th::OpSample& b) { return elements(a) < elements(b); });
}

void forward(benchmark::State& state, const th::OpSample& sample) {
  for (auto _ : state) benchmark::DoNotOptimize(sample.call(sample.inputs));
  state.SetItemsProcessed(state.iterations() * elements(sample));
}

void forward_backward(benchmark::State& state, const th::OpSample& sample) {
  for (auto _ : state) {
    th::Tape tape;
    std::vector<Tensor> inputs;
    for (const Tensor& x : sample.inputs)
      inputs.push_back(is_floating(x.dtype()) ? tape.watch(x) : x);
    const std::vector<Tensor> outputs = sample.call(inputs);
    std::vector<Tensor> cotangents;
    for (const Tensor& y : outputs) cotangents.push_back(th::ones(y.shape(), y.dtype()));
    benchmark::DoNotOptimize(tape.backward(outputs, cotangents));
  }
  state.SetItemsProcessed(state.iterations() * elements(sample));
}

}  // namespace

int main(int argc, char** argv) {
  for (const th::OpEntry& entry : th::op_catalog()) {
    for (th::DType dtype : {th::DType::f32, th::DType::f64}) {
      const th::OpSample sample = largest_sample(entry, dtype);
      const std::string name = entry.name + "/" + std::string(name_of(dtype)) + "/";
      benchmark::RegisterBenchmark((name + "forward").c_str(), forward, sample);
      if (entry.differentiable && elements(sample) > 0) {
        benchmark::RegisterBenchmark((name + "backward").c_str(), forward_backward, sample);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}

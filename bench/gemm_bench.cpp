// Square products through our wrapper, by size and thread count.
#include <benchmark/benchmark.h>

#include <tapehead/system.hpp>
#include <tapehead/tensor.hpp>

#include "core/access.hpp"
#include "core/gemm.hpp"

namespace tapehead {
namespace {

void square_product(benchmark::State& state) {
  const std::int64_t size = state.range(0);
  const UseThreads use(static_cast<int>(state.range(1)));
  const Tensor a = full({size, size}, 0.5);
  const Tensor b = full({size, size}, 0.25);
  Tensor c = detail::empty({size, size}, DType::f32);
  for (auto _ : state) {
    detail::gemm(detail::GemmArgs<float>{false, false, size, size, size, detail::in<float>(a),
                                         detail::in<float>(b), detail::out<float>(c)});
    benchmark::DoNotOptimize(detail::out<float>(c));
  }
  const auto flops = 2.0 * static_cast<double>(size * size * size);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(square_product)
    ->ArgNames({"size", "threads"})
    ->ArgsProduct({{64, 256, 1024}, {1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace tapehead

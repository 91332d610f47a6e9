// Forward and backward of causal attention by both kernels: milliseconds (the best of several runs)
// and peak memory of tensors. The threshold between them in src/ops/attention_call.cpp comes from
// here.
//
//   bench_attention [queries=keys lengths..]        default 128 256 512 768 1024 1536 2048 4096
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <tapehead/ops.hpp>
#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>

#include "ops/attention_call.hpp"

namespace {

using namespace tapehead;
using Force = detail::ForceAttentionKernel;

constexpr std::int64_t kWidth = 64;

struct Measured {
  double milliseconds = 0;
  double megabytes = 0;
};

double one_run(const Tensor& x, const Tensor& dy, const Mask& mask) {
  const auto start = std::chrono::steady_clock::now();
  Tape tape;
  const Tensor q = tape.watch(x), k = tape.watch(x), v = tape.watch(x);
  const std::vector<Tensor> ys{attention(q, k, v, mask)};
  const std::vector<Tensor> cotangents{dy};
  const Gradients g = tape.backward(ys, cotangents);
  const auto end = std::chrono::steady_clock::now();
  if (g[q].size() == 0) std::abort();
  return std::chrono::duration<double, std::milli>(end - start).count();
}

// In a thread of its own, which has a memory pool of its own.
Measured measure(std::int64_t heads, std::int64_t length, Force::Kernel kernel) {
  Measured best{1e30, 0};
  std::thread([&] {
    const Force force(kernel);
    Rng rng(1, Stream::check);
    const Tensor x = randn({1, heads, length, kWidth}, rng);
    const Tensor dy = randn({1, heads, length, kWidth}, rng);
    const auto start = std::chrono::steady_clock::now();
    for (int run = 0; run < 200; ++run) {
      best.milliseconds = std::min(best.milliseconds, one_run(x, dy, Mask::causal(length)));
      if (run > 2 && std::chrono::steady_clock::now() - start > std::chrono::seconds(1)) break;
    }
    best.megabytes = static_cast<double>(memory_info().peak_bytes) / 1e6;
  }).join();
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> lengths;
  for (int i = 1; i < argc; ++i) lengths.push_back(std::atoll(argv[i]));
  if (lengths.empty()) lengths = {128, 256, 512, 768, 1024, 1536, 2048, 4096};
  std::printf("causal, width %lld, f32, %d threads\n", static_cast<long long>(kWidth), threads());
  std::printf("%6s %7s  %18s  %18s\n", "heads", "length", "direct ms / MB", "streaming ms / MB");
  for (const std::int64_t heads : {1, 4}) {
    for (const std::int64_t length : lengths) {
      Measured direct;
      if (length <= 8192) direct = measure(heads, length, Force::direct);
      const Measured streaming = measure(heads, length, Force::streaming);
      std::printf("%6lld %7lld  %9.2f %8.1f  %9.2f %8.1f\n", static_cast<long long>(heads),
                  static_cast<long long>(length), direct.milliseconds, direct.megabytes,
                  streaming.milliseconds, streaming.megabytes);
      std::fflush(stdout);
    }
  }
  return 0;
}

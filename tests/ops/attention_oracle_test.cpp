// Attention against the textbook over many shapes and masks, forward and backward.
#include "ops/attention_support.hpp"

#include <tapehead/system.hpp>

using namespace attention_test;

namespace {

struct Case {
  oracle::AttentionSizes sizes;
  Mask mask;
};

Tensor random_booleans(const Shape& shape, double p) {
  Rng rng = Rng(5, Stream::check).fork(to_string(shape));
  std::vector<bool> bits(static_cast<std::size_t>(shape.size()));
  for (auto&& bit : bits) bit = rng.bernoulli(p);
  return tensor(bits, shape);
}

// Whole stretches of keys: head 0 sees 0..15 and 32..47, head 1 the last 40 of 96.
Tensor stretches() {
  std::vector<bool> bits(2 * 96);
  for (std::size_t k = 0; k < 96; ++k) {
    bits[k] = k < 16 || (k >= 32 && k < 48);
    bits[96 + k] = k >= 56;
  }
  return tensor(bits, {2, 96});
}

std::vector<Case> cases() {
  const auto far = Mask::window(0, 0) | Mask::keep(random_booleans({1, 150}, 0.05), "query key");
  return {
      {{1, 1, 1, 1, 1, 1}, Mask()},
      {{1, 2, 3, 5, 7, 7}, Mask()},
      {{1, 2, 3, 5, 7, 4}, Mask::causal(3, 5, Align::last)},
      {{2, 3, 16, 16, 32, 32}, Mask::causal(16)},
      {{3, 2, 17, 31, 8, 8}, Mask::lengths({31, 0, 13}, 31)},
      {{2, 2, 67, 67, 5, 3}, Mask::causal(67) & Mask::lengths({67, 20}, 67)},
      {{1, 1, 130, 71, 4, 9}, Mask::causal(130, 71, Align::last)},
      {{1, 2, 150, 150, 6, 6}, Mask::window(10, 3)},
      {{1, 1, 150, 150, 6, 6}, far},
      {{2, 1, 70, 70, 3, 3}, Mask::prefix({40, 5}, 70)},
      {{2, 2, 7, 11, 13, 2},
       Mask::keep(random_booleans({2, 2, 7, 11}, 0.4), "batch head query key")},
      {{2, 2, 7, 11, 13, 2}, Mask::block(random_booleans({2, 11}, 0.7), "head key")},
      {{2, 3, 9, 9, 4, 4},
       Mask::rule([](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
         return (q + k * h + b) % 3 == 0;
       })},
      {{1, 1, 5, 5, 4, 4}, Mask::none()},
      {{2, 2, 5, 96, 4, 4}, Mask::keep(stretches(), "head key")},
  };
}

}  // namespace

TEST_CASE("Attention equals the textbook, forward and backward") {
  const BothKernels kernel;
  std::uint64_t salt = 0;
  for (const Case& c : cases()) {
    for (const bool use_weights : {false, true}) {
      const double scale = 1 / std::sqrt(static_cast<double>(c.sizes.width));
      INFO(c.mask.name() << ", case " << salt << ", weights used: " << use_weights);
      ++salt;
      const Inputs wide = random_inputs(c.sizes, DType::f64, salt, use_weights);
      check_close(run(wide, c.mask), oracle_of(wide, c.mask, scale), 1e-12);
      const Inputs narrow = random_inputs(c.sizes, DType::f32, salt, use_weights);
      check_close(run(narrow, c.mask), oracle_of(narrow, c.mask, scale), 5e-6);
    }
  }
}

TEST_CASE("Attention with a scale of one's own") {
  const BothKernels kernel;
  const Inputs in = random_inputs({1, 2, 4, 6, 3, 3}, DType::f64, 1, true);
  for (const double scale : {0.0, -0.7, 2.0}) {
    AttentionOptions options;
    options.scale = scale;
    check_close(run(in, Mask(), options), oracle_of(in, Mask(), scale), 1e-12);
  }
}

TEST_CASE("Attention with dropout uses one set of draws, forward and backward") {
  const BothKernels kernel;
  const double p = 0.3;
  const oracle::AttentionSizes sizes{2, 2, 70, 70, 5, 4};
  const Mask mask = Mask::causal(70);
  const Rng start(3, Stream::dropout);
  std::vector<double> factors(2 * 2 * 70 * 70);
  for (std::size_t i = 0; i < factors.size(); ++i)
    factors[i] = start.uniform_at(i) >= p ? 1 / (1 - p) : 0;
  for (const bool use_weights : {false, true}) {
    const Inputs in = random_inputs(sizes, DType::f64, 4, use_weights);
    Rng rng = start;
    AttentionOptions options;
    options.dropout = p;
    options.rng = &rng;
    check_close(run(in, mask, options), oracle_of(in, mask, 1 / std::sqrt(5.0), factors), 1e-12);
    CHECK(rng.counter() == factors.size());
  }
}

TEST_CASE("Attention gives the same bits on any number of threads") {
  const BothKernels kernel;
  const Inputs in = random_inputs({3, 4, 130, 130, 16, 16}, DType::f32, 8, true);
  for (const double p : {0.0, 0.2}) {
    std::vector<Outputs> results;
    for (const int count : {1, 2, 3}) {
      const UseThreads guard(count);
      Rng rng(1, Stream::dropout);
      AttentionOptions options;
      options.dropout = p;
      options.rng = &rng;
      results.push_back(run(in, Mask::causal(130), options));
    }
    check_same_bits(results[0], results[1]);
    check_same_bits(results[0], results[2]);
  }
}

// Attention with everything that can be done to its scores, against the textbook; and what only the
// streaming kernel promises.
#include "ops/attention_problem.hpp"

#include <thread>

#include <tapehead/system.hpp>

using namespace attention_test;

namespace {

struct Terms {
  bool shared = false;  // two heads share keys
  double cap = 0;
  bool bias = false, relative = false, sinks = false;
  double dropout = 0;
};

struct Case {
  oracle::AttentionSizes sizes;
  Mask mask;
  Terms terms;
};

std::vector<Case> cases() {
  const Mask sparse = Mask::rule([](auto b, auto h, auto q, auto k) {
    return (q * 7 + k * k + h + b) % 5 < 2 && q % 11 != 3;
  });
  return {
      {{2, 4, 5, 7, 3, 2}, Mask(), {.shared = true}},
      {{1, 2, 70, 70, 4, 5}, Mask::causal(70), {.cap = 0.7}},
      {{2, 2, 70, 131, 4, 5}, Mask::causal(70, 131, Align::last), {.bias = true}},
      {{2, 2, 131, 131, 3, 3}, Mask::window(9, 2), {.relative = true}},
      {{2, 2, 9, 5, 3, 3}, Mask::causal(9, 5, Align::last), {.sinks = true}},
      {{1, 4, 100, 140, 17, 33}, sparse, {.shared = true, .cap = 2, .sinks = true}},
      {{2, 4, 100, 140, 6, 5},
       sparse,
       {.shared = true, .cap = 2, .bias = true, .relative = true, .sinks = true, .dropout = 0.3}},
  };
}

void check_case(const Case& c, DType dtype, bool use_weights, double tolerance) {
  const oracle::AttentionSizes& n = c.sizes;
  Problem p{random_inputs(n, dtype, 3, use_weights), c.mask};
  if (c.terms.shared) {
    p.group = 2;
    p.in.k = slice(p.in.k, 1, 0, p.in.k.dim(1) / 2);
    p.in.v = slice(p.in.v, 1, 0, p.in.v.dim(1) / 2);
  }
  p.cap = c.terms.cap;
  Rng rng(4, Stream::check);
  const auto size = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  if (c.terms.bias) p.bias = randn({1, size(n.heads), size(n.queries), size(n.keys)}, rng, dtype);
  if (c.terms.relative) p.relative = randn({1, size(n.queries + n.keys) - 1}, rng, dtype);
  if (c.terms.sinks) p.sinks = randn({size(n.heads)}, rng, dtype);
  p.dropout = c.terms.dropout;
  check_close(solve(p), truth_of(p), tolerance);
}

}  // namespace

TEST_CASE("Shared keys, soft cap, biases and sinks equal the textbook") {
  const BothKernels kernel;
  int number = 0;
  for (const Case& c : cases()) {
    INFO("case " << number++ << ", " << c.mask.name());
    for (const bool use_weights : {false, true}) {
      check_case(c, DType::f64, use_weights, 1e-12);
      check_case(c, DType::f32, use_weights, 5e-6);
    }
  }
}

TEST_CASE("A sink of 0 is softmax plus one, and a blind query gives 0 beside it") {
  const BothKernels kernel;
  // Scores 0 and 0 of two keys: weights 1/3 each, y = (6 + 9) / 3. Query 1 sees nothing.
  const Tensor none = zeros({1, 1, 2, 1}, DType::f64);
  const Tensor v = reshape(tensor({6.0, 9.0}, DType::f64), {1, 1, 2, 1});
  AttentionOptions options;
  options.sinks = zeros({1}, DType::f64);
  const Tensor sees = tensor(std::vector<bool>{true, false}, {2, 1});
  const Attention a = attention_with_weights(none, none, v, Mask::keep(sees, "query key"), options);
  CHECK(a.output.at({0, 0, 0, 0}) == Approx(5).epsilon(1e-15));
  CHECK(a.weights.at({0, 0, 0, 1}) == Approx(1.0 / 3).epsilon(1e-15));
  CHECK(a.output.at({0, 0, 1, 0}) == 0);
}

TEST_CASE("Terms that do not fit are refused, naming them") {
  const Tensor q = zeros({2, 4, 3, 2}), k = zeros({2, 2, 5, 2});
  AttentionOptions options;
  CHECK_THROWS_WITH(attention(q, k, k, {}, options), ContainsSubstring("grouped"));
  options.grouped = true;
  CHECK_THROWS_WITH(attention(zeros({2, 3, 3, 2}), k, k, {}, options),
                    ContainsSubstring("3 heads of queries cannot share 2 heads of keys"));
  options.bias = zeros({1, 2, 3, 5});
  CHECK_THROWS_WITH(attention(q, k, k, {}, options),
                    ContainsSubstring("bias is [1, 2, 3, 5], but must be [1 or 2, 1 or 4, 3, 5]"));
  options.bias = {};
  options.relative_bias = zeros({4, 8});
  CHECK_THROWS_WITH(attention(q, k, k, {}, options), ContainsSubstring("[1 or 4, 7]"));
  options.relative_bias = {};
  options.sinks = zeros({2});
  CHECK_THROWS_WITH(attention(q, k, k, {}, options), ContainsSubstring("a score for each head"));
  options.sinks = {};
  options.soft_cap = -1;
  CHECK_THROWS_WITH(attention(q, k, k, {}, options), ContainsSubstring("soft_cap"));
  options.soft_cap = 0;
  options.modifier = [](const Tensor& x, const ScorePositions&) { return sum(x, -1); };
  CHECK_THROWS_WITH(attention(q, k, k, {}, options), ContainsSubstring("modifier"));
}

TEST_CASE("A score modifier sees scores and positions, and what it uses is trained") {
  const BothKernels kernel;
  // Each head's slope is a weight: x - slope_h (t - s), as ALiBi with trained slopes.
  Rng rng(1, Stream::check);
  const Tensor q = randn({2, 2, 4, 3}, rng, DType::f64);
  const Tensor k = randn({2, 2, 4, 3}, rng, DType::f64);
  const Tensor v = randn({2, 2, 4, 3}, rng, DType::f64);
  const Tensor slopes = tensor({0.5, -0.25}, DType::f64);
  const Mask mask = Mask::causal(4);

  Tape tape;
  const Tensor watched = tape.watch(slopes);
  AttentionOptions options;
  options.first_query = 10;
  options.modifier = [&](const Tensor& x, const ScorePositions& at) {
    return x - reshape(watched, {1, 2, 1, 1}) * (at.query - at.key - 10.0);
  };
  const Tensor y = attention(q, k, v, mask, options);
  const Gradients g = tape.backward(sum(y * y));

  // The same as a bias.
  std::vector<double> distances;
  for (int t = 0; t < 4; ++t) {
    for (int s = 0; s < 4; ++s) distances.push_back(t - s);
  }
  Tape other;
  const Tensor slope = other.watch(slopes);
  AttentionOptions biased;
  biased.bias =
      -reshape(slope, {1, 2, 1, 1}) * tensor(std::span<const double>(distances), {1, 1, 4, 4});
  const Tensor wanted = attention(q, k, v, mask, biased);
  const Gradients h = other.backward(sum(wanted * wanted));
  check_close("y", y, numbers(wanted), 1e-13);
  check_close("dslopes", g[watched], numbers(h[slope]), 1e-12);
}

TEST_CASE("Each step of attention can be asked for its gradient") {
  Rng rng(1, Stream::check);
  const Tensor q = randn({1, 2, 3, 2}, rng, DType::f64);
  const Tensor k = randn({1, 2, 3, 2}, rng, DType::f64);
  const Tensor v = randn({1, 2, 3, 2}, rng, DType::f64);
  Tape tape;
  const AttentionSteps s = attention_steps(tape.watch(q), k, v, Mask::causal(3));
  const Tensor scores = tape.watch(s.scores), weights = tape.watch(s.weights);
  const Gradients g = tape.backward(sum(s.output * s.output));
  // dP = dy v^T with dy = 2 y, and dx = P (dP - rowsum(P dP)).
  const Tensor dp = matmul(2.0 * detach(s.output), v, {.transpose_b = true});
  const Tensor p = detach(s.weights);
  check_close("dP", g[weights], numbers(dp), 1e-14);
  check_close("dx", g[scores], numbers(p * (dp - sum(p * dp, -1, keep))), 1e-14);
}

TEST_CASE("Attention over a long sequence trains in memory that grows with its length") {
#if defined(__SANITIZE_ADDRESS__)
  const std::int64_t length = 2048;  // the sanitizer takes its time
#else
  const std::int64_t length = 16384;
#endif
  std::int64_t peak = 0;
  // A thread of its own has a pool of its own.
  std::thread([&] {
    Rng rng(1, Stream::check);
    const Tensor q = randn({1, 1, length, 64}, rng);
    const Tensor dy = randn({1, 1, length, 64}, rng);
    Tape tape;
    const Tensor watched = tape.watch(q);
    const Tensor y = attention(watched, watched, watched, Mask::causal(length));
    const std::vector<Tensor> ys{y};
    const std::vector<Tensor> cotangents{dy};
    const Gradients g = tape.backward(ys, cotangents);
    CHECK(all_finite(slice(g[watched], 2, 0, 5)));
    peak = memory_info().peak_bytes;
  }).join();
  // q, y, dy, dq, dk, dv and k transposed, 8 parts of dq, and tiles: about 30 numbers a position
  // and channel. All scores at once would take length / 64 of them.
  const std::int64_t operand = length * 64 * 4;
  INFO(peak);
  CHECK(peak < 32 * operand + (std::int64_t{1} << 24));
  CHECK(peak > 0);
}

TEST_CASE("Weights of a long sequence belong to the same output") {
  const oracle::AttentionSizes sizes{1, 2, 130, 150, 5, 4};
  const BothKernels::Force force(BothKernels::Force::streaming);
  const Inputs in = random_inputs(sizes, DType::f32, 3, false);
  check_same_bits(run(in, Mask::causal(130, 150, Align::last), {}, true),
                  run(in, Mask::causal(130, 150, Align::last), {}, false));
}

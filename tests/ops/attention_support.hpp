// What the attention tests share: one call with its gradients, and the oracle's on the same
// numbers.
#pragma once

#include "support/attention_oracle.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "ops/attention_call.hpp"

namespace attention_test {

using namespace tapehead;

// A test case that begins with one runs once with each kernel.
struct BothKernels {
  using Force = detail::ForceAttentionKernel;
  Force force{GENERATE(Force::direct, Force::streaming)};
};

struct Inputs {
  Tensor q, k, v, dy, dp;  // dp undefined: the weights are not used
};

struct Outputs {
  Tensor output, weights, dq, dk, dv;
};

inline std::vector<double> numbers(const Tensor& x) {
  std::vector<double> values;
  if (!x.defined()) return values;
  for (std::int64_t i = 0; i < x.size(); ++i) values.push_back(x.at_flat(i));
  return values;
}

inline Inputs random_inputs(const oracle::AttentionSizes& n, DType dtype, std::uint64_t salt,
                            bool use_weights) {
  const auto shape = [&](std::size_t rows, std::size_t width) {
    return Shape{static_cast<std::int64_t>(n.batch), static_cast<std::int64_t>(n.heads),
                 static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width)};
  };
  Rng rng = Rng(11, Stream::check).fork(salt);
  Inputs in;
  in.q = randn(shape(n.queries, n.width), rng, dtype);
  in.k = randn(shape(n.keys, n.width), rng, dtype);
  in.v = randn(shape(n.keys, n.value_width), rng, dtype);
  in.dy = randn(shape(n.queries, n.value_width), rng, dtype);
  if (use_weights) in.dp = randn(shape(n.queries, n.keys), rng, dtype);
  return in;
}

inline Outputs run(const Inputs& in, const Mask& mask, const AttentionOptions& options = {},
                   bool want_weights = true) {
  Tape tape;
  const Tensor q = tape.watch(in.q);
  const Tensor k = tape.watch(in.k);
  const Tensor v = tape.watch(in.v);
  Attention a;
  if (want_weights) {
    a = attention_with_weights(q, k, v, mask, options);
  } else {
    a.output = attention(q, k, v, mask, options);
  }
  std::vector<Tensor> ys{a.output};
  std::vector<Tensor> cotangents{in.dy};
  if (in.dp.defined()) {
    ys.push_back(a.weights);
    cotangents.push_back(in.dp);
  }
  const Gradients g = tape.backward(ys, cotangents);
  return {a.output, a.weights, g[q], g[k], g[v]};
}

inline oracle::AttentionResults oracle_of(const Inputs& in, const Mask& mask, double scale,
                                          const std::vector<double>& factors = {}) {
  const auto size = [](const Tensor& x, int axis) { return static_cast<std::size_t>(x.dim(axis)); };
  const Tensor table = mask.dense(in.q.dim(0), in.q.dim(1), in.q.dim(2), in.k.dim(2));
  oracle::AttentionInputs o;
  o.sizes = {size(in.q, 0), size(in.q, 1), size(in.q, 2),
             size(in.k, 2), size(in.q, 3), size(in.v, 3)};
  o.q = numbers(in.q);
  o.k = numbers(in.k);
  o.v = numbers(in.v);
  o.scale = scale;
  o.visible = [table](std::size_t b, std::size_t h, std::size_t t, std::size_t s) {
    return table.at({static_cast<std::int64_t>(b), static_cast<std::int64_t>(h),
                     static_cast<std::int64_t>(t), static_cast<std::int64_t>(s)}) != 0;
  };
  o.factors = factors;
  o.d_output = numbers(in.dy);
  o.d_weights = numbers(in.dp);
  return oracle::attention(o);
}

// Every element within `tolerance` of the largest element of the true result, or of `floor`: where
// terms of that size cancel, their rounding remains.
inline void check_close(const char* what, const Tensor& found, const std::vector<double>& truth,
                        double tolerance, double floor = 0) {
  INFO(what);
  REQUIRE(found.size() == static_cast<std::int64_t>(truth.size()));
  double scale = floor;
  for (double t : truth) scale = std::max(scale, std::abs(t));
  double worst = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double difference = std::abs(found.at_flat(static_cast<std::int64_t>(i)) - truth[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  CHECK(worst <= tolerance * scale);
}

inline void check_close(const Outputs& found, const oracle::AttentionResults& truth,
                        double tolerance, double floor = 0) {
  check_close("output", found.output, truth.output, tolerance, floor);
  if (found.weights.defined())
    check_close("weights", found.weights, truth.weights, tolerance, floor);
  check_close("dq", found.dq, truth.dq, tolerance, floor);
  check_close("dk", found.dk, truth.dk, tolerance, floor);
  check_close("dv", found.dv, truth.dv, tolerance, floor);
}

inline void check_same_bits(const Outputs& a, const Outputs& b) {
  CHECK(same_bits(a.output, b.output));
  if (a.weights.defined() && b.weights.defined()) CHECK(same_bits(a.weights, b.weights));
  CHECK(same_bits(a.dq, b.dq));
  CHECK(same_bits(a.dk, b.dk));
  CHECK(same_bits(a.dv, b.dv));
}

inline bool all_zero(const Tensor& x) {
  const std::vector<double> values = numbers(x);
  return std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
}

inline bool all_finite(const Tensor& x) {
  const std::vector<double> values = numbers(x);
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

inline bool all_finite(const Outputs& o) {
  return all_finite(o.output) && all_finite(o.dq) && all_finite(o.dk) && all_finite(o.dv);
}

}  // namespace attention_test

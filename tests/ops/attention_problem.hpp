// One call of attention with everything that can be done to its scores: solved by the library, and
// by the textbook.
#pragma once

#include "ops/attention_support.hpp"

namespace attention_test {

struct Problem {
  Inputs in;  // k and v with heads / group heads
  Mask mask;
  std::int64_t group = 1;
  double cap = 0;
  std::optional<double> scale = std::nullopt;
  Tensor bias = {}, relative = {}, sinks = {};  // undefined: absent
  double dropout = 0;
};

struct Solution {
  Outputs main;
  Tensor dbias, drelative, dsinks;
};

inline Solution solve(const Problem& p, bool want_weights = true) {
  Tape tape;
  const Tensor q = tape.watch(p.in.q), k = tape.watch(p.in.k), v = tape.watch(p.in.v);
  Rng draws(5, Stream::dropout);
  AttentionOptions options;
  options.grouped = p.group > 1;
  options.soft_cap = p.cap;
  options.scale = p.scale;
  const auto watch = [&](Tensor& to, const Tensor& x) {
    if (x.defined()) to = tape.watch(x);
  };
  watch(options.bias, p.bias);
  watch(options.relative_bias, p.relative);
  watch(options.sinks, p.sinks);
  options.dropout = p.dropout;
  options.rng = &draws;
  Attention a;
  if (want_weights) {
    a = attention_with_weights(q, k, v, p.mask, options);
  } else {
    a.output = attention(q, k, v, p.mask, options);
  }
  std::vector<Tensor> ys{a.output};
  std::vector<Tensor> cotangents{p.in.dy};
  if (p.in.dp.defined()) {
    ys.push_back(a.weights);
    cotangents.push_back(p.in.dp);
  }
  const Gradients g = tape.backward(ys, cotangents);
  const auto of = [&](const Tensor& x) { return x.defined() ? g[x] : Tensor(); };
  return {{a.output, a.weights, g[q], g[k], g[v]},
          of(options.bias),
          of(options.relative_bias),
          of(options.sinks)};
}

struct Truth {
  oracle::AttentionResults main;
  std::vector<double> dbias, drelative, dsinks;  // empty where absent
};

inline Truth truth_of(const Problem& p) {
  const auto size = [](const Tensor& x, int axis) { return static_cast<std::size_t>(x.dim(axis)); };
  oracle::AttentionInputs o;
  o.sizes = {size(p.in.q, 0),
             size(p.in.q, 1),
             size(p.in.q, 2),
             size(p.in.k, 2),
             size(p.in.q, 3),
             size(p.in.v, 3),
             static_cast<std::size_t>(p.group)};
  const oracle::AttentionSizes& n = o.sizes;
  o.q = numbers(p.in.q);
  o.k = numbers(p.in.k);
  o.v = numbers(p.in.v);
  o.scale = p.scale.value_or(n.width == 0 ? 1 : 1 / std::sqrt(static_cast<double>(n.width)));
  o.cap = p.cap;
  const std::vector<double> table =
      numbers(p.mask.dense(p.in.q.dim(0), p.in.q.dim(1), p.in.q.dim(2), p.in.k.dim(2)));
  const auto place = [n](std::size_t b, std::size_t h, std::size_t t, std::size_t s) {
    return ((b * n.heads + h) * n.queries + t) * n.keys + s;
  };
  o.visible = [=](std::size_t b, std::size_t h, std::size_t t, std::size_t s) {
    return table[place(b, h, t, s)] != 0;
  };
  const std::vector<double> bias = numbers(p.bias), relative = numbers(p.relative);
  // Axes of size 1 serve every index.
  const auto index = [](const Tensor& x, int axis, std::size_t i) {
    return x.dim(axis) == 1 ? 0 : i;
  };
  const auto bias_place = [=](std::size_t b, std::size_t h, std::size_t t, std::size_t s) {
    const std::size_t head = index(p.bias, 0, b) * size(p.bias, 1) + index(p.bias, 1, h);
    return (head * n.queries + t) * n.keys + s;
  };
  const auto relative_place = [=](std::size_t h, std::size_t t, std::size_t s) {
    return index(p.relative, 0, h) * size(p.relative, 1) + s + n.queries - 1 - t;
  };
  o.bias = [=](std::size_t b, std::size_t h, std::size_t t, std::size_t s) {
    return (bias.empty() ? 0 : bias[bias_place(b, h, t, s)]) +
           (relative.empty() ? 0 : relative[relative_place(h, t, s)]);
  };
  if (p.sinks.defined()) o.sinks = numbers(p.sinks);
  if (p.dropout > 0) {
    const Rng start(5, Stream::dropout);
    for (std::size_t i = 0; i < table.size(); ++i)
      o.factors.push_back(start.uniform_at(i) >= p.dropout ? 1 / (1 - p.dropout) : 0);
  }
  o.d_output = numbers(p.in.dy);
  o.d_weights = numbers(p.in.dp);
  Truth truth{oracle::attention(o), {}, {}, {}};
  truth.dbias.assign(bias.size(), 0.0);
  truth.drelative.assign(relative.size(), 0.0);
  for (std::size_t i = 0; i < truth.main.dbias.size(); ++i) {
    const std::size_t s = i % n.keys, t = i / n.keys % n.queries;
    const std::size_t h = i / n.keys / n.queries % n.heads, b = i / n.keys / n.queries / n.heads;
    if (!bias.empty()) truth.dbias[bias_place(b, h, t, s)] += truth.main.dbias[i];
    if (!relative.empty()) truth.drelative[relative_place(h, t, s)] += truth.main.dbias[i];
  }
  if (p.sinks.defined()) truth.dsinks = truth.main.dsinks;
  return truth;
}

inline void check_close(const Solution& found, const Truth& truth, double tolerance,
                        double floor = 0) {
  check_close(found.main, truth.main, tolerance, floor);
  if (found.dbias.defined()) check_close("dbias", found.dbias, truth.dbias, tolerance, floor);
  if (found.drelative.defined())
    check_close("drelative", found.drelative, truth.drelative, tolerance, floor);
  if (found.dsinks.defined()) check_close("dsinks", found.dsinks, truth.dsinks, tolerance, floor);
}

inline void check_same_bits(const Solution& a, const Solution& b) {
  check_same_bits(a.main, b.main);
  if (a.dbias.defined()) CHECK(same_bits(a.dbias, b.dbias));
  if (a.drelative.defined()) CHECK(same_bits(a.drelative, b.drelative));
  if (a.dsinks.defined()) CHECK(same_bits(a.dsinks, b.dsinks));
}

inline bool all_finite(const Solution& s) {
  return all_finite(s.main) && all_finite(s.dbias) && all_finite(s.drelative) &&
         all_finite(s.dsinks);
}

}  // namespace attention_test

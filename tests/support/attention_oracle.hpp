// Attention and its gradient as a textbook writes them: loops in f64 over a dense table of
// booleans. Shares nothing with the library.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace oracle {

struct AttentionSizes {
  std::size_t batch, heads, queries, keys, width, value_width;
  std::size_t group = 1;  // heads that share a head of keys and values
};

struct AttentionInputs {
  AttentionSizes sizes;
  std::vector<double> q, k, v;  // [B,H,T,d] [B,H/group,S,d] [B,H/group,S,e]
  double scale = 1;
  double cap = 0;  // scores become cap tanh(x / cap); 0: they stay
  // Added to the capped scores; empty: nothing.
  std::function<double(std::size_t b, std::size_t h, std::size_t t, std::size_t s)> bias;
  std::vector<double> sinks;  // [H]: a score of each head that takes its share; empty: none
  std::function<bool(std::size_t b, std::size_t h, std::size_t t, std::size_t s)> visible;
  std::vector<double> factors;    // [B,H,T,S]: what dropout multiplies the weights by; empty: 1
  std::vector<double> d_output;   // cotangents; empty: 0
  std::vector<double> d_weights;  // of the weights before dropout; empty: 0
};

struct AttentionResults {
  std::vector<double> output, weights, dq, dk, dv;
  std::vector<double> dbias;   // [B,H,T,S]
  std::vector<double> dsinks;  // [H]
};

inline AttentionResults attention(const AttentionInputs& in) {
  const AttentionSizes& n = in.sizes;
  const std::size_t heads = n.batch * n.heads;
  AttentionResults r;
  r.output.assign(heads * n.queries * n.value_width, 0.0);
  r.weights.assign(heads * n.queries * n.keys, 0.0);
  r.dq.assign(in.q.size(), 0.0);
  r.dk.assign(in.k.size(), 0.0);
  r.dv.assign(in.v.size(), 0.0);
  r.dbias.assign(r.weights.size(), 0.0);
  r.dsinks.assign(n.heads, 0.0);
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t t = 0; t < n.queries; ++t) {
      std::vector<std::size_t> seen;
      for (std::size_t s = 0; s < n.keys; ++s) {
        if (in.visible(head / n.heads, head % n.heads, t, s)) seen.push_back(s);
      }
      const auto q_at = [&](std::size_t i) { return (head * n.queries + t) * n.width + i; };
      const auto k_at = [&](std::size_t s, std::size_t i) {
        return (head / n.group * n.keys + s) * n.width + i;
      };
      const auto v_at = [&](std::size_t s, std::size_t i) {
        return (head / n.group * n.keys + s) * n.value_width + i;
      };
      const auto y_at = [&](std::size_t i) { return (head * n.queries + t) * n.value_width + i; };
      const auto p_at = [&](std::size_t s) { return (head * n.queries + t) * n.keys + s; };
      const auto factor = [&](std::size_t s) {
        return in.factors.empty() ? 1.0 : in.factors[p_at(s)];
      };

      double largest = -std::numeric_limits<double>::infinity();
      std::vector<double> score(n.keys, 0.0);
      std::vector<double> slope(n.keys, 1.0);  // of the cap
      const std::size_t h = head % n.heads;
      if (!in.sinks.empty()) largest = in.sinks[h];
      for (std::size_t s : seen) {
        for (std::size_t i = 0; i < n.width; ++i) score[s] += in.q[q_at(i)] * in.k[k_at(s, i)];
        score[s] *= in.scale;
        if (in.cap != 0) {
          const double tangent = std::tanh(score[s] / in.cap);
          score[s] = in.cap * tangent;
          slope[s] = 1 - tangent * tangent;
        }
        if (in.bias) score[s] += in.bias(head / n.heads, h, t, s);
        largest = std::max(largest, score[s]);
      }
      const double sink = in.sinks.empty() ? 0 : std::exp(in.sinks[h] - largest);
      double total = sink;
      for (std::size_t s : seen) total += std::exp(score[s] - largest);
      for (std::size_t s : seen) r.weights[p_at(s)] = std::exp(score[s] - largest) / total;
      for (std::size_t s : seen) {
        for (std::size_t i = 0; i < n.value_width; ++i)
          r.output[y_at(i)] += factor(s) * r.weights[p_at(s)] * in.v[v_at(s, i)];
      }

      std::vector<double> dp(n.keys, 0.0);
      for (std::size_t s : seen) {
        for (std::size_t i = 0; !in.d_output.empty() && i < n.value_width; ++i) {
          dp[s] += factor(s) * in.d_output[y_at(i)] * in.v[v_at(s, i)];
          r.dv[v_at(s, i)] += factor(s) * r.weights[p_at(s)] * in.d_output[y_at(i)];
        }
        if (!in.d_weights.empty()) dp[s] += in.d_weights[p_at(s)];
      }
      // The Jacobian of softmax, entry by entry: dp_a / dx_s = p_a ((a == s) - p_s).
      for (std::size_t s : seen) {
        double dx = 0;
        for (std::size_t a : seen)
          dx += dp[a] * r.weights[p_at(a)] * ((a == s ? 1.0 : 0.0) - r.weights[p_at(s)]);
        r.dbias[p_at(s)] = dx;
        if (sink != 0) r.dsinks[h] -= dp[s] * r.weights[p_at(s)] * sink / total;
        for (std::size_t i = 0; i < n.width; ++i) {
          r.dq[q_at(i)] += in.scale * dx * slope[s] * in.k[k_at(s, i)];
          r.dk[k_at(s, i)] += in.scale * dx * slope[s] * in.q[q_at(i)];
        }
      }
    }
  }
  return r;
}

}  // namespace oracle

// Multi-head attention with all its variants as a textbook writes it: loops in f64 over numbers
// read out of a module's parameters.
#pragma once

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <tapehead/nn.hpp>

namespace variant_oracle {

using Numbers = std::vector<double>;

struct Call {
  tapehead::AttentionVariant variant;
  std::int64_t batch = 1, heads = 1, queries = 0, keys = 0, width = 0;
  std::function<bool(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s)> sees;
};

inline Numbers numbers(const tapehead::Tensor& x) {
  const tapehead::Tensor wide = tapehead::cast(x, tapehead::DType::f64);
  return wide.to_vector<double>();
}

// The parameter, or nothing.
inline Numbers weights(const tapehead::Params& params, const std::string& name) {
  for (const tapehead::Param& p : params.all()) {
    if (p.name() == name) return numbers(p.value());
  }
  return {};
}

// x [rows, in] W [in, out] + b
inline Numbers linear(const Numbers& x, const Numbers& w, const Numbers& b, std::int64_t out) {
  const std::int64_t in = static_cast<std::int64_t>(w.size()) / out;
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / in;
  Numbers y(static_cast<std::size_t>(rows * out));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = b.empty() ? 0 : b[static_cast<std::size_t>(o)];
      for (std::int64_t i = 0; i < in; ++i)
        sum += x[static_cast<std::size_t>(r * in + i)] * w[static_cast<std::size_t>(i * out + o)];
      y[static_cast<std::size_t>(r * out + o)] = sum;
    }
  }
  return y;
}

// One head's vector at a position, normalised and turned.
inline Numbers placed(Numbers x, const tapehead::AttentionVariant& v, const Numbers& gain,
                      const Numbers& bias, std::int64_t position) {
  using tapehead::NormKind;
  const auto n = static_cast<double>(x.size());
  if (v.qk_norm != NormKind::none) {
    double mean = 0, square = 0;
    if (v.qk_norm == NormKind::layer) {
      for (double a : x) mean += a / n;
    }
    for (double a : x) square += (a - mean) * (a - mean) / n;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = gain[i] * (x[i] - mean) / std::sqrt(square + v.qk_norm_eps) +
             (bias.empty() ? 0 : bias[i]);
    }
  }
  if (v.positions == tapehead::Positions::rope) {
    // As complex numbers, which Su et al. use to derive it.
    const auto dims =
        static_cast<std::size_t>(v.rope_dims.value_or(static_cast<std::int64_t>(x.size())));
    for (std::size_t i = 0; i < dims / 2; ++i) {
      const std::size_t a = v.rope_halves ? i : 2 * i;
      const std::size_t b = v.rope_halves ? i + dims / 2 : 2 * i + 1;
      const double speed =
          std::pow(v.rope_base, -2 * static_cast<double>(i) / static_cast<double>(dims));
      const std::complex<double> turned =
          std::complex<double>(x[a], x[b]) * std::polar(1.0, static_cast<double>(position) * speed);
      x[a] = turned.real();
      x[b] = turned.imag();
    }
  }
  return x;
}

// Output [B,T,D] and weights [B,H,T,S] of the module whose parameters stand at the root of params.
struct Result {
  Numbers output, weights;
};

inline Result attend(const tapehead::Params& params, const Call& c, const Numbers& query,
                     const Numbers& key, const Numbers& value,
                     const std::function<std::int64_t(std::int64_t)>& t5_bucket) {
  using tapehead::Positions;
  const tapehead::AttentionVariant& v = c.variant;
  const std::int64_t groups = v.kv_heads == 0 ? c.heads : v.kv_heads;
  const std::int64_t d = v.head_width == 0 ? c.width / c.heads : v.head_width;
  const std::int64_t e = v.value_width == 0 ? d : v.value_width;
  const auto project = [&](const char* name, const Numbers& x, std::int64_t out) {
    return linear(x, weights(params, std::string(name) + ".weight"),
                  weights(params, std::string(name) + ".bias"), out);
  };
  const Numbers q = project("query", query, c.heads * d), k = project("key", key, groups * d);
  const Numbers values = project("value", value, groups * e);
  const Numbers query_gain = weights(params, "query_norm.gain"),
                query_bias = weights(params, "query_norm.bias");
  const Numbers key_gain = weights(params, "key_norm.gain"),
                key_bias = weights(params, "key_norm.bias");
  const Numbers table = weights(params, "relative"), sinks = weights(params, "sinks");
  const auto part = [](const Numbers& x, std::int64_t first, std::int64_t count) {
    return Numbers(x.begin() + first, x.begin() + first + count);
  };
  Result result;
  Numbers joined;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const std::int64_t g = h / (c.heads / groups);
      for (std::int64_t t = 0; t < c.queries; ++t) {
        const Numbers a = placed(part(q, ((b * c.queries + t) * c.heads + h) * d, d), v, query_gain,
                                 query_bias, t);
        std::vector<std::int64_t> seen;
        for (std::int64_t s = 0; s < c.keys; ++s) {
          const bool near = v.window == 0 || std::abs(s - t) < v.window;
          if (near && c.sees(b, h, t, s)) seen.push_back(s);
        }
        double sharpness = v.scale.value_or(1 / std::sqrt(static_cast<double>(d)));
        if (v.log_length > 0)
          sharpness *= std::log(static_cast<double>(seen.size())) / std::log(v.log_length);
        Numbers exps(static_cast<std::size_t>(c.keys), 0.0);
        double total = 0;
        if (v.sinks == tapehead::Sinks::zero) total = 1;
        if (v.sinks == tapehead::Sinks::trained)
          total = std::exp(sinks[static_cast<std::size_t>(h)]);
        for (const std::int64_t s : seen) {
          const Numbers other =
              placed(part(k, ((b * c.keys + s) * groups + g) * d, d), v, key_gain, key_bias, s);
          double x = 0;
          for (std::size_t i = 0; i < a.size(); ++i) x += a[i] * other[i];
          x *= sharpness;
          if (v.soft_cap > 0) x = v.soft_cap * std::tanh(x / v.soft_cap);
          const std::int64_t distance = s - t;
          if (v.positions == Positions::alibi)
            x -= std::pow(2.0, -8.0 * static_cast<double>(h + 1) / static_cast<double>(c.heads)) *
                 static_cast<double>(std::abs(distance));
          if (v.positions == Positions::t5)
            x += table[static_cast<std::size_t>(t5_bucket(distance) * c.heads + h)];
          if (v.positions == Positions::relative) {
            const std::int64_t row =
                std::max(-v.max_distance, std::min(v.max_distance, distance)) + v.max_distance;
            x += table[static_cast<std::size_t>(row * c.heads + h)];
          }
          exps[static_cast<std::size_t>(s)] = std::exp(x);
          total += std::exp(x);
        }
        for (double& w : exps) w = total == 0 ? 0 : w / total;
        result.weights.insert(result.weights.end(), exps.begin(), exps.end());
      }
    }
  }
  joined.assign(static_cast<std::size_t>(c.batch * c.queries * c.heads * e), 0.0);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      for (std::int64_t t = 0; t < c.queries; ++t) {
        for (std::int64_t s = 0; s < c.keys; ++s) {
          const double w = result.weights[static_cast<std::size_t>(
              ((b * c.heads + h) * c.queries + t) * c.keys + s)];
          const std::int64_t g = h / (c.heads / groups);
          for (std::int64_t i = 0; i < e; ++i) {
            joined[static_cast<std::size_t>(((b * c.queries + t) * c.heads + h) * e + i)] +=
                w * values[static_cast<std::size_t>(((b * c.keys + s) * groups + g) * e + i)];
          }
        }
      }
    }
  }
  result.output =
      linear(joined, weights(params, "output.weight"), weights(params, "output.bias"), c.width);
  return result;
}

}  // namespace variant_oracle

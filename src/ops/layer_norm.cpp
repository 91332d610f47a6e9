// layer_norm and rms_norm over the last axis of width D, with a gain (and a bias) per column
//   layer_norm:  h_j = (x_j - mean) r,   r = 1 / sqrt(variance + eps),   y_j = gain_j h_j + bias_j
//   rms_norm:    h_j = x_j r,            r = 1 / sqrt(mean x^2 + eps),   y_j = gain_j h_j
//   With g_j = gain_j dy_j:
//     dx_j    = r (g_j - mean(g) - h_j mean(g h))       (rms_norm: without mean(g))
//     dgain_j = sum over rows of dy_j h_j               dbias_j = sum over rows of dy_j
// The variance is the mean of (x - mean)^2, taken in a second pass. Sums, means and x - mean are in
// f64: squares of f32 values of any size fit, and a large common offset costs no digits (in
// f64 itself squares overflow beyond 1e150).
// For gain = 1 the sum of y is constant, so a loss of sum(y) has gradient 0: not a fault.
// Sources: Ba, Kiros, Hinton, "Layer normalization" (2016); Zhang, Sennrich, "Root mean square
// layer normalization" (2019).
#include <cmath>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"
#include "ops/rows.hpp"

namespace tapehead {
namespace {

using detail::lane_sum;
using detail::Rows;

enum class Norm { layer, rms };

// Measured from the first element, so that the mean of equal elements is exact.
template <class T>
double row_mean(const T* x, std::int64_t width) {
  const auto first = static_cast<double>(x[0]);
  return first + lane_sum(width, [=](std::int64_t i) {
                   return static_cast<double>(x[i]) - first;
                 }) / static_cast<double>(width);
}

// The mean of (x - center)^2.
template <class T>
double row_power(const T* x, std::int64_t width, double center) {
  return lane_sum(width,
                  [=](std::int64_t i) {
                    const double d = static_cast<double>(x[i]) - center;
                    return d * d;
                  }) /
         static_cast<double>(width);
}

// y, and for the way back h and r of each row, [rows].
struct Forward {
  Tensor y;
  Tensor h;
  Tensor factors;
};

template <Norm kNorm, class T>
Forward norm_rows(const Tensor& x, const Tensor& gain, const Tensor* bias, double eps) {
  const Rows rows = detail::rows_of(x);
  Forward forward{detail::empty_like(x), detail::empty_like(x),
                  detail::empty({rows.count}, x.dtype())};
  if (x.size() == 0) return forward;
  const T* from = detail::in<T>(x);
  const T* g = detail::in<T>(gain);
  const T* b = bias == nullptr ? nullptr : detail::in<T>(*bias);
  T* to = detail::out<T>(forward.y);
  T* normalised = detail::out<T>(forward.h);
  T* factors = detail::out<T>(forward.factors);
  detail::for_row_blocks(rows, [&](std::int64_t first, std::int64_t count) {
    double mean[detail::kRowBlock] = {};
    double factor[detail::kRowBlock];
    const T* in = from + first * rows.width;
    if constexpr (kNorm == Norm::layer) {
      for (std::int64_t r = 0; r < count; ++r) {
        mean[r] = row_mean(in + r * rows.width, rows.width);
      }
    }
    for (std::int64_t r = 0; r < count; ++r) {
      factor[r] = row_power(in + r * rows.width, rows.width, mean[r]);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      factor[r] = 1 / std::sqrt(factor[r] + eps);
      factors[first + r] = static_cast<T>(factor[r]);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      const T* row = in + r * rows.width;
      T* h = normalised + (first + r) * rows.width;
      T* y = to + (first + r) * rows.width;
      for (std::int64_t j = 0; j < rows.width; ++j) {
        h[j] = static_cast<T>((static_cast<double>(row[j]) - mean[r]) * factor[r]);
      }
      for (std::int64_t j = 0; j < rows.width; ++j) {
        y[j] = kNorm == Norm::layer ? g[j] * h[j] + b[j] : g[j] * h[j];
      }
    }
  });
  return forward;
}

// Adds the row's dgain (and dbias) to the running sums.
template <Norm kNorm, class T>
void add_columns(const T* h, const T* dy, std::int64_t width, double* dgain, double* dbias) {
  for (std::int64_t j = 0; j < width; ++j) dgain[j] += static_cast<double>(dy[j] * h[j]);
  if constexpr (kNorm == Norm::layer) {
    for (std::int64_t j = 0; j < width; ++j) dbias[j] += static_cast<double>(dy[j]);
  }
}

// dx of `count` rows that follow one another.
template <Norm kNorm, class T>
void norm_gradient_rows(const T* h, const T* factors, const T* gain, const T* dy,
                        std::int64_t count, std::int64_t width, T* dx) {
  T mean_g[detail::kRowBlock] = {};
  T mean_gh[detail::kRowBlock];
  const auto n = static_cast<double>(width);
  for (std::int64_t r = 0; r < count; ++r) {
    const T* row_h = h + r * width;
    const T* row_dy = dy + r * width;
    mean_gh[r] = static_cast<T>(
        lane_sum(width, [=](std::int64_t j) { return gain[j] * row_dy[j] * row_h[j]; }) / n);
    if constexpr (kNorm == Norm::layer) {
      mean_g[r] =
          static_cast<T>(lane_sum(width, [=](std::int64_t j) { return gain[j] * row_dy[j]; }) / n);
    }
  }
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t at = r * width;
    for (std::int64_t j = 0; j < width; ++j) {
      dx[at + j] = factors[r] * (gain[j] * dy[at + j] - mean_g[r] - h[at + j] * mean_gh[r]);
    }
    // One column is constant and h = 0: exactly 0 too where a fused multiply-add rounds g and
    // mean(g) apart.
    if (kNorm == Norm::layer && width == 1) dx[at] = 0;
  }
}

// {dx, dgain, dbias}; dbias only for layer_norm. Column sums are taken per chunk of rows, then over
// the chunks in order: the chunks depend on the shape alone.
template <Norm kNorm, class T>
std::array<Tensor, 3> norm_gradients(const Tensor& gain, const Tensor& h, const Tensor& factors,
                                     const Tensor& dy) {
  const Rows rows = detail::rows_of(h);
  constexpr std::int64_t kSums = kNorm == Norm::layer ? 2 : 1;
  std::array<Tensor, 3> gradients{detail::empty_like(h), zeros(gain.shape(), gain.dtype()),
                                  zeros(gain.shape(), gain.dtype())};
  if (h.size() == 0) return gradients;
  const std::int64_t chunk = detail::rows_per_chunk(rows.width);
  const std::int64_t chunks = (rows.count + chunk - 1) / chunk;
  Tensor partial = zeros({chunks, kSums, rows.width}, DType::f64);
  double* sums = detail::out<double>(partial);
  const T* ph = detail::in<T>(h);
  const T* pgain = detail::in<T>(gain);
  const T* pdy = detail::in<T>(dy);
  const T* pfactors = detail::in<T>(factors);
  T* dx = detail::out<T>(gradients[0]);
  detail::for_row_blocks(rows, [&](std::int64_t first, std::int64_t count) {
    double* dgain = sums + first / chunk * kSums * rows.width;
    const std::int64_t at = first * rows.width;
    norm_gradient_rows<kNorm>(ph + at, pfactors + first, pgain, pdy + at, count, rows.width,
                              dx + at);
    for (std::int64_t row = first; row < first + count; ++row) {
      add_columns<kNorm>(ph + row * rows.width, pdy + row * rows.width, rows.width, dgain,
                         dgain + (kSums - 1) * rows.width);
    }
  });
  for (std::int64_t k = 0; k < kSums; ++k) {
    T* to = detail::out<T>(gradients[static_cast<std::size_t>(k + 1)]);
    for (std::int64_t j = 0; j < rows.width; ++j) {
      double total = 0;
      for (std::int64_t c = 0; c < chunks; ++c) total += sums[(c * kSums + k) * rows.width + j];
      to[j] = static_cast<T>(total);
    }
  }
  return gradients;
}

void check_norm(const char* op, const Tensor& x, double eps) {
  detail::check_floating(op, x);
  if (x.rank() == 0) {
    detail::fail<ShapeError>(
        fmt::format("{}: x is a scalar, but an axis to normalise over is needed", op));
  }
  if (!(eps > 0) || std::isinf(eps)) {
    detail::fail<ValueError>(fmt::format(
        "{}: eps must be above 0, so that a constant row has a finite gradient; got {}", op, eps));
  }
}

void check_column(const char* op, const Tensor& x, const Tensor& column, const char* what) {
  detail::check_same_dtype(op, x, column);
  if (column.shape() != Shape{x.dim(-1)}) {
    detail::fail<ShapeError>(fmt::format(
        "{}: {} must have one number per column of x {}: wanted "
        "[{}], got {}",
        op, what, detail::named(x.shape(), {"width"}), x.dim(-1), to_string(column.shape())));
  }
}

// A column vector as [1, .., 1, D], to stretch over the rows of x.
Tensor over_rows(const Tensor& column, const Tensor& x) {
  Shape shape = x.shape();
  for (int axis = 0; axis + 1 < x.rank(); ++axis) shape = shape.with(axis, 1);
  return reshape(column, shape);
}

// The mean over the last axis, kept; an empty row has none, and nothing reads it.
Tensor last_mean(const Tensor& x) {
  return scale(sum(x, -1, keep), 1.0 / static_cast<double>(std::max<std::int64_t>(1, x.dim(-1))));
}

Tensor layer_norm_composition(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps) {
  const Tensor centred = x - last_mean(x);
  const Tensor h = centred / sqrt(last_mean(centred * centred) + eps);
  return over_rows(gain, x) * h + over_rows(bias, x);
}

Tensor rms_norm_composition(const Tensor& x, const Tensor& gain, double eps) {
  return over_rows(gain, x) * (x / sqrt(last_mean(x * x) + eps));
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                  CallSite at) {
  const OpCall call(at);
  check_norm("layer_norm", x, eps);
  check_column("layer_norm", x, gain, "gain");
  check_column("layer_norm", x, bias, "bias");
  if (recording_differentiable()) return layer_norm_composition(x, gain, bias, eps);
  return detail::with_float("layer_norm", x.dtype(), [&](auto zero) -> Tensor {
    using T = decltype(zero);
    const Forward forward = norm_rows<Norm::layer, T>(x, gain, &bias, eps);
    return record("layer_norm", forward.y)
        .inputs({x, gain, bias},
                [gain, h = forward.h, factors = forward.factors](const Tensor& dy) {
                  return norm_gradients<Norm::layer, T>(gain, h, factors, dy);
                });
  });
}

Tensor rms_norm(const Tensor& x, const Tensor& gain, double eps, CallSite at) {
  const OpCall call(at);
  check_norm("rms_norm", x, eps);
  check_column("rms_norm", x, gain, "gain");
  if (recording_differentiable()) return rms_norm_composition(x, gain, eps);
  return detail::with_float("rms_norm", x.dtype(), [&](auto zero) -> Tensor {
    using T = decltype(zero);
    const Forward forward = norm_rows<Norm::rms, T>(x, gain, nullptr, eps);
    return record("rms_norm", forward.y)
        .inputs({x, gain}, [gain, h = forward.h, factors = forward.factors](const Tensor& dy) {
          const auto gradients = norm_gradients<Norm::rms, T>(gain, h, factors, dy);
          return std::array<Tensor, 2>{gradients[0], gradients[1]};
        });
  });
}

namespace detail {
namespace {

struct NormCase {
  Shape shape;
  double eps;
};
// Width 1 has gradient 0 by x, and eps of 0.25 tells whether it is inside the root.
const std::vector<NormCase>& norm_cases() {
  static const std::vector<NormCase> cases{{{1}, 0.25},
                                           {{3, 5, 17}, 1e-5},
                                           {{2, 67}, 0.25},
                                           {{700, 3}, 0.1},
                                           {{1, 2, 1, 1, 2, 1, 1, 5}, 1e-5},
                                           {{0, 3}, 1e-5},
                                           {{2, 0}, 1e-5}};
  return cases;
}

}  // namespace

OpEntry layer_norm_entry() {
  return {"layer_norm",
          "normalisation",
          "y = gain h + bias, h = (x - mean) / sqrt(variance + eps)",
          "dx = (g - mean(g) - h mean(g h)) / sqrt(variance + eps), g = gain dy; dgain = sum dy h; "
          "dbias = sum dy",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            for (const NormCase& c : norm_cases()) {
              const Shape column{c.shape[-1]};
              OpSample sample{fmt::format("{}, eps {}", to_string(c.shape), c.eps),
                              {sample_values(c.shape, dtype, 1), sample_values(column, dtype, 2),
                               sample_values(column, dtype, 3)}};
              sample.call = [eps = c.eps](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{layer_norm(x[0], x[1], x[2], eps)};
              };
              sample.composition = [eps = c.eps](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{layer_norm_composition(x[0], x[1], x[2], eps)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

OpEntry rms_norm_entry() {
  return {"rms_norm",
          "normalisation",
          "y = gain h, h = x / sqrt(mean x^2 + eps)",
          "dx = (g - h mean(g h)) / sqrt(mean x^2 + eps), g = gain dy; dgain = sum dy h",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            for (const NormCase& c : norm_cases()) {
              OpSample sample{
                  fmt::format("{}, eps {}", to_string(c.shape), c.eps),
                  {sample_values(c.shape, dtype, 1), sample_values({c.shape[-1]}, dtype, 2)}};
              sample.call = [eps = c.eps](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{rms_norm(x[0], x[1], eps)};
              };
              sample.composition = [eps = c.eps](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{rms_norm_composition(x[0], x[1], eps)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

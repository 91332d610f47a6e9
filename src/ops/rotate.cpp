// rotate: position t turns pairs of columns by an angle of its own, so that the product of a turned
// query and a turned key knows their distance and nothing else of their positions.
//   (y_a, y_b) = (x_a cos w - x_b sin w, x_a sin w + x_b cos w),   w = t / base^(2i/n)
// for pair i of n/2: columns 2i and 2i+1, or i and i + n/2 ("halves"). Columns from n on stay.
//   dx = dy turned by -w: a rotation's inverse is its transpose
// Positions, base and n are numbers, not trained. Source: Su et al., "RoFormer" (2021), equation
// 34; columns that stay: Wang and Komatsuzaki, GPT-J (2021); halves: the layout of GPT-NeoX and
// Llama.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"

namespace tapehead {
namespace {

// Row t, pair i: cos and sin of its angle, computed in f64 whatever the dtype: a position of 10,000
// has no digits left for the angle in f32.
template <class T>
Tensor turns(std::int64_t rows, std::int64_t pairs, const RotateOptions& o) {
  Tensor table = detail::empty({rows, pairs, 2}, detail::kDTypeOf<T>);
  Tensor speeds = detail::empty({pairs}, DType::f64);
  double* speed = detail::out<double>(speeds);
  for (std::int64_t i = 0; i < pairs; ++i)
    speed[i] = std::pow(o.base, -static_cast<double>(i) / static_cast<double>(pairs));
  T* first = detail::out<T>(table);
  detail::parallel_for(rows, detail::rows_per_chunk(32 * pairs),
                       [&](std::int64_t begin, std::int64_t end) {
                         T* to = first + begin * pairs * 2;
                         for (std::int64_t t = begin; t < end; ++t) {
                           for (std::int64_t i = 0; i < pairs; ++i) {
                             const double angle = static_cast<double>(o.first + t) * speed[i];
                             *to++ = static_cast<T>(std::cos(angle));
                             *to++ = static_cast<T>(o.back ? -std::sin(angle) : std::sin(angle));
                           }
                         }
                       });
  return table;
}

template <class T>
void turn(const T* x, T* y, std::int64_t count, std::int64_t rows, std::int64_t width,
          std::int64_t pairs, const RotateOptions& o) {
  const Tensor table = turns<T>(rows, pairs, o);
  const std::int64_t next = o.halves ? pairs : 1;  // from the first of a pair to the second
  const std::int64_t step = o.halves ? 1 : 2;      // from a pair to the next
  detail::parallel_for(count, detail::rows_per_chunk(width),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t row = begin; row < end; ++row) {
                           const T* from = x + row * width;
                           T* to = y + row * width;
                           const T* angle = detail::in<T>(table) + row % rows * pairs * 2;
                           for (std::int64_t i = 0; i < pairs; ++i) {
                             const T a = from[i * step];
                             const T b = from[i * step + next];
                             to[i * step] = a * angle[2 * i] - b * angle[2 * i + 1];
                             to[i * step + next] = a * angle[2 * i + 1] + b * angle[2 * i];
                           }
                           std::copy(from + 2 * pairs, from + width, to + 2 * pairs);
                         }
                       });
}

std::int64_t checked_dims(const Tensor& x, const RotateOptions& o) {
  detail::check_floating("rotate", x);
  if (x.rank() < 2) {
    detail::fail<ShapeError>(
        fmt::format("rotate: x must be [.., time, width], got {}", to_string(x.shape())));
  }
  const std::int64_t width = x.dim(-1);
  const std::int64_t dims = o.dims.value_or(width);
  if (dims < 0 || dims > width || dims % 2 != 0) {
    detail::fail<ValueError>(
        fmt::format("rotate: columns turn in pairs: {} of a width of {} cannot; give "
                    "RotateOptions::dims an even number in 0..{}",
                    dims, width, width));
  }
  if (!(o.base > 0 && std::isfinite(o.base)))
    detail::fail<ValueError>(fmt::format("rotate: base must be finite and > 0, got {}", o.base));
  return dims;
}

}  // namespace

Tensor rotate(const Tensor& x, const RotateOptions& options, CallSite at) {
  const OpCall call(at);
  const std::int64_t dims = checked_dims(x, options);
  Tensor y = detail::with_float("rotate", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor result = detail::empty_like(x);
    if (x.size() > 0) {
      turn(detail::in<T>(x), detail::out<T>(result), x.size() / x.dim(-1), x.dim(-2), x.dim(-1),
           dims / 2, options);
    }
    return result;
  });
  return record("rotate", std::move(y)).input(x, [options](const Tensor& dy) {
    RotateOptions inverse = options;
    inverse.back = !options.back;
    return rotate(dy, inverse);
  });
}

namespace detail {
namespace {

// The same with matmul: x times the matrix of each position's rotation.
Tensor rotated_by_matrices(const Tensor& x, const RotateOptions& o) {
  const std::int64_t rows = x.dim(-2);
  const std::int64_t width = x.dim(-1);
  const std::int64_t pairs = o.dims.value_or(width) / 2;
  std::vector<double> matrices(static_cast<std::size_t>(rows * width * width), 0.0);
  for (std::int64_t t = 0; t < rows; ++t) {
    const auto entry = [&](std::int64_t from, std::int64_t to) -> double& {
      return matrices[static_cast<std::size_t>((t * width + from) * width + to)];
    };
    for (std::int64_t i = 2 * pairs; i < width; ++i) entry(i, i) = 1;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::int64_t a = o.halves ? i : 2 * i;
      const std::int64_t b = o.halves ? i + pairs : a + 1;
      const double exponent = 2 * static_cast<double>(i) / static_cast<double>(2 * pairs);
      const double w = static_cast<double>(o.first + t) / std::pow(o.base, exponent);
      entry(a, a) = entry(b, b) = std::cos(w);
      entry(a, b) = o.back ? -std::sin(w) : std::sin(w);
      entry(b, a) = -entry(a, b);
    }
  }
  const Tensor turning =
      cast(tensor(std::span<const double>(matrices), {1, rows, width, width}), x.dtype());
  const std::int64_t count = x.size() == 0 ? 0 : x.size() / (rows * width);
  return reshape(matmul(reshape(x, {count, rows, 1, width}), turning), x.shape());
}

std::vector<OpSample> rotate_samples(DType dtype) {
  struct Case {
    const char* name;
    Shape shape;
    RotateOptions options = {};
  };
  const std::vector<Case> cases{
      {"[2,3,5,4]", {2, 3, 5, 4}},
      {"halves, from position 7", {2, 5, 6}, {.halves = true, .first = 7}},
      {"4 of 7 columns, base 50", {3, 7}, {.base = 50, .dims = 4}},
      {"back", {5, 2}, {.back = true}},
      {"no column turns", {3, 5}, {.dims = 0}},
      {"67 positions", {67, 2}},
      {"rank 8", {1, 2, 1, 2, 1, 1, 3, 2}},
      {"no positions", {2, 0, 4}},
      {"width 0", {2, 3, 0}},
      {"no samples", {0, 3, 4}},
  };
  std::vector<OpSample> samples;
  for (const Case& c : cases) {
    OpSample sample{c.name, {sample_values(c.shape, dtype, 1)}};
    sample.call = [c](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{rotate(x[0], c.options)};
    };
    sample.composition = [c](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{rotated_by_matrices(x[0], c.options)};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

OpEntry rotate_entry() {
  return {"rotate",
          "attention",
          "(y_a, y_b) = (x_a cos w - x_b sin w, x_a sin w + x_b cos w), w = t / base^(2i/n)",
          "dx = dy turned by -w",
          true,
          true,
          rotate_samples};
}

}  // namespace detail
}  // namespace tapehead

// Positions: attention itself does not know the order of what it sees.
//   sinusoidal: p(t, 2i) = sin(t / 10000^(2i/D)),   p(t, 2i+1) = cos(t / 10000^(2i/D))
//   learned:    p(t) = row t of a table
// Vaswani et al. 2017, section 3.5.
#include <cmath>

#include <fmt/format.h>

#include "core/access.hpp"
#include "nn/options.hpp"

namespace tapehead {

Tensor sinusoidal_positions(std::int64_t length, std::int64_t width, DType dtype) {
  if (length < 0 || width < 1) {
    detail::fail<ValueError>(
        fmt::format("sinusoidal_positions: needs a length >= 0 and a width >= 1, got {} and {}",
                    length, width));
  }
  return detail::with_float("sinusoidal_positions", dtype, [&](auto zero) {
    using T = decltype(zero);
    Tensor y = detail::empty({length, width}, dtype);
    T* rows = detail::out<T>(y);
    for (std::int64_t column = 0; column < width; ++column) {
      const double exponent = static_cast<double>(column - column % 2) / static_cast<double>(width);
      const double speed = std::pow(10000.0, -exponent);
      for (std::int64_t t = 0; t < length; ++t) {
        const double angle = static_cast<double>(t) * speed;
        rows[t * width + column] =
            static_cast<T>(column % 2 == 0 ? std::sin(angle) : std::cos(angle));
      }
    }
    return y;
  });
}

LearnedPositions::LearnedPositions(const Scope& scope, std::int64_t max_length, std::int64_t width,
                                   const Init& init)
    : weight(scope.param("weight",
                         {detail::positive(scope, "learned_positions", "max_length", max_length),
                          detail::positive(scope, "learned_positions", "width", width)},
                         init)),
      path(scope.path()) {}

Tensor LearnedPositions::operator()(const Tensor& x, CallSite at) const {
  const InModule here(path, at);
  const std::int64_t rows = weight.shape()[0];
  const std::int64_t width = weight.shape()[1];
  detail::check_sequence("learned_positions", "x", x, width);
  const std::int64_t length = x.dim(1);
  if (length > rows) {
    detail::fail<ShapeError>(
        fmt::format("learned_positions: a sequence of length {} is longer than the table of {} "
                    "positions; shorten the input or build the model with a larger max_length",
                    length, rows));
  }
  const Tensor table = weight;  // [max_length, D]
  const Tensor used = length == rows ? table : slice(table, 0, 0, length);
  return x + reshape(used, {1, length, width});
}

}  // namespace tapehead

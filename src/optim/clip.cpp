// Clipping by the global norm:  n = sqrt(sum g^2);   g <- g limit / n  where n > limit.
// Pascanu, Mikolov, Bengio 2013. Nothing is added to n, so that clipped gradients have the norm
// `limit` itself, and a norm of 0 divides nothing.
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "core/message.hpp"
#include "optim/step.hpp"

namespace tapehead {
namespace {

// Applies `of` to fixed chunks of x and hands the results to `join`, in order.
template <class T, class Of, class Join>
double over_chunks(const T* x, std::int64_t count, const Of& of, const Join& join) {
  const std::int64_t chunk = detail::kElementChunk;
  Tensor parts = detail::empty({(count + chunk - 1) / chunk}, DType::f64);
  double* part = detail::out<double>(parts);
  detail::parallel_for(count, chunk, [&](std::int64_t begin, std::int64_t end) {
    part[begin / chunk] = of(x, begin, end);
  });
  return std::accumulate(part, part + parts.size(), 0.0, join);
}

template <class T>
double sum_of_squares(const T* x, std::int64_t count, double factor) {
  const auto of = [factor](const T* values, std::int64_t begin, std::int64_t end) {
    double sum[8] = {};  // eight lanes: one sum would be a chain of dependent additions
    for (std::int64_t i = begin; i < end; ++i) {
      const double y = factor * static_cast<double>(values[i]);
      sum[(i - begin) % 8] += y * y;
    }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  };
  return over_chunks(x, count, of, [](double a, double b) { return a + b; });
}

template <class T>
double largest_magnitude(const T* x, std::int64_t count) {
  const auto of = [](const T* values, std::int64_t begin, std::int64_t end) {
    T largest = 0;
    for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
    return static_cast<double>(largest);
  };
  return over_chunks(x, count, of, [](double a, double b) { return std::max(a, b); });
}

// The norm of finite numbers. Squares of f64 numbers beyond 1e+-154 leave the range of f64; then
// everything is divided by the largest first.
template <class T>
double norm_of(const T* x, std::int64_t count) {
  const double squares = sum_of_squares(x, count, 1.0);
  if (squares > 1e-280 && squares < 1e280) return std::sqrt(squares);
  const double largest = largest_magnitude(x, count);
  if (largest == 0) return 0;
  const double unit = std::max(largest, 1e-300);
  return unit * std::sqrt(sum_of_squares(x, count, 1 / unit));
}

double checked_norm(const char* what, const Gradients& gradients, const Params& params) {
  const Tensor flat = gradients.flat(params);
  const double finite = std::numeric_limits<double>::max();
  if (const int bad = detail::first_beyond(params, flat, finite); bad >= 0) {
    detail::fail<NonFiniteError>(fmt::format("{}: {}; nothing was changed", what,
                                             detail::describe_beyond(params, flat, bad, finite)));
  }
  return detail::with_float(what, flat.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const double norm = norm_of(detail::in<T>(flat), flat.size());
    if (!std::isfinite(norm)) {
      const double half = 0.5 * largest_magnitude(detail::in<T>(flat), flat.size());
      const int worst = detail::first_beyond(params, flat, half);
      detail::fail<NonFiniteError>(
          fmt::format("{}: the norm overflows f64: {}; nothing was changed", what,
                      detail::describe_beyond(params, flat, worst, half)));
    }
    return norm;
  });
}

}  // namespace

double global_norm(const Gradients& gradients, const Params& params) {
  return checked_norm("global_norm", gradients, params);
}

double clip_global_norm(Gradients& gradients, const Params& params, double limit) {
  if (!(limit > 0)) {
    detail::fail<ValueError>(fmt::format("clip_global_norm: the limit must be > 0, got {}", limit));
  }
  const double norm = checked_norm("clip_global_norm", gradients, params);
  if (norm > limit) gradients *= limit / norm;
  return norm;
}

}  // namespace tapehead

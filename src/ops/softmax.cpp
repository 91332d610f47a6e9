// softmax and log_softmax along one axis
//   softmax:      y_i  = e^(x_i - m) / sum_j e^(x_j - m),     m = max_j x_j
//                 dx_i = y_i (dy_i - sum_j y_j dy_j)
//   log_softmax:  y_i  = x_i - m - ln sum_j e^(x_j - m)
//                 dx_i = dy_i - e^(y_i) sum_j dy_j
// Subtracting m changes nothing in exact arithmetic and keeps e^x from overflowing.
// An element of -inf has weight 0, and softmax gives it no gradient whatever dy holds there: where
// y_i = 0, dy_i is left out by selection, since 0 * inf would be NaN. A row that is entirely -inf
// has nothing to choose from: its softmax is 0, its log_softmax -inf, and its gradient 0. A row
// with a NaN or with +inf is NaN (the limit at +inf depends on how it is approached).
#include <cmath>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"
#include "ops/rows.hpp"
#include "ops/softmax_row.hpp"

namespace tapehead {
namespace {

using detail::lane_sum;
using detail::Rows;

template <class T>
Tensor softmax_rows(const Tensor& x) {
  const Rows rows = detail::rows_of(x);
  Tensor result = detail::empty_like(x);
  const T* from = detail::in<T>(x);
  T* to = detail::out<T>(result);
  detail::for_row_blocks(rows, [&](std::int64_t first, std::int64_t count) {
    T shift[detail::kRowBlock];
    T factor[detail::kRowBlock];
    const T* in = from + first * rows.width;
    T* y = to + first * rows.width;
    for (std::int64_t r = 0; r < count; ++r) {
      shift[r] = detail::exp_shift(in + r * rows.width, rows.width);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t i = r * rows.width; i < (r + 1) * rows.width; ++i) {
        y[i] = detail::vector_exp(in[i] - shift[r]);
      }
    }
    for (std::int64_t r = 0; r < count; ++r) {
      const T* row = y + r * rows.width;
      const double total = lane_sum(rows.width, [=](std::int64_t i) { return row[i]; });
      factor[r] = total == 0 ? T{0} : static_cast<T>(1 / total);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t i = r * rows.width; i < (r + 1) * rows.width; ++i) y[i] *= factor[r];
    }
  });
  return result;
}

template <class T>
Tensor softmax_gradient_rows(const Tensor& y, const Tensor& dy) {
  const Rows rows = detail::rows_of(y);
  Tensor result = detail::empty_like(y);
  const T* weights = detail::in<T>(y);
  const T* cotangent = detail::in<T>(dy);
  T* dx = detail::out<T>(result);
  detail::for_row_blocks(rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t at = first * rows.width; at < (first + count) * rows.width;
         at += rows.width) {
      std::copy_n(cotangent + at, rows.width, dx + at);
      detail::softmax_gradient_row(weights + at, dx + at, rows.width);
    }
  });
  return result;
}

template <class T>
Tensor log_softmax_rows(const Tensor& x) {
  const Rows rows = detail::rows_of(x);
  Tensor result = detail::empty_like(x);
  const T* from = detail::in<T>(x);
  T* to = detail::out<T>(result);
  detail::for_row_blocks(rows, [&](std::int64_t first, std::int64_t count) {
    T shift[detail::kRowBlock];
    T log_total[detail::kRowBlock];
    const T* in = from + first * rows.width;
    T* y = to + first * rows.width;
    for (std::int64_t r = 0; r < count; ++r) {
      shift[r] = detail::exp_shift(in + r * rows.width, rows.width);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      const double total = detail::exp_sum(in + r * rows.width, rows.width, shift[r]);
      log_total[r] = total == 0 ? T{0} : static_cast<T>(std::log(total));
    }
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t i = r * rows.width; i < (r + 1) * rows.width; ++i) {
        y[i] = (in[i] - shift[r]) - log_total[r];
      }
    }
  });
  return result;
}

template <class T>
Tensor log_softmax_gradient_rows(const Tensor& output, const Tensor& cotangent) {
  const Rows rows = detail::rows_of(output);
  Tensor result = detail::empty_like(output);
  const T* logs = detail::in<T>(output);
  const T* from = detail::in<T>(cotangent);
  T* to = detail::out<T>(result);
  detail::for_row_blocks(rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t row = first; row < first + count; ++row) {
      const T* y = logs + row * rows.width;
      const T* dy = from + row * rows.width;
      T* dx = to + row * rows.width;
      const auto total =
          static_cast<T>(lane_sum(rows.width, [=](std::int64_t i) { return dy[i]; }));
      for (std::int64_t i = 0; i < rows.width; ++i) {
        dx[i] = dy[i] - detail::vector_exp(y[i]) * total;
      }
      // Only a row without a finite element has no weight at all.
      if (rows.width > 0 && std::isinf(y[0]) && std::isinf(detail::lane_max(y, rows.width))) {
        std::fill_n(dx, rows.width, T{0});
      }
    }
  });
  return result;
}

// Kernels see the axis as the last one; other axes are brought there and back. x and what follows
// it have one shape.
template <class F, class... X>
Tensor along(int axis, F f, const Tensor& x, const X&... more) {
  const auto last = [axis](const Tensor& t) { return transpose(detach(t), axis, -1); };
  if (axis == x.rank() - 1) return f(x, more...);
  return transpose(f(last(x), last(more)...), axis, -1);
}

Tensor softmax_gradient(int axis, const Tensor& y, const Tensor& dy) {
  if (recording_differentiable()) {
    const Tensor seen = masked_fill(dy, equal(y, 0.0), 0.0);
    return y * (seen - sum(y * seen, axis, keep));
  }
  return detail::with_float("softmax", y.dtype(), [&](auto zero) {
    return along(axis, softmax_gradient_rows<decltype(zero)>, y, dy);
  });
}

Tensor log_softmax_gradient(int axis, const Tensor& y, const Tensor& dy) {
  if (recording_differentiable()) {
    const Tensor weights = exp(y);
    const Tensor dead = broadcast_to(equal(sum(weights, axis, keep), 0.0), y.shape());
    return masked_fill(dy - weights * sum(dy, axis, keep), dead, 0.0);
  }
  return detail::with_float("log_softmax", y.dtype(), [&](auto zero) {
    return along(axis, log_softmax_gradient_rows<decltype(zero)>, y, dy);
  });
}

}  // namespace

Tensor softmax(const Tensor& x, int axis, CallSite at) {
  const OpCall call(at);
  detail::check_floating("softmax", x);
  const int along_axis = x.shape().axis(axis, "softmax: axis");
  Tensor y = detail::with_float("softmax", x.dtype(), [&](auto zero) {
    return along(along_axis, softmax_rows<decltype(zero)>, x);
  });
  return record("softmax", y).input(x, [along_axis](const Tensor& weights, const Tensor& dy) {
    return softmax_gradient(along_axis, weights, dy);
  });
}

Tensor log_softmax(const Tensor& x, int axis, CallSite at) {
  const OpCall call(at);
  detail::check_floating("log_softmax", x);
  const int along_axis = x.shape().axis(axis, "log_softmax: axis");
  Tensor y = detail::with_float("log_softmax", x.dtype(), [&](auto zero) {
    return along(along_axis, log_softmax_rows<decltype(zero)>, x);
  });
  return record("log_softmax", y).input(x, [along_axis](const Tensor& logs, const Tensor& dy) {
    return log_softmax_gradient(along_axis, logs, dy);
  });
}

namespace detail {
namespace {

std::vector<OpSample> softmax_samples(DType dtype, Tensor (*op)(const Tensor&, int),
                                      Tensor (*composition)(const Tensor&, int)) {
  struct Case {
    Shape shape;
    int axis;
    const char* name;
  };
  const std::vector<Case> cases{
      {{1}, 0, "one element"},
      {{3, 5, 17}, 1, "[3,5,17], axis 1"},
      {{3, 5, 17}, -1, "[3,5,17], last axis"},
      {{2, 67}, -1, "[2,67], last axis"},
      {{67, 2}, 0, "[67,2], first axis"},
      {{2, 300}, -1, "[2,300], last axis"},
      {{1, 2, 1, 1, 5, 1, 2, 1}, 4, "rank 8, axis 4"},
      {{10, 0}, -1, "empty axis"},
      {{0, 5}, -1, "no rows"},
  };
  std::vector<OpSample> samples;
  for (const Case& c : cases) {
    OpSample sample{c.name, {sample_values(c.shape, dtype, 1)}};
    sample.call = [op, axis = c.axis](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{op(x[0], axis)};
    };
    if (c.shape.size() > 0) {  // the composition's max refuses an empty axis
      sample.composition = [composition, axis = c.axis](const std::vector<Tensor>& x) {
        return std::vector<Tensor>{composition(x[0], axis)};
      };
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

Tensor softmax_composition(const Tensor& x, int axis) {
  const Tensor e = exp(x - detach(max(x, axis, keep)));
  return e / sum(e, axis, keep);
}

Tensor log_softmax_composition(const Tensor& x, int axis) {
  const Tensor shifted = x - detach(max(x, axis, keep));
  return shifted - log(sum(exp(shifted), axis, keep));
}

}  // namespace

OpEntry softmax_entry() {
  return {"softmax",
          "normalisation",
          "y_i = e^(x_i - m) / sum_j e^(x_j - m), m = max_j x_j",
          "dx_i = y_i (dy_i - sum_j y_j dy_j)",
          true,
          true,
          [](DType t) {
            return softmax_samples(
                t, [](const Tensor& x, int axis) { return softmax(x, axis); }, softmax_composition);
          }};
}
OpEntry log_softmax_entry() {
  return {"log_softmax",
          "normalisation",
          "y_i = x_i - m - ln sum_j e^(x_j - m), m = max_j x_j",
          "dx_i = dy_i - e^(y_i) sum_j dy_j",
          true,
          true,
          [](DType t) {
            return softmax_samples(
                t, [](const Tensor& x, int axis) { return log_softmax(x, axis); },
                log_softmax_composition);
          }};
}

}  // namespace detail
}  // namespace tapehead

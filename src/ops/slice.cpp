// Parts of a tensor along one axis, and what surrounds them.
//   slice:  y_i = x_(begin + i) for i in 0..end-begin-1;  dx = dy with zeros around it: a pad
//   split:  equal slices
//   pad:    y = x with `before` and `after` copies of a number around it;  dx = a slice of dy
// A slice of the outermost axis shares the buffer.
#include <cmath>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "ops/axis.hpp"
#include "ops/catalog.hpp"

namespace tapehead {
namespace {

using detail::AxisView;

Tensor part(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  const Shape shape = x.shape().with(axis, end - begin);
  const AxisView view = detail::axis_view(x.shape(), axis);
  if (view.outer == 1) return detail::TensorAccess::view(x, shape, begin * view.inner);
  Tensor y = detail::empty(shape, x.dtype());
  detail::with_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t length = (end - begin) * view.inner;
    detail::copy_runs(detail::in<T>(x) + begin * view.inner, view.size * view.inner,
                      detail::out<T>(y), length, view.outer, length);
  });
  return y;
}

// The number as an element of this dtype.
template <class T>
T filling(double value, DType dtype) {
  if constexpr (!std::is_floating_point_v<T>) {
    const double limit = dtype == DType::boolean ? 1 : 0x1p53;
    const double least = dtype == DType::boolean ? 0 : -0x1p53;
    if (!(value >= least && value <= limit) || std::trunc(value) != value) {
      detail::fail<ValueError>(fmt::format("pad: the value {} is no {}; give one that x can hold",
                                           value, name_of(dtype)));
    }
  }
  return static_cast<T>(value);
}

}  // namespace

Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end, CallSite at) {
  const OpCall call(at);
  detail::check_defined("slice", x);
  const int along = x.shape().axis(axis, "slice: axis");
  const std::int64_t size = x.dim(along);
  if (begin < 0 || end < begin || end > size) {
    detail::fail<IndexError>(
        fmt::format("slice: {}..{} (end exclusive) of axis {} of {}, which has size {}; needs 0 <= "
                    "begin <= end <= {}",
                    begin, end, along, to_string(x.shape()), size, size));
  }
  if (begin == 0 && end == size) return x;
  return record("slice", part(x, along, begin, end))
      .input(x, [along, begin, after = size - end](const Tensor& dy) {
        return pad(dy, along, begin, after);
      });
}

std::vector<Tensor> split(const Tensor& x, int axis, std::int64_t parts, CallSite at) {
  const OpCall call(at);
  detail::check_defined("split", x);
  const int along = x.shape().axis(axis, "split: axis");
  const std::int64_t size = x.dim(along);
  constexpr std::int64_t kMostParts = 1 << 20;  // an axis of size 0 has any number of equal parts
  if (parts < 1 || parts > kMostParts) {
    detail::fail<ValueError>(
        fmt::format("split: the number of parts must be 1..{}, got {}", kMostParts, parts));
  }
  if (size % parts != 0) {
    detail::fail<ShapeError>(
        fmt::format("split: axis {} of {} has size {}, which {} equal parts do not divide: {} is "
                    "left over; use slice for unequal parts",
                    along, to_string(x.shape()), size, parts, size % parts));
  }
  std::vector<Tensor> result;
  const std::int64_t each = size / parts;
  for (std::int64_t i = 0; i < parts; ++i)
    result.push_back(slice(x, along, i * each, (i + 1) * each));
  return result;
}

Tensor pad(const Tensor& x, int axis, std::int64_t before, std::int64_t after, double value,
           CallSite at) {
  const OpCall call(at);
  detail::check_defined("pad", x);
  const int along = x.shape().axis(axis, "pad: axis");
  const std::int64_t size = x.dim(along);
  if (before < 0 || after < 0) {
    detail::fail<ValueError>(
        fmt::format("pad: {} before and {} after axis {} of {}: neither can be negative; use slice "
                    "to shorten",
                    before, after, along, to_string(x.shape())));
  }
  constexpr std::int64_t kLimit = std::int64_t{1} << 59;
  if (before > kLimit || after > kLimit || before + after > kLimit - size) {
    detail::fail<ShapeError>(fmt::format("pad: {} before and {} after axis {} of {} are too many",
                                         before, after, along, to_string(x.shape())));
  }
  if (before == 0 && after == 0) return x;
  Tensor y = detail::with_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T number = filling<T>(value, x.dtype());
    Tensor padded = detail::empty(x.shape().with(along, before + size + after), x.dtype());
    const AxisView view = detail::axis_view(padded.shape(), along);
    const T* from = detail::in<T>(x);
    T* to = detail::out<T>(padded);
    const std::int64_t width = view.size * view.inner;
    const std::int64_t left = before * view.inner;
    const std::int64_t middle = size * view.inner;
    detail::parallel_for(view.outer, detail::rows_per_chunk(width),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             T* line = to + i * width;
                             std::fill_n(line, left, number);
                             std::copy_n(from + i * middle, middle, line + left);
                             std::fill_n(line + left + middle, width - left - middle, number);
                           }
                         });
    return padded;
  });
  return record("pad", y).may_give(value).input(x, [along, before, size](const Tensor& dy) {
    return slice(dy, along, before, before + size);
  });
}

namespace detail {

OpEntry slice_entry() {
  return {"slice",
          "shape",
          "y_i = x_(begin + i)",
          "dx = dy with zeros around it",
          true,
          true,
          [](DType dtype) {
            struct Case {
              Shape shape;
              int axis;
              std::int64_t begin;
              std::int64_t end;
            };
            std::vector<OpSample> samples;
            for (const Case& c : std::vector<Case>{{{1}, 0, 0, 1},
                                                   {{3, 5, 17}, 0, 1, 3},
                                                   {{3, 5, 17}, 1, 1, 4},
                                                   {{3, 5, 17}, -1, 16, 17},
                                                   {{3, 5, 17}, 1, 2, 2},
                                                   {{2, 67}, 1, 1, 67},
                                                   {{2, 0, 3}, 2, 1, 2},
                                                   {{2, 1, 3, 1, 1, 2, 1, 2}, 2, 1, 3}}) {
              OpSample sample{
                  fmt::format("{}, axis {}, {}..{}", to_string(c.shape), c.axis, c.begin, c.end),
                  {sample_values(c.shape, dtype, 1)}};
              sample.call = [c](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{slice(x[0], c.axis, c.begin, c.end)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

OpEntry split_entry() {
  return {
      "split",
      "shape",
      "y_p = the p-th of equal parts of x",
      "dx = the dy_p side by side",
      true,
      true,
      [](DType dtype) {
        struct Case {
          Shape shape;
          int axis;
          std::int64_t parts;
        };
        std::vector<OpSample> samples;
        for (const Case& c : std::vector<Case>{{{1}, 0, 1},
                                               {{3, 5, 17}, 0, 3},
                                               {{3, 5, 17}, 1, 5},
                                               {{3, 5, 17}, -1, 1},
                                               {{2, 69}, 1, 3},
                                               {{2, 0, 3}, 1, 2},
                                               {{2, 1, 3, 1, 1, 2, 1, 2}, 2, 3}}) {
          OpSample sample{fmt::format("{}, axis {}, {} parts", to_string(c.shape), c.axis, c.parts),
                          {sample_values(c.shape, dtype, 1)}};
          sample.call = [c](const std::vector<Tensor>& x) { return split(x[0], c.axis, c.parts); };
          samples.push_back(std::move(sample));
        }
        return samples;
      }};
}

OpEntry pad_entry() {
  return {"pad",
          "shape",
          "y = x with copies of a number around it",
          "dx = the part of dy that x takes",
          true,
          true,
          [](DType dtype) {
            struct Case {
              Shape shape;
              int axis;
              std::int64_t before;
              std::int64_t after;
            };
            std::vector<OpSample> samples;
            for (const Case& c : std::vector<Case>{{{1}, 0, 0, 0},
                                                   {{1}, 0, 2, 1},
                                                   {{3, 5, 17}, 0, 1, 0},
                                                   {{3, 5, 17}, 1, 2, 3},
                                                   {{3, 5, 17}, -1, 0, 1},
                                                   {{2, 67}, 1, 1, 1},
                                                   {{2, 0, 3}, 1, 1, 0},
                                                   {{2, 1, 3, 1, 1, 2, 1, 2}, 2, 1, 1}}) {
              OpSample sample{fmt::format("{}, axis {}, {} before, {} after", to_string(c.shape),
                                          c.axis, c.before, c.after),
                              {sample_values(c.shape, dtype, 1)}};
              sample.call = [c](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{pad(x[0], c.axis, c.before, c.after, -0.5)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

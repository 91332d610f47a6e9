// Elements by index along one axis, and the way back.
//   gather:       y[.., j, ..] = x[.., index[.., j, ..], ..]
//                 dx = zeros with dy added at the indices: a scatter_add
//   scatter_add:  y = x with y[.., index[.., j, ..], ..] += source[.., j, ..]
//                 dx = dy,  dsource = dy gathered at the indices
// x is [outer, size, inner] and index [outer, count, inner] around the axis. Lines along the axis
// do not touch one another, so threads share out blocks of lines, and a repeated index adds up in
// the order of j whatever their number.
#include <algorithm>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "ops/axis.hpp"
#include "ops/catalog.hpp"
#include "ops/ids.hpp"

namespace tapehead {
namespace {

using detail::AxisView;

constexpr std::int64_t kBlock = 256;  // neighbouring lines of one work item

// The shape that x and index share but for the axis, checked.
int check(const char* op, const Tensor& x, int axis, const Tensor& index) {
  const int along = x.shape().axis(axis, fmt::format("{}: axis", op));
  detail::check_defined(op, index, "index");
  if (index.rank() != x.rank() || index.shape().with(along, 0) != x.shape().with(along, 0)) {
    detail::fail<ShapeError>(
        fmt::format("{}: index {} beside x {}: ranks and all sizes but that of axis {} must be "
                    "equal; broadcast_to repeats an index",
                    op, to_string(index.shape()), to_string(x.shape()), along));
  }
  detail::check_ids(op, "index", index, x.dim(along),
                    fmt::format("axis {} of x {}", along, to_string(x.shape())));
  return along;
}

// Calls f(element of index, element of x) for each j of each line, lines shared out in blocks.
template <class F>
void for_lines(const Shape& x, const Tensor& index, int axis, F f) {
  const AxisView view = detail::axis_view(index.shape(), axis);
  const std::int64_t size = x[axis];
  const std::int64_t blocks = (view.inner + kBlock - 1) / kBlock;
  const std::int64_t* id = detail::in<std::int64_t>(index);
  detail::parallel_for(view.outer * blocks,
                       detail::rows_per_chunk(view.size * std::min(view.inner, kBlock)),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t item = begin; item < end; ++item) {
                           const std::int64_t outer = item / blocks;
                           const std::int64_t first = item % blocks * kBlock;
                           const std::int64_t last = std::min(view.inner, first + kBlock);
                           for (std::int64_t j = 0; j < view.size; ++j) {
                             const std::int64_t row = (outer * view.size + j) * view.inner;
                             for (std::int64_t i = first; i < last; ++i)
                               f(row + i, (outer * size + id[row + i]) * view.inner + i);
                           }
                         }
                       });
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Tensor& index, CallSite at) {
  const OpCall call(at);
  detail::check_defined("gather", x);
  const int along = check("gather", x, axis, index);
  Tensor y = detail::empty(index.shape(), x.dtype());
  detail::with_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = detail::in<T>(x);
    T* to = detail::out<T>(y);
    for_lines(x.shape(), index, along,
              [&](std::int64_t i, std::int64_t at_x) { to[i] = from[at_x]; });
  });
  return record("gather", y).input(x, [along, index, shape = x.shape()](const Tensor& dy) {
    return scatter_add(zeros(shape, dy.dtype()), along, index, dy);
  });
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source,
                   CallSite at) {
  const OpCall call(at);
  detail::check_floating("scatter_add", x);
  detail::check_floating("scatter_add", source, "source");
  detail::check_same_dtype("scatter_add", x, source);
  const int along = check("scatter_add", x, axis, index);
  detail::check_same_shape("scatter_add", index, source, "index", "source");
  Tensor y = detail::empty_like(x);
  detail::with_float("scatter_add", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = detail::in<T>(source);
    T* to = detail::out<T>(y);
    detail::copy_runs(detail::in<T>(x), x.size(), to, x.size(), 1, x.size());
    for_lines(x.shape(), index, along,
              [&](std::int64_t i, std::int64_t at_y) { to[at_y] += from[i]; });
  });
  return record("scatter_add", y)
      .input(x, [](const Tensor& dy) { return dy; })
      .input(source, [along, index](const Tensor& dy) { return gather(dy, along, index); });
}

namespace detail {
namespace {

struct Case {
  Shape x;
  int axis;
  std::int64_t count;
};

const std::vector<Case>& lookup_cases() {
  static const std::vector<Case> cases{{{1}, 0, 1},        {{3}, 0, 7},
                                       {{3, 5, 17}, 0, 2}, {{3, 5, 17}, 1, 9},
                                       {{3, 5, 17}, 2, 5}, {{2, 67}, 1, 4},
                                       {{2, 67}, 0, 3},    {{3, 4}, 1, 0},
                                       {{2, 0, 3}, 0, 2},  {{2, 1, 3, 1, 1, 2, 1, 2}, 2, 4}};
  return cases;
}

// Some elements twice, some never.
Tensor sample_index(const Case& c) {
  const Shape shape = c.x.with(c.axis, c.count);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < shape.size(); ++i) values.push_back((i * i + 2 * i) % c.x[c.axis]);
  return tensor(std::span<const std::int64_t>(values), shape);
}

std::string case_name(const Case& c) {
  return fmt::format("{}, axis {}, {} indices", to_string(c.x), c.axis, c.count);
}

}  // namespace

OpEntry gather_entry() {
  return {"gather",
          "lookup",
          "y_j = x_(index_j)",
          "dx = dy added at the indices",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            for (const Case& c : lookup_cases()) {
              OpSample sample{case_name(c), {sample_values(c.x, dtype, 1)}};
              sample.call = [axis = c.axis, index = sample_index(c)](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{gather(x[0], axis, index)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

OpEntry scatter_add_entry() {
  return {"scatter_add",
          "lookup",
          "y = x with source_j added at index_j",
          "dx = dy; dsource_j = dy_(index_j)",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            for (const Case& c : lookup_cases()) {
              OpSample sample{case_name(c),
                              {sample_values(c.x, dtype, 1),
                               sample_values(c.x.with(c.axis, c.count), dtype, 2)}};
              sample.call = [axis = c.axis, index = sample_index(c)](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{scatter_add(x[0], axis, index, x[1])};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

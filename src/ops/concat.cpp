// Tensors side by side along one axis.
//   concat:  y = x_0, x_1, .. one after the other on an axis they have;  dx_n = its slice of dy
//   stack:   the same on a new axis, where each has size 1
// Sizes may differ only on the axis itself, where they may be 0.
#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "ops/axis.hpp"
#include "ops/catalog.hpp"

namespace tapehead {
namespace {

void check_list(const char* op, const std::vector<Tensor>& xs) {
  if (xs.empty()) {
    detail::fail<ValueError>(fmt::format("{}: needs at least one tensor, got an empty list", op));
  }
  for (std::size_t i = 0; i < xs.size(); ++i) {
    detail::check_defined(op, xs[i], fmt::format("tensor {}", i));
    if (xs[i].dtype() != xs[0].dtype()) {
      detail::fail<DTypeError>(
          fmt::format("{}: tensors must share a dtype: tensor 0 is {}, tensor {} is {}; convert "
                      "with cast",
                      op, name_of(xs[0].dtype()), i, name_of(xs[i].dtype())));
    }
  }
}

}  // namespace

Tensor concat(const std::vector<Tensor>& xs, int axis, CallSite at) {
  const OpCall call(at);
  check_list("concat", xs);
  const int along = xs[0].shape().axis(axis, "concat: axis");
  std::int64_t total = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const bool fits = xs[i].rank() == xs[0].rank() &&
                      xs[i].shape().with(along, 0) == xs[0].shape().with(along, 0);
    if (!fits) {
      detail::fail<ShapeError>(
          fmt::format("concat: tensor {} {} beside tensor 0 {}: ranks and all sizes but that of "
                      "axis {} must be equal",
                      i, to_string(xs[i].shape()), to_string(xs[0].shape()), along));
    }
    total += xs[i].dim(along);
  }
  if (xs.size() == 1) return xs[0];
  Tensor y = detail::empty(xs[0].shape().with(along, total), xs[0].dtype());
  const detail::AxisView view = detail::axis_view(y.shape(), along);
  detail::with_any(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = detail::out<T>(y);
    for (const Tensor& x : xs) {
      const std::int64_t length = x.dim(along) * view.inner;
      detail::copy_runs(detail::in<T>(x), length, to, view.size * view.inner, view.outer, length);
      to += length;
    }
  });
  Recorder recorder = record("concat", y);
  std::int64_t begin = 0;
  for (const Tensor& x : xs) {
    const std::int64_t end = begin + x.dim(along);
    recorder.input(x,
                   [along, begin, end](const Tensor& dy) { return slice(dy, along, begin, end); });
    begin = end;
  }
  return recorder;
}

Tensor stack(const std::vector<Tensor>& xs, int axis, CallSite at) {
  const OpCall call(at);
  check_list("stack", xs);
  const Shape& shape = xs[0].shape();
  const int rank = shape.rank() + 1;
  if (axis < -rank || axis >= rank) {
    detail::fail<IndexError>(
        fmt::format("stack: the new axis {} is outside {}..{} for tensors of shape {}", axis, -rank,
                    rank - 1, to_string(shape)));
  }
  const int along = axis < 0 ? axis + rank : axis;
  std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  sizes.insert(sizes.begin() + along, 1);
  const Shape widened{std::span<const std::int64_t>(sizes)};
  std::vector<Tensor> items;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].shape() != shape) {
      detail::fail<ShapeError>(
          fmt::format("stack: tensor {} {} beside tensor 0 {}: the shapes must be equal", i,
                      to_string(xs[i].shape()), to_string(shape)));
    }
    items.push_back(reshape(xs[i], widened));
  }
  return concat(items, along);
}

namespace detail {

OpEntry concat_entry() {
  return {"concat",
          "shape",
          "y = x_0, x_1, .. along an axis",
          "dx_n = its slice of dy",
          true,
          true,
          [](DType dtype) {
            struct Case {
              std::vector<Shape> shapes;
              int axis;
            };
            std::vector<OpSample> samples;
            for (const Case& c :
                 std::vector<Case>{{{{1}}, 0},
                                   {{{1}, {2}}, 0},
                                   {{{3, 5, 17}, {3, 2, 17}, {3, 1, 17}}, 1},
                                   {{{3, 5, 17}, {1, 5, 17}}, 0},
                                   {{{2, 67}, {2, 1}}, -1},
                                   {{{2, 0, 3}, {2, 2, 3}}, 1},
                                   {{{0, 3}, {0, 4}}, 1},
                                   {{{2, 1, 3, 1, 1, 2, 1, 2}, {2, 1, 3, 1, 1, 2, 1, 2}}, 2}}) {
              OpSample sample{fmt::format("{} tensors from {}, axis {}", c.shapes.size(),
                                          to_string(c.shapes[0]), c.axis),
                              {}};
              for (std::size_t i = 0; i < c.shapes.size(); ++i)
                sample.inputs.push_back(sample_values(c.shapes[i], dtype, i));
              sample.call = [axis = c.axis](const std::vector<Tensor>& xs) {
                return std::vector<Tensor>{concat(xs, axis)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

OpEntry stack_entry() {
  return {"stack",
          "shape",
          "y = x_0, x_1, .. along a new axis",
          "dx_n = its slice of dy",
          true,
          true,
          [](DType dtype) {
            struct Case {
              Shape shape;
              int axis;
              std::size_t count;
            };
            std::vector<OpSample> samples;
            for (const Case& c : std::vector<Case>{{{}, 0, 3},
                                                   {{1}, -1, 1},
                                                   {{3, 5, 17}, 0, 2},
                                                   {{3, 5, 17}, 2, 3},
                                                   {{2, 67}, -1, 2},
                                                   {{2, 0, 3}, 1, 2},
                                                   {{2, 1, 3, 1, 2, 1, 2}, 4, 2}}) {
              OpSample sample{fmt::format("{} of {}, axis {}", c.count, to_string(c.shape), c.axis),
                              {}};
              for (std::size_t i = 0; i < c.count; ++i)
                sample.inputs.push_back(sample_values(c.shape, dtype, i));
              sample.call = [axis = c.axis](const std::vector<Tensor>& xs) {
                return std::vector<Tensor>{stack(xs, axis)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

// Shape changes that keep the order of the elements.
//   reshape:       y has the same elements;             dx = dy in x's shape
//   broadcast_to:  y repeats x along axes of size 1;    dx = dy summed over the repeated axes
#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

namespace tapehead {

// Shares the buffer: there is nothing to copy.
Tensor reshape(const Tensor& x, const Shape& shape, CallSite at) {
  const OpCall call(at);
  detail::check_defined("reshape", x);
  if (x.shape() == shape) return x;
  if (x.size() != shape.size()) {
    detail::fail<ShapeError>(fmt::format("reshape: {} has {} elements, {} has {}",
                                         to_string(x.shape()), x.size(), to_string(shape),
                                         shape.size()));
  }
  return record("reshape", detail::TensorAccess::view(x, shape))
      .input(x, [s = x.shape()](const Tensor& dy) { return reshape(dy, s); });
}

Tensor broadcast_to(const Tensor& x, const Shape& shape, CallSite at) {
  const OpCall call(at);
  detail::check_defined("broadcast_to", x);
  if (x.shape() == shape) return x;
  // x with sizes of 1 in front, so that the ranks are equal.
  Shape aligned = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int from = axis - (shape.rank() - x.rank());
    const std::int64_t size = from < 0 ? 1 : x.dim(from);
    if (size != 1 && size != shape[axis]) {
      detail::fail<ShapeError>(
          fmt::format("broadcast_to: {} does not stretch to {}: axis {} is {}, not {} or 1",
                      to_string(x.shape()), to_string(shape), axis, size, shape[axis]));
    }
    aligned = aligned.with(axis, size);
  }
  if (x.rank() > shape.rank()) {
    detail::fail<ShapeError>(fmt::format("broadcast_to: {} has more axes than {}",
                                         to_string(x.shape()), to_string(shape)));
  }
  Tensor y = detail::with_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return detail::stretch<T>(detail::TensorAccess::view(x, aligned), shape);
  });
  return record("broadcast_to", y).input(x, [aligned, s = x.shape()](const Tensor& dy) {
    return reshape(detail::sum_to(dy, aligned), s);
  });
}

namespace detail {

OpEntry reshape_entry() {
  return {"reshape",
          "shape",
          "y = x in another shape",
          "dx = dy in x's shape",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            const std::vector<std::pair<Shape, Shape>> cases{{{}, {1, 1}},
                                                             {{3, 5, 17}, {15, 17}},
                                                             {{2, 67}, {134}},
                                                             {{2, 0, 3}, {0, 5}},
                                                             {{12, 2}, {2, 1, 3, 1, 1, 2, 1, 2}}};
            for (const auto& c : cases) {
              OpSample sample{fmt::format("{} to {}", to_string(c.first), to_string(c.second)),
                              {sample_values(c.first, dtype, 1)}};
              sample.call = [to = c.second](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{reshape(x[0], to)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

OpEntry broadcast_to_entry() {
  return {"broadcast_to",
          "shape",
          "y repeats x along new axes and axes of size 1",
          "dx = dy summed over the repeats",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            const std::vector<std::pair<Shape, Shape>> cases{
                {{}, {3, 5}},
                {{1}, {67}},
                {{5, 1}, {3, 5, 17}},
                {{3, 1, 17}, {3, 5, 17}},
                {{1, 3}, {0, 3}},
                {{0}, {2, 0}},
                {{3, 1, 1, 1, 1, 2}, {2, 1, 3, 1, 1, 2, 1, 2}}};
            for (const auto& c : cases) {
              OpSample sample{fmt::format("{} to {}", to_string(c.first), to_string(c.second)),
                              {sample_values(c.first, dtype, 1)}};
              sample.call = [to = c.second](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{broadcast_to(x[0], to)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

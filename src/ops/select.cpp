// Selection by a boolean tensor.
//   where:        y = condition ? a : b      da = condition ? dy : 0    db = condition ? 0 : dy
//   masked_fill:  y = blocked ? value : x    dx = blocked ? 0 : dy
// Values and gradients are copied, never multiplied by 0 or 1: a NaN in the branch that was not
// chosen, or in dy where it was not chosen, does not come through.
#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

namespace tapehead {
namespace {

Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& shape) {
  return detail::with_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return detail::zip3<unsigned char, T, T, T>(
        shape, condition, a, b, [](unsigned char c, T u, T v) { return c != 0 ? u : v; });
  });
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, CallSite at) {
  const OpCall call(at);
  detail::check_boolean("where", condition, "the condition");
  detail::check_same_dtype("where", a, b);
  const Shape shape = detail::broadcast_shape(
      "where", condition.shape(), detail::broadcast_shape("where", a.shape(), b.shape()));
  return record("where", select(condition, a, b, shape))
      .input(a,
             [condition, s = a.shape()](const Tensor& dy) {
               return detail::sum_to(where(condition, dy, zeros({}, dy.dtype())), s);
             })
      .input(b, [condition, s = b.shape()](const Tensor& dy) {
        return detail::sum_to(where(condition, zeros({}, dy.dtype()), dy), s);
      });
}

Tensor masked_fill(const Tensor& x, const Tensor& blocked, double value, CallSite at) {
  const OpCall call(at);
  detail::check_defined("masked_fill", x);
  detail::check_boolean("masked_fill", blocked, "the mask");
  if (detail::broadcast_shape("masked_fill", blocked.shape(), x.shape()) != x.shape()) {
    detail::fail<ShapeError>(fmt::format(
        "masked_fill: the mask {} is larger than x {}: the mask stretches to x, but not x to the "
        "mask; use broadcast_to on x first",
        to_string(blocked.shape()), to_string(x.shape())));
  }
  const Tensor filling = full({}, value, x.dtype());
  return record("masked_fill", select(blocked, filling, x, x.shape()))
      .may_give(value)
      .input(x, [blocked](const Tensor& dy) { return masked_fill(dy, blocked, 0); });
}

namespace detail {
namespace {

// A fixed pattern of true and false.
Tensor pattern(const Shape& shape) {
  return greater(sample_values(shape, DType::f64, 7, -1, 1), 0);
}

}  // namespace

OpEntry where_entry() {
  return {"where",
          "selection",
          "y = condition ? a : b",
          "da = condition ? dy : 0; db = condition ? 0 : dy",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples =
                binary_samples(dtype, [](const Tensor& a, const Tensor& b) {
                  return where(pattern(broadcast_shape("where", a.shape(), b.shape())), a, b);
                });
            OpSample stretched{"condition [1,5] of a [3,1] and a scalar",
                               {sample_values({3, 1}, dtype, 1), sample_values({}, dtype, 2)}};
            stretched.call = [](const std::vector<Tensor>& x) {
              return std::vector<Tensor>{where(pattern({1, 5}), x[0], x[1])};
            };
            samples.push_back(std::move(stretched));
            return samples;
          }};
}

OpEntry masked_fill_entry() {
  return {"masked_fill",
          "selection",
          "y = blocked ? value : x",
          "dx = blocked ? 0 : dy",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples = unary_samples(
                dtype, [](const Tensor& x) { return masked_fill(x, pattern(x.shape()), -1.5); });
            OpSample stretched{"[3,5,17], mask [3,1,17]", {sample_values({3, 5, 17}, dtype, 2)}};
            stretched.call = [](const std::vector<Tensor>& x) {
              return std::vector<Tensor>{masked_fill(x[0], pattern({3, 1, 17}), -1.5)};
            };
            samples.push_back(std::move(stretched));
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

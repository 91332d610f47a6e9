// split_heads and merge_heads: a width seen as heads, each the other's inverse and gradient.
//   split: y[b, h, t, i] = x[b, t, h d + i],   d = D / H;   dx = merge_heads(dy)
//   merge: y[b, t, h d + i] = x[b, h, t, i];                dx = split_heads(dy, H)
#include <algorithm>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"

namespace tapehead {
namespace {

// [B, m, n, d] -> [B, n, m, d]
template <class T>
void exchange(const T* from, T* to, std::int64_t batch, std::int64_t m, std::int64_t n,
              std::int64_t d) {
  detail::parallel_for(batch * n, detail::rows_per_chunk(m * d),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t row = begin; row < end; ++row) {
                           const std::int64_t b = row / n;
                           const T* source = from + (b * m * n + row % n) * d;
                           for (std::int64_t i = 0; i < m; ++i)
                             std::copy_n(source + i * n * d, d, to + (row * m + i) * d);
                         }
                       });
}

Tensor exchanged(const char* op, const Tensor& x, const Shape& result, std::int64_t m,
                 std::int64_t n) {
  return detail::with_float(op, x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor y = detail::empty(result, x.dtype());
    if (y.size() > 0)
      exchange(detail::in<T>(x), detail::out<T>(y), x.dim(0), m, n, x.size() / (x.dim(0) * m * n));
    return y;
  });
}

}  // namespace

Tensor split_heads(const Tensor& x, std::int64_t heads, CallSite at) {
  const OpCall call(at);
  detail::check_floating("split_heads", x);
  if (x.rank() != 3) {
    detail::fail<ShapeError>(
        fmt::format("split_heads: x must be [batch, time, width], got {}", to_string(x.shape())));
  }
  if (heads < 1)
    detail::fail<ValueError>(fmt::format("split_heads: heads must be at least 1, got {}", heads));
  const std::int64_t width = x.dim(2);
  if (width % heads != 0) {
    detail::fail<ShapeError>(
        fmt::format("split_heads: width {} does not divide by {} heads: {} mod {} = {}; choose a "
                    "width that is a multiple of the heads",
                    width, heads, width, heads, width % heads));
  }
  const Shape shape{x.dim(0), heads, x.dim(1), width / heads};
  return record("split_heads", exchanged("split_heads", x, shape, x.dim(1), heads))
      .input(x, [](const Tensor& dy) { return merge_heads(dy); });
}

Tensor merge_heads(const Tensor& x, CallSite at) {
  const OpCall call(at);
  detail::check_floating("merge_heads", x);
  if (x.rank() != 4) {
    detail::fail<ShapeError>(fmt::format(
        "merge_heads: x must be [batch, heads, time, width], got {}", to_string(x.shape())));
  }
  const std::int64_t heads = x.dim(1);
  const Shape shape{x.dim(0), x.dim(2), heads * x.dim(3)};
  return record("merge_heads", exchanged("merge_heads", x, shape, heads, x.dim(2)))
      .input(x, [whole = x.shape()](const Tensor& dy) {
        // No heads at all: nothing to split into.
        return whole[1] == 0 ? zeros(whole, dy.dtype()) : split_heads(dy, whole[1]);
      });
}

namespace detail {
namespace {

std::vector<OpSample> head_samples(DType dtype, bool split) {
  struct Case {
    const char* name;
    std::int64_t batch, heads, time, width;
  };
  static constexpr Case kCases[] = {
      {"one of each", 1, 1, 1, 1},   {"prime sides", 2, 3, 5, 7}, {"one head", 2, 1, 3, 4},
      {"67 positions", 1, 2, 67, 3}, {"no samples", 0, 2, 3, 4},  {"no positions", 2, 2, 0, 4},
      {"width 0", 2, 2, 3, 0},
  };
  std::vector<OpSample> samples;
  for (const Case& c : kCases) {
    const Shape merged{c.batch, c.time, c.heads * c.width};
    const Shape apart{c.batch, c.heads, c.time, c.width};
    OpSample sample{c.name, {sample_values(split ? merged : apart, dtype, 1)}};
    sample.call = [split, heads = c.heads](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{split ? split_heads(x[0], heads) : merge_heads(x[0])};
    };
    sample.composition = [split, c](const std::vector<Tensor>& x) {
      const Tensor y =
          split ? permute(reshape(x[0], {c.batch, c.time, c.heads, c.width}), {0, 2, 1, 3})
                : reshape(permute(x[0], {0, 2, 1, 3}), {c.batch, c.time, c.heads * c.width});
      return std::vector<Tensor>{y};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

OpEntry split_heads_entry() {
  return {"split_heads",
          "attention",
          "y[b,h,t,i] = x[b,t,h d + i]",
          "dx = merge_heads(dy)",
          true,
          true,
          [](DType t) { return head_samples(t, true); }};
}
OpEntry merge_heads_entry() {
  return {"merge_heads",
          "attention",
          "y[b,t,h d + i] = x[b,h,t,i]",
          "dx = split_heads(dy, H)",
          true,
          true,
          [](DType t) { return head_samples(t, false); }};
}

}  // namespace detail
}  // namespace tapehead

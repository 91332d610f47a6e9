// masked_softmax: softmax over the visible keys of scores [batch, heads, queries, keys]
//   y_s  = e^(x_s - m) / sum over visible s' of e^(x_s' - m),  m the largest visible x_s
//   y_s  = 0 where key s is blocked
//   dx_s = y_s (dy_s - sum_s' y_s' dy_s')
// Blocked is a selection: NaN or infinity there reaches neither y nor dx. A row without a visible
// key is 0 throughout, and so is its gradient.
#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"
#include "ops/softmax_row.hpp"

namespace tapehead {
namespace {

template <class T>
Tensor masked_rows(const Tensor& scores, const Mask& mask) {
  Tensor result = detail::empty_like(scores);
  Tensor table;  // working memory: which keys of a row are visible
  const std::int64_t heads = scores.dim(1);
  const std::int64_t queries = scores.dim(2);
  const std::int64_t keys = scores.dim(3);
  if (!mask.is_all()) table = detail::empty(scores.shape(), DType::boolean);
  const T* x = detail::in<T>(scores);
  T* y = detail::out<T>(result);
  detail::parallel_for(
      keys == 0 ? 0 : scores.size() / keys, detail::rows_per_chunk(keys),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          T* line = y + row * keys;
          std::copy_n(x + row * keys, keys, line);
          if (table.defined()) {
            const std::int64_t of_batch = row / queries;
            detail::hide_blocked(
                mask, of_batch / heads, of_batch % heads, row % queries, 0, line,
                {detail::out<unsigned char>(table) + row * keys, static_cast<std::size_t>(keys)});
          }
          detail::softmax_row(line, keys);
        }
      });
  return result;
}

Tensor masked_softmax_gradient(const Tensor& y, const Tensor& dy) {
  const Tensor blocked = equal(y, 0.0);
  const Tensor seen = masked_fill(dy, blocked, 0);
  return masked_fill(y * (seen - sum(y * seen, -1, keep)), blocked, 0);
}

}  // namespace

Tensor masked_softmax(const Tensor& scores, const Mask& mask, CallSite at) {
  const OpCall call(at);
  detail::check_floating("masked_softmax", scores, "scores");
  if (scores.rank() != 4) {
    detail::fail<ShapeError>(
        fmt::format("masked_softmax: scores must be [batch, heads, queries, keys], got {}; reshape "
                    "them, or use softmax without a mask",
                    to_string(scores.shape())));
  }
  mask.check("masked_softmax", scores.dim(0), scores.dim(1), scores.dim(2), scores.dim(3));
  const Mask visible = mask.tabulated(scores.dim(0), scores.dim(1), scores.dim(2), scores.dim(3));
  Tensor y = detail::with_float("masked_softmax", scores.dtype(), [&](auto zero) {
    return masked_rows<decltype(zero)>(scores, visible);
  });
  return record("masked_softmax", y).input(scores, masked_softmax_gradient);
}

namespace detail {
namespace {

std::vector<OpSample> masked_softmax_samples(DType dtype) {
  struct Case {
    const char* name;
    Shape shape;
    Mask mask;
  };
  const Tensor class_1 = tensor(std::vector<bool>{false, true, false, false, false}, {5});
  const std::vector<Case> cases{
      {"one element", {1, 1, 1, 1}, Mask()},
      {"prime sides", {1, 2, 3, 5}, Mask()},
      {"causal", {2, 2, 5, 5}, Mask::causal(5)},
      {"lengths, one of them 0", {3, 2, 3, 5}, Mask::lengths({5, 0, 2}, 5)},
      {"one key blocked", {1, 1, 3, 5}, Mask::block(class_1, "key")},
      {"past a vector width, window", {1, 1, 67, 67}, Mask::window(3, 1)},
      {"no samples", {0, 2, 3, 4}, Mask()},
      {"no queries", {2, 2, 0, 3}, Mask()},
      {"no keys", {2, 2, 3, 0}, Mask::none()},
  };
  std::vector<OpSample> samples;
  for (const Case& c : cases) {
    OpSample sample{c.name, {sample_values(c.shape, dtype, 1)}};
    sample.call = [mask = c.mask](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{masked_softmax(x[0], mask)};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

OpEntry masked_softmax_entry() {
  return {"masked_softmax",
          "normalisation",
          "y_s = e^(x_s - m) / sum over visible s' of e^(x_s' - m); 0 where blocked",
          "dx_s = y_s (dy_s - sum_s' y_s' dy_s')",
          true,
          true,
          masked_softmax_samples};
}

}  // namespace detail
}  // namespace tapehead

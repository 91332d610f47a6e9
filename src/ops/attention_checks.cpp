#include "ops/attention_checks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead::detail {

namespace {

void check_rank(const char* op, const Tensor& x, const char* what, const char* axes) {
  if (x.rank() == 4) return;
  fail<ShapeError>(fmt::format("{}: {} must be [{}], got {}; split_heads makes heads of a width",
                               op, what, axes, to_string(x.shape())));
}

// The number of heads that share a key head.
std::int64_t group_of(const char* op, const Tensor& q, const Tensor& k, bool grouped) {
  const std::int64_t heads = q.dim(1);
  const std::int64_t key_heads = k.dim(1);
  if (heads == key_heads) return 1;
  if (grouped && key_heads > 0 && heads % key_heads == 0) return heads / key_heads;
  if (grouped) {
    fail<ShapeError>(
        fmt::format("{}: {} heads of queries cannot share {} heads of keys: the first "
                    "must be a multiple of the second",
                    op, heads, key_heads));
  }
  fail<ShapeError>(
      fmt::format("{}: the numbers of heads differ: q {}, k {}: {} is not {}; split all three "
                  "alike, or set AttentionOptions::grouped if heads of queries share keys",
                  op, named(q.shape(), {"batch", "heads", "queries", "width"}),
                  named(k.shape(), {"batch", "heads", "keys", "width"}), heads, key_heads));
}

// A term's shape, where an axis may also be 1 if its size is given as negative.
void check_term(const char* op, const char* what, const Tensor& q, const Tensor& term,
                const std::vector<std::int64_t>& sizes, const char* advice) {
  if (!term.defined()) return;
  check_same_dtype(op, q, term);
  bool fits = term.rank() == static_cast<int>(sizes.size());
  for (std::size_t axis = 0; fits && axis < sizes.size(); ++axis) {
    const std::int64_t size = term.dim(static_cast<int>(axis));
    fits = sizes[axis] < 0 ? size == 1 || size == ~sizes[axis] : size == sizes[axis];
  }
  if (fits) return;
  std::string wanted;
  for (const std::int64_t size : sizes) {
    wanted += fmt::format("{}{}{}", wanted.empty() ? "" : ", ", size < 0 ? "1 or " : "",
                          size < 0 ? ~size : size);
  }
  fail<ShapeError>(fmt::format("{}: {} is {}, but must be [{}]: {}", op, what,
                               to_string(term.shape()), wanted, advice));
}

void check_terms(const char* op, const Tensor& q, const AttentionSizes& n,
                 const AttentionOptions& options) {
  const std::int64_t any_batch = ~n.batch;  // negative: 1 will do
  const std::int64_t any_head = ~n.heads;
  check_term(op, "bias", q, options.bias, {any_batch, any_head, n.queries, n.keys},
             "batch, heads, queries, keys");
  check_term(op, "relative_bias", q, options.relative_bias,
             {any_head, std::max<std::int64_t>(0, n.queries + n.keys - 1)},
             "heads, and a number for each distance of a key from a query");
  check_term(op, "sinks", q, options.sinks, {n.heads}, "a score for each head");
  if (!(options.soft_cap >= 0 && std::isfinite(options.soft_cap))) {
    fail<ValueError>(fmt::format("{}: soft_cap must be finite and at least 0 (no cap), got {}", op,
                                 options.soft_cap));
  }
}

}  // namespace

AttentionSizes checked_sizes(const char* op, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Mask& mask, const AttentionOptions& options) {
  check_floating(op, q, "q");
  check_floating(op, k, "k");
  check_floating(op, v, "v");
  check_same_dtype(op, q, k);
  check_same_dtype(op, k, v);
  check_rank(op, q, "q", "batch, heads, queries, width");
  check_rank(op, k, "k", "batch, heads, keys, width");
  check_rank(op, v, "v", "batch, heads, keys, value width");
  AttentionSizes sizes{q.dim(0), q.dim(1), q.dim(2), k.dim(2), q.dim(3), v.dim(3)};
  const auto equal = [&](const char* what, std::int64_t a, std::int64_t b, const char* advice) {
    if (a == b) return;
    fail<ShapeError>(fmt::format("{}: {}: q {}, k {}, v {}: {} is not {}; {}", op, what,
                                 named(q.shape(), {"batch", "heads", "queries", "width"}),
                                 named(k.shape(), {"batch", "heads", "keys", "width"}),
                                 named(v.shape(), {"batch", "heads", "keys", "value width"}), a, b,
                                 advice));
  };
  equal("the number of keys differs from the number of values", k.dim(2), v.dim(2),
        "each key needs a value");
  equal("queries and keys differ in width", q.dim(3), k.dim(3), "project both to one head width");
  for (const Tensor& other : {k, v}) {
    equal("the batches differ", q.dim(0), other.dim(0), "give all three the same samples");
  }
  equal("the numbers of heads of keys and values differ", k.dim(1), v.dim(1), "split both alike");
  sizes.group = group_of(op, q, k, options.grouped);
  for (const std::int64_t size : {sizes.queries, sizes.keys, sizes.width, sizes.value_width}) {
    if (size > std::numeric_limits<std::int32_t>::max())
      fail<ShapeError>(fmt::format("{}: size {} does not fit BLAS's 32-bit integers", op, size));
  }
  if (options.scale && !std::isfinite(*options.scale))
    fail<ValueError>(fmt::format("{}: scale must be finite, got {}", op, *options.scale));
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    fail<ValueError>(
        fmt::format("{}: dropout is a probability in 0..1, got {}", op, options.dropout));
  }
  check_terms(op, q, sizes, options);
  mask.check(op, sizes.batch, sizes.heads, sizes.queries, sizes.keys);
  return sizes;
}

}  // namespace tapehead::detail

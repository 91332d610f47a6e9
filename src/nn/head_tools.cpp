// Caches of keys and values, and the replacing of heads.
#include <fmt/format.h>

#include <tapehead/models.hpp>

#include "core/access.hpp"
#include "core/message.hpp"

namespace tapehead {

using detail::fail;

void KeyValueCache::truncate(std::int64_t wanted) {
  if (wanted < 0 || wanted > length()) {
    fail<ValueError>(
        fmt::format("KeyValueCache: cannot keep {} of {} positions", wanted, length()));
  }
  if (wanted == length()) return;
  keys = slice(keys, 2, 0, wanted);
  values = slice(values, 2, 0, wanted);
}

void DecodingCache::truncate(std::int64_t wanted) {
  for (LayerCache& layer : layers) layer.own.truncate(wanted);
}

namespace {

void check_heads(const char* op, const Tensor& x, std::int64_t head) {
  detail::check_floating(op, x);
  if (x.rank() != 4) {
    fail<ShapeError>(
        fmt::format("{}: x must be [batch, heads, time, width], got {}", op, to_string(x.shape())));
  }
  if (head < 0 || head >= x.dim(1))
    fail<IndexError>(fmt::format("{}: head {} is outside 0..{}", op, head, x.dim(1) - 1));
}

}  // namespace

Tensor without_heads(const Tensor& x, const std::vector<std::int64_t>& heads, CallSite at) {
  const OpCall call(at);
  for (const std::int64_t head : heads) check_heads("without_heads", x, head);
  if (heads.empty()) return x;
  Tensor gone = zeros({1, x.dim(1), 1, 1}, DType::boolean);
  for (const std::int64_t head : heads) detail::out<unsigned char>(gone)[head] = 1;
  return masked_fill(x, gone, 0);
}

Tensor with_head(const Tensor& x, std::int64_t head, const Tensor& y, CallSite at) {
  const OpCall call(at);
  check_heads("with_head", x, head);
  detail::check_same_dtype("with_head", x, y);
  if (y.shape() != x.shape().with(1, 1)) {
    fail<ShapeError>(fmt::format("with_head: y is {}, but must be one head of x {}, {}",
                                 to_string(y.shape()), to_string(x.shape()),
                                 to_string(x.shape().with(1, 1))));
  }
  return concat({slice(x, 1, 0, head), y, slice(x, 1, head + 1, x.dim(1))}, 1);
}

}  // namespace tapehead

#include "nn/unseen_keys.hpp"

#include <atomic>
#include <cmath>
#include <limits>

#include <tapehead/ops.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"

namespace tapehead::detail {
namespace {

template <class T>
bool finite(const T* x, std::int64_t count) {
  int bad = 0;
  for (std::int64_t i = 0; i < count; ++i)
    bad |= std::abs(x[i]) <= std::numeric_limits<T>::max() ? 0 : 1;
  return bad == 0;
}

template <class T>
bool all_finite(const T* x, std::int64_t count) {
  std::atomic<bool> fine{true};
  parallel_for(count, kElementChunk, [&](std::int64_t begin, std::int64_t end) {
    if (!finite(x + begin, end - begin)) fine.store(false, std::memory_order_relaxed);
  });
  return fine.load();
}

bool seen(const Mask& mask, std::int64_t batch, std::int64_t heads, std::int64_t queries,
          std::int64_t key) {
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t query = 0; query < queries; ++query) {
      if (mask.sees(batch, head, query, key)) return true;
    }
  }
  return false;
}

}  // namespace

Tensor without_unseen(const Tensor& x, const Mask& mask, std::int64_t heads, std::int64_t queries) {
  if (mask.is_all() || x.size() == 0) return x;
  return with_float("attention", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* values = in<T>(x);
    if (all_finite(values, x.size())) return x;
    const std::int64_t keys = x.dim(1);
    const std::int64_t width = x.dim(2);
    Tensor unseen = empty({x.dim(0), keys, 1}, DType::boolean);
    auto* flags = out<unsigned char>(unseen);
    for (std::int64_t row = 0; row < x.dim(0) * keys; ++row) {
      const bool spare = !finite(values + row * width, width) &&
                         !seen(mask, row / keys, heads, queries, row % keys);
      flags[row] = spare ? 1 : 0;
    }
    return masked_fill(x, unseen, 0);
  });
}

}  // namespace tapehead::detail

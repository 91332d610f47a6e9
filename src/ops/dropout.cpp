// dropout: zero with probability p, and what is kept grows by 1 / (1 - p), so that the mean stays.
//   y_i  = kept_i ? x_i / (1 - p) : 0,    kept_i = (u_i >= p),  u_i draw number i of the stream
//   dx_i = kept_i ? dy_i / (1 - p) : 0
// By selection: a NaN that is dropped is gone, in both directions. p = 0 is the identity and draws
// nothing; p = 1 is 0 throughout.
// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, "Dropout" (JMLR 2014).
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"

namespace tapehead {
namespace {

// A draw costs about ten times an ordinary element.
constexpr std::int64_t kDrawChunk = detail::kElementChunk / 8;

// u >= p for u = (bits >> 11) 2^-53, compared as integers: exact, as p 2^53 has no fraction or is
// rounded up.
Tensor draw_kept(const Shape& shape, double p, const Rng& rng) {
  Tensor kept = detail::empty(shape, DType::boolean);
  auto* to = detail::out<unsigned char>(kept);
  const auto first_kept = static_cast<std::uint64_t>(std::ceil(p * 0x1p53));
  detail::parallel_for(kept.size(), kDrawChunk, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::uint64_t, 256> bits;
    while (begin < end) {
      const std::int64_t n = std::min<std::int64_t>(bits.size(), end - begin);
      rng.bits_at(static_cast<std::uint64_t>(begin), {bits.data(), static_cast<std::size_t>(n)});
      unsigned char* line = to + begin;
      for (std::int64_t i = 0; i < n; ++i) {
        line[i] = bits[static_cast<std::size_t>(i)] >> 11 >= first_kept ? 1 : 0;
      }
      begin += n;
    }
  });
  return kept;
}

// Linear and its own adjoint, so it is its own gradient of every order.
Tensor keep_scaled(const Tensor& x, const Tensor& kept, double factor) {
  Tensor y = detail::with_float("dropout", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor result = detail::empty_like(x);
    const T* from = detail::in<T>(x);
    const auto* keeps = detail::in<unsigned char>(kept);
    T* to = detail::out<T>(result);
    const auto by = static_cast<T>(factor);
    detail::parallel_for(x.size(), detail::kElementChunk,
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             const T scaled = from[i] * by;
                             to[i] = keeps[i] != 0 ? scaled : T{0};
                           }
                         });
    return result;
  });
  return record("dropout", y).input(x, [kept, factor](const Tensor& dy) {
    return keep_scaled(dy, kept, factor);
  });
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Rng& rng, CallSite at) {
  const OpCall call(at);
  detail::check_floating("dropout", x);
  if (!(p >= 0 && p <= 1)) {
    detail::fail<ValueError>(
        fmt::format("dropout: p is the probability of a zero and must be in 0..1, got {}", p));
  }
  if (p == 0) return x;
  Tensor y = keep_scaled(x, draw_kept(x.shape(), p, rng), 1 / (1 - p));
  rng.skip(static_cast<std::uint64_t>(x.size()));
  return y;
}

namespace detail {

OpEntry dropout_entry() {
  return {"dropout",
          "normalisation",
          "y_i = kept_i ? x_i / (1 - p) : 0",
          "dx_i = kept_i ? dy_i / (1 - p) : 0",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            for (const double p : {0.0, 0.3, 1.0}) {
              for (const Shape& shape : awkward_shapes()) {
                OpSample sample{fmt::format("{}, p {}", to_string(shape), p),
                                {sample_values(shape, dtype, 1)}};
                sample.call = [p](const std::vector<Tensor>& x) {
                  Rng rng(7, Stream::dropout);
                  return std::vector<Tensor>{dropout(x[0], p, rng)};
                };
                samples.push_back(std::move(sample));
              }
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

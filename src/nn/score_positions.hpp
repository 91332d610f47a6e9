// What attention adds to its scores, or does to its queries, by position.
#pragma once

#include <cstdint>

#include <tapehead/nn.hpp>

namespace tapehead::detail {

// Queries stand at positions first, first + 1, .. and keys at 0, 1, ..
struct ScorePlaces {
  std::int64_t heads = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t first = 0;
};

// Rows of the table of trained numbers [rows, heads]; 0 for the variants without one.
[[nodiscard]] std::int64_t relative_rows(const AttentionVariant& variant);
// AttentionOptions::relative_bias [H, T+S-1] of these positions; undefined for those without.
[[nodiscard]] Tensor relative_bias(const AttentionVariant& variant, const Param& table,
                                   const ScorePlaces& places, DType dtype);
// q [B,H,T,d] times ln n / ln n0, n the keys that each query sees.
[[nodiscard]] Tensor by_log_length(const Tensor& q, const Mask& mask, std::int64_t keys, double n0);

// T5's bucket of the distance key - query: the nearer half of the buckets hold one distance each,
// the others ranges that grow like a power up to max_distance.
[[nodiscard]] std::int64_t t5_bucket(std::int64_t distance, std::int64_t buckets,
                                     std::int64_t max_distance, bool both_ways);
// Slope of head h of H, 0 <= h < H.
[[nodiscard]] double alibi_slope(std::int64_t head, std::int64_t heads);

}  // namespace tapehead::detail

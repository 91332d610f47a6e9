// Positions as numbers added to scores, for the distance r = key - query:
//   alibi:    -slope_h |r|, slope_h = 2^(-8 h / H) for h = 1..H when H is a power of two; else the
//             slopes of the largest power of two below, then every other one of twice as many
//   t5:       table[bucket(r), h]
//   relative: table[clamp(r, -m, m) + m, h]
// and the sharpness of long sequences as a factor of the queries, ln n / ln n0.
// Press et al. 2022 (ALiBi); Raffel et al. 2020 (T5); after Shaw et al. 2018; Chiang & Cholak 2022.
#include "nn/score_positions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/access.hpp"

namespace tapehead::detail {

using std::int64_t;

int64_t t5_bucket(int64_t distance, int64_t buckets, int64_t max_distance, bool both_ways) {
  int64_t bucket = 0;
  int64_t n = -distance;  // how far back
  if (both_ways) {
    buckets /= 2;
    if (n < 0) bucket = buckets;
    n = std::abs(n);
  }
  n = std::max<int64_t>(n, 0);
  const int64_t exact = buckets / 2;
  if (n < exact) return bucket + n;
  const double share = std::log(static_cast<double>(n) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  // A distance at which a range begins must not fall below it by a rounding.
  const auto further = static_cast<int64_t>(share * static_cast<double>(buckets - exact) + 1e-9);
  return bucket + std::min(buckets - 1, exact + further);
}

double alibi_slope(int64_t head, int64_t heads) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const double number = head < power ? static_cast<double>(head + 1)
                                     : static_cast<double>(2 * (head - power) + 1) / 2;
  return std::exp2(-8 * number / static_cast<double>(power));
}

int64_t relative_rows(const AttentionVariant& variant) {
  if (variant.positions == Positions::t5) return variant.t5_buckets;
  if (variant.positions == Positions::relative) return 2 * variant.max_distance + 1;
  return 0;
}

Tensor relative_bias(const AttentionVariant& variant, const Param& table, const ScorePlaces& places,
                     DType dtype) {
  const int64_t count = std::max<int64_t>(0, places.queries + places.keys - 1);
  const auto distance = [&](int64_t i) { return i - (places.queries - 1) - places.first; };
  if (variant.positions == Positions::alibi) {
    std::vector<double> bias;
    for (int64_t h = 0; h < places.heads; ++h) {
      const double slope = alibi_slope(h, places.heads);
      for (int64_t i = 0; i < count; ++i)
        bias.push_back(-slope * std::abs(static_cast<double>(distance(i))));
    }
    return cast(tensor(std::span<const double>(bias), {places.heads, count}), dtype);
  }
  if (!table.defined()) return {};
  const int64_t most = variant.max_distance;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(variant.positions == Positions::t5
                       ? t5_bucket(distance(i), variant.t5_buckets, most, variant.t5_both_ways)
                       : std::clamp(distance(i), -most, most) + most);
  }
  const Tensor ids = tensor(std::span<const int64_t>(rows), {count});
  return transpose(embedding(table, ids), 0, 1);  // [H, T+S-1]
}

Tensor by_log_length(const Tensor& q, const Mask& mask, int64_t keys, double n0) {
  // One visible key has all the weight, whatever its score.
  const auto factor = [&](int64_t n) {
    return n < 2 ? 0.0 : std::log(static_cast<double>(n)) / std::log(n0);
  };
  if (mask.is_all()) return scale(q, factor(keys));
  const Shape shape{mask.per_batch() ? q.dim(0) : 1, mask.per_head() ? q.dim(1) : 1, q.dim(2), 1};
  std::vector<double> factors;
  std::vector<unsigned char> visible(static_cast<std::size_t>(keys));
  for (int64_t i = 0; i < shape.size(); ++i) {
    mask.row(i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2], visible);
    factors.push_back(factor(std::count(visible.begin(), visible.end(), 1)));
  }
  return q * cast(tensor(std::span<const double>(factors), shape), q.dtype());
}

}  // namespace tapehead::detail

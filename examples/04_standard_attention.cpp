// The standard multi-head attention, written out of plain ops as its article writes it, beside the
// module.
//
//   MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O,   head_i = Attention(Q W_i^Q, K W_i^K, V
//   W_i^V) Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V
#include <cmath>
#include <cstdio>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

// The module's weights, used line by line. `mask` holds numbers: 0 blocks, as in the article.
th::MultiHeadResult by_hand(const th::MultiHeadAttention& m, const Tensor& query, const Tensor& key,
                            const Tensor& value, const Tensor& mask) {
  const std::int64_t B = query.dim(0), T = query.dim(1), S = key.dim(1), D = query.dim(2);
  const std::int64_t H = m.heads, d = D / H;

  // Linear maps, then split into heads: [B,T,D] -> [B,T,H,d] -> [B,H,T,d].
  const auto heads = [&](const th::Linear& map, const Tensor& x, std::int64_t length) {
    const Tensor projected = th::linear(x, map.weight, map.bias);
    return th::permute(th::reshape(projected, {B, length, H, d}), {0, 2, 1, 3});
  };
  const Tensor q = heads(m.query, query, T);  // [B,H,T,d]
  const Tensor k = heads(m.key, key, S);      // [B,H,S,d]
  const Tensor v = heads(m.value, value, S);  // [B,H,S,d]

  Tensor scores = th::matmul(q, th::transpose(k)) / std::sqrt(static_cast<double>(d));  // [B,H,T,S]
  scores = th::masked_fill(scores, th::equal(mask, 0), -1e9);
  const Tensor weights = th::softmax(scores, -1);
  const Tensor mixed = th::matmul(weights, v);  // [B,H,T,d]

  // Heads side by side again, then W_O.
  const Tensor joined = th::reshape(th::permute(mixed, {0, 2, 1, 3}), {B, T, D});
  return {th::linear(joined, m.output.weight, m.output.bias), weights};
}

int main() {
  th::Params params(/*seed=*/1, th::DType::f64);
  const th::MultiHeadAttention attention(params / "attention", {.width = 12, .heads = 3});

  th::Rng rng(/*seed=*/2);
  const Tensor query = th::randn({2, 3, 12}, rng, th::DType::f64);  // 3 queries
  const Tensor key = th::randn({2, 5, 12}, rng, th::DType::f64);    // 5 keys and values
  const Tensor value = th::randn({2, 5, 12}, rng, th::DType::f64);

  // Sample 1 has three real keys. Numbers for the article's way, a Mask for ours.
  const Tensor numbers =
      th::reshape(th::tensor({{1, 1, 1, 1, 1}, {1, 1, 1, 0, 0}}, th::DType::f64), {2, 1, 1, 5});
  const th::MultiHeadResult theirs = by_hand(attention, query, key, value, numbers);
  const th::MultiHeadResult ours =
      attention.with_weights(query, key, value, th::Mask::lengths({5, 3}, 5));
  std::printf("outputs equal to 1e-12: %s\n",
              th::compare(theirs.output, ours.output, {.absolute = 1e-12}) ? "yes" : "no");
  std::printf("weights equal to 1e-12: %s\n",
              th::compare(theirs.weights, ours.weights, {.absolute = 1e-12}) ? "yes" : "no");
  std::printf("a blocked weight: theirs %g, ours %g\n", theirs.weights.at({1, 0, 0, 4}),
              ours.weights.at({1, 0, 0, 4}));

  // A query that may see nothing: -1e9 everywhere is the same as 0 everywhere, so the article's
  // softmax is uniform and mixes values that were meant to be hidden. Ours gives nothing: weights
  // and mixture are 0.
  const th::MultiHeadResult all =
      by_hand(attention, query, key, value, th::zeros({2, 1, 1, 5}, th::DType::f64));
  const th::MultiHeadResult none = attention.with_weights(query, key, value, th::Mask::none());
  std::printf("fully blocked row: theirs %g, ours %g\n", all.weights.at({0, 0, 0, 0}),
              none.weights.at({0, 0, 0, 0}));
}

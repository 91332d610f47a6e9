// The head-wise attention: one projection per role shared by all heads, written with einsum as its
// article writes it, beside the module.
//
// As printed, the article's projections map d = D / H columns to D, so the einsum over heads that
// follows only fits one head. They map d -> d here: each head's slice stays a slice.
#include <cmath>
#include <cstdio>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

// `mask` holds numbers: 0 blocks. Arguments in the article's order.
th::MultiHeadResult by_hand(const th::HeadwiseAttention& m, Tensor values, Tensor keys,
                            const Tensor& query, const Tensor& mask) {
  const std::int64_t N = query.dim(0), D = query.dim(2), H = m.heads, d = D / H;

  // Split the width into heads and send every head through the same small projection, without bias.
  values = th::linear(th::reshape(values, {N, values.dim(1), H, d}), m.values.weight);  // [N,S,H,d]
  keys = th::linear(th::reshape(keys, {N, keys.dim(1), H, d}), m.keys.weight);          // [N,S,H,d]
  const Tensor queries = th::linear(th::reshape(query, {N, query.dim(1), H, d}), m.queries.weight);

  Tensor energy = th::einsum("nqhd,nkhd->nhqk", queries, keys) / std::sqrt(static_cast<double>(d));
  energy = th::masked_fill(energy, th::equal(mask, 0), -1e20);
  const Tensor weights = th::softmax(energy, 3);  // [N,H,T,S]

  const Tensor mixed =
      th::reshape(th::einsum("nhql,nlhd->nqhd", weights, values), {N, query.dim(1), D});
  return {th::linear(mixed, m.fc_out.weight, m.fc_out.bias), weights};
}

int main() {
  th::Params params(/*seed=*/1, th::DType::f64);
  const th::HeadwiseAttention attention(params / "attention", {.width = 12, .heads = 3});

  th::Rng rng(/*seed=*/2);
  const Tensor values = th::randn({2, 5, 12}, rng, th::DType::f64);
  const Tensor keys = th::randn({2, 5, 12}, rng, th::DType::f64);
  const Tensor query = th::randn({2, 3, 12}, rng, th::DType::f64);

  const Tensor numbers =
      th::reshape(th::tensor({{1, 1, 1, 1, 1}, {1, 1, 1, 0, 0}}, th::DType::f64), {2, 1, 1, 5});
  const th::MultiHeadResult theirs = by_hand(attention, values, keys, query, numbers);
  const th::MultiHeadResult ours =
      attention.with_weights(values, keys, query, th::Mask::lengths({5, 3}, 5));
  std::printf("outputs equal to 1e-12: %s\n",
              th::compare(theirs.output, ours.output, {.absolute = 1e-12}) ? "yes" : "no");
  std::printf("weights equal to 1e-12: %s\n",
              th::compare(theirs.weights, ours.weights, {.absolute = 1e-12}) ? "yes" : "no");

  const th::MultiHeadResult all =
      by_hand(attention, values, keys, query, th::zeros({2, 1, 1, 5}, th::DType::f64));
  const th::MultiHeadResult none = attention.with_weights(values, keys, query, th::Mask::none());
  std::printf("fully blocked row: theirs %g, ours %g\n", all.weights.at({0, 0, 0, 0}),
              none.weights.at({0, 0, 0, 0}));

  // The width must divide by the heads.
  try {
    th::Params other;
    const th::HeadwiseAttention wrong(other, {.width = 128, .heads = 3});
  } catch (const th::Error& error) {
    std::printf("%s\n", error.what());
  }
}

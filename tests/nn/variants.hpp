// The variants of attention that every test of them goes through.
#pragma once

#include <string>
#include <vector>

#include <tapehead/nn.hpp>

namespace variants {

struct Named {
  std::string name;
  tapehead::AttentionVariant variant;
};

inline std::vector<Named> all() {
  using namespace tapehead;
  std::vector<Named> list{
      {"plain", {}},
      {"multi-query", {.kv_heads = 1}},
      {"grouped queries", {.kv_heads = 2}},
      {"widths of its own", {.head_width = 6, .value_width = 5}},
      {"rope", {.positions = Positions::rope}},
      {"rope, partial, halves, base 100",
       {.head_width = 6,
        .positions = Positions::rope,
        .rope_base = 100,
        .rope_dims = 4,
        .rope_halves = true}},
      {"alibi", {.positions = Positions::alibi}},
      {"t5", {.positions = Positions::t5, .t5_buckets = 8, .max_distance = 20}},
      {"relative", {.positions = Positions::relative, .max_distance = 3}},
      {"window", {.window = 3}},
      {"qk norm, rms", {.qk_norm = NormKind::rms}},
      {"qk norm, layer", {.qk_norm = NormKind::layer, .qk_norm_eps = 0.25}},
      {"own scale", {.scale = 0.9}},
      {"log length", {.log_length = 4}},
      {"soft cap", {.soft_cap = 0.5}},
      {"softmax plus one", {.sinks = Sinks::zero}},
      {"sinks", {.sinks = Sinks::trained}},
  };
  AttentionVariant most{.kv_heads = 2, .value_width = 3, .positions = Positions::rope};
  most.window = 5;
  most.qk_norm = NormKind::rms;
  most.log_length = 3;
  most.soft_cap = 2;
  most.sinks = Sinks::trained;
  list.push_back({"most at once", most});
  return list;
}

// Gives every parameter a value away from its special first one.
inline void perturb(tapehead::Params& params, std::uint64_t seed = 5) {
  using namespace tapehead;
  Rng rng(seed, Stream::check);
  for (Param p : params.all()) {
    const Tensor noise = randn(p.shape(), rng, p.dtype());
    p.set(p.value() + 0.3 * noise);
  }
}

inline tapehead::Tensor ids(std::int64_t symbols, std::int64_t batch, std::int64_t length,
                            std::uint64_t seed) {
  tapehead::Rng rng(seed, tapehead::Stream::check);
  std::vector<std::int64_t> list(static_cast<std::size_t>(batch * length));
  for (std::int64_t& id : list) id = rng.below(symbols);
  return tapehead::tensor(std::span<const std::int64_t>(list), {batch, length});
}

}  // namespace variants

// What can be different about attention: options shared by MultiHeadAttention and every model made
// of it, what a single call may be given, and the pieces for looking inside.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <tapehead/mask.hpp>
#include <tapehead/ops.hpp>

namespace tapehead {

enum class NormKind { layer, rms, none };

// Where a model knows positions from. Sinusoidal and learned ones are added to its input; the rest
// belongs to the attention and acts on queries and keys, or on scores.
enum class Positions {
  none,
  sinusoidal,
  learned,
  rope,      // queries and keys turn with their position: see rotate().  Su et al. 2021
  alibi,     // scores get -slope_h |distance|, slopes 2^(-8 h / H), h = 1..H.  Press et al. 2022
  t5,        // a trained number for each head and range of distances.  Raffel et al. 2020
  relative,  // a trained number for each head and distance up to max_distance, the last one serving
             // what is further away; after Shaw et al. 2018
};

// A score that has no key and no value takes its share of each query's weights.
enum class Sinks {
  none,
  zero,     // the score 0: "softmax plus one".  Miller 2023
  trained,  // a score for each head, 0 at first.  Xiao et al. 2023
};

// The defaults are the attention of Vaswani et al. 2017. ValueError for what makes no sense.
struct AttentionVariant {
  // Heads of keys and values, each shared by heads / kv_heads heads of queries (1: multi-query); 0:
  // as many as heads.  Shazeer 2019; Ainslie et al. 2023
  std::int64_t kv_heads = 0;
  std::int64_t head_width = 0;   // d, of queries and keys; 0: width / heads
  std::int64_t value_width = 0;  // e, of a head's values; 0: as head_width
  Positions positions = Positions::none;
  double rope_base = 10000;
  std::optional<std::int64_t> rope_dims = std::nullopt;  // columns of a head that turn; all
  bool rope_halves = false;                              // pairs i, i + n/2: see RotateOptions
  std::int64_t t5_buckets = 32;
  bool t5_both_ways = true;         // half of the buckets for keys after the query
  std::int64_t max_distance = 128;  // of t5 and relative
  // A query sees keys less than so many positions away (itself with 1); 0: all that the mask shows.
  std::int64_t window = 0;
  NormKind qk_norm = NormKind::none;  // of each head's queries and keys, before they turn
  double qk_norm_eps = 1e-5;
  std::optional<double> scale = std::nullopt;  // of the scores; 1/sqrt(d) when not given
  // n0 > 1: scores times ln n / ln n0 where a query sees n keys, so that attention is as sharp over
  // long sequences as over n0; 0: off.  Chiang & Cholak 2022
  double log_length = 0;
  double soft_cap = 0;  // see AttentionOptions
  Sinks sinks = Sinks::none;
  ScoreModifier modifier = nullptr;  // see AttentionOptions
};

// Which weights a call returns, always those before dropout.
enum class Weights {
  none,
  averaged,  // over the heads: [B,T,S]
  per_head,  // [B,H,T,S]
};

// Keys and values of the positions so far, for decoding step by step. Off the tape: no gradient
// flows into earlier steps.
struct KeyValueCache {
  Tensor keys;    // [B,G,S,d], normalised and turned; undefined at first
  Tensor values;  // [B,G,S,e]

  [[nodiscard]] std::int64_t length() const { return keys.defined() ? keys.dim(2) : 0; }
  void truncate(std::int64_t length);  // forgets later positions; ValueError when there are fewer
};

// Replaces what attention computes by something else, for those who ask what a head is for:
// ablation, or patching in what another input gave. An empty function replaces nothing; a shape may
// not change.
struct AttentionPatch {
  std::function<Tensor(const Tensor& weights)> weights = nullptr;  // [B,H,T,S], before dropout
  std::function<Tensor(const Tensor& heads)> heads = nullptr;      // [B,H,T,e], before W_O
};
// x [B,H,T,n] with zeros in place of these heads.
[[nodiscard]] Tensor without_heads(const Tensor& x, const std::vector<std::int64_t>& heads,
                                   CallSite at = {});
// x [B,H,T,n] with y [B,1,T,n] in place of one head.
[[nodiscard]] Tensor with_head(const Tensor& x, std::int64_t head, const Tensor& y,
                               CallSite at = {});

// What one call of attention is given beside its inputs.
struct AttentionRun {
  Mask mask = {};
  Rng* rng = nullptr;  // nullptr: no dropout
  Tensor bias = {};    // added to the scores: [B or 1, H or 1, T, S]
  Weights weights = Weights::none;
  AttentionPatch patch = {};
  // Keys and values go behind those of earlier calls, and the queries stand where theirs end. The
  // mask is for all of them: queries T, keys length + S. Undefined keys: nothing new is added.
  KeyValueCache* cache = nullptr;
};

struct MultiHeadResult {
  Tensor output;   // [B,T,D]
  Tensor weights;  // as asked
};

}  // namespace tapehead

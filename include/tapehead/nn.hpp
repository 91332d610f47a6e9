// Modules: plain copyable structs. The constructor names the weights, the call is a const function.
// A constructor refuses options without a meaning (ValueError) before it registers anything; calls
// throw what their ops throw, naming the module.
//
// Sequences are [batch B, time T, width D] everywhere; weights are [in, out]. A module that drops
// activations takes its random stream as an argument: nullptr (the default) means no dropout, so
// evaluation is what you get when you ask for nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tapehead/attention.hpp>
#include <tapehead/mask.hpp>
#include <tapehead/ops.hpp>
#include <tapehead/params.hpp>
#include <tapehead/tape.hpp>

namespace tapehead {

// The defaults are those of PyTorch's nn.Linear: weight and bias from U(-a, a), a = 1 / sqrt(in).
// The projections of the attention modules start from Xavier-uniform weights and zero biases.
struct LinearOptions {
  bool bias = true;
  Init weight_init = init::fan_in_uniform();
  Init bias_init = nullptr;  // nullptr: U(-a, a) as above
};

// y = x W + b: [.., in] -> [.., out].  weight [in, out], bias [out].
struct Linear {
  Linear(const Scope& scope, std::int64_t in, std::int64_t out, const LinearOptions& options = {});
  [[nodiscard]] Tensor operator()(const Tensor& x, CallSite at = {}) const;

  Param weight;
  Param bias;  // undefined without bias
  const char* path;
};

// ids [..] -> rows of the table [.., width].  weight [vocabulary, width].
struct Embedding {
  Embedding(const Scope& scope, std::int64_t vocabulary, std::int64_t width,
            const Init& init = init::normal(0.02));
  [[nodiscard]] Tensor operator()(const Tensor& ids, CallSite at = {}) const;

  Param weight;
  const char* path;
};

// Layer normalisation over the last axis.  gain, bias [width].  Ba, Kiros, Hinton 2016.
struct LayerNorm {
  LayerNorm(const Scope& scope, std::int64_t width, double eps = 1e-5);
  [[nodiscard]] Tensor operator()(const Tensor& x, CallSite at = {}) const;

  Param gain;
  Param bias;
  double eps;
  const char* path;
};

// Root-mean-square normalisation over the last axis.  gain [width].  Zhang & Sennrich 2019.
struct RMSNorm {
  RMSNorm(const Scope& scope, std::int64_t width, double eps = 1e-5);
  [[nodiscard]] Tensor operator()(const Tensor& x, CallSite at = {}) const;

  Param gain;
  double eps;
  const char* path;
};

struct NormOptions {
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
  bool gain = true;
  bool bias = true;  // of layer normalisation; the others have none
};

// One of the three, with or without its gain and bias; none is the identity.
struct Norm {
  Norm(const Scope& scope, std::int64_t width, const NormOptions& options = {});
  [[nodiscard]] Tensor operator()(const Tensor& x, CallSite at = {}) const;

  NormOptions options;
  Param gain;
  Param bias;
  Tensor ones;   // in place of a gain
  Tensor zeros;  // in place of a bias
  const char* path;
};

// Zero with probability p when given a stream. ValueError for p outside 0..1.
struct Dropout {
  explicit Dropout(double p = 0);
  [[nodiscard]] Tensor operator()(const Tensor& x, Rng* rng = nullptr, CallSite at = {}) const;

  double p;
};

// none: no feed-forward at all, a model of attention alone. swiglu is no function of one number:
// silu(x W) times (x V), Shazeer 2020.
enum class Activation { none, relu, gelu, gelu_tanh, silu, swiglu };
// Elementwise; ValueError for none and swiglu.
[[nodiscard]] Tensor activate(const Tensor& x, Activation activation, CallSite at = {});

struct FeedForwardOptions {
  std::int64_t width = 0;
  std::int64_t hidden = 0;
  Activation activation = Activation::relu;
  double dropout = 0;  // after the activation
  bool bias = true;
  Init init = nullptr;       // of the weights; nullptr: as in LinearOptions, biases too
  Init down_init = nullptr;  // of the weight back to the width; nullptr: as `init`
};

// down(activation(up(x))); for swiglu down(silu(gate(x)) * up(x)).
struct FeedForward {
  FeedForward(const Scope& scope, const FeedForwardOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& x, Rng* rng = nullptr, CallSite at = {}) const;

  std::optional<Linear> gate;  // swiglu only
  Linear up;
  Linear down;
  Activation activation;
  Dropout dropout;
  const char* path;
};

struct MultiHeadOptions {
  std::int64_t width = 0;
  std::int64_t heads = 1;        // width must divide by it, unless variant.head_width is given
  std::int64_t key_width = 0;    // of the input `key`; 0: width
  std::int64_t value_width = 0;  // of the input `value`; 0: width
  bool bias = true;
  bool qkv_bias = true;        // false: of the four projections only the output has a bias
  double dropout = 0;          // on the weights
  Init init = nullptr;         // of the projections; nullptr: Xavier-uniform
  Init output_init = nullptr;  // of W_O; nullptr: as `init`
  Init bias_init = nullptr;    // nullptr: 0
  AttentionVariant variant = {};
};

// The standard attention: W_Q, W_K, W_V, W_O, scores divided by sqrt(D / H).  Vaswani et al. 2017.
// query [B,T,D], key and value [B,S,D] (or of their own widths).
// What stands in key and value at a position that no query may see, NaN included, reaches neither
// the output nor a gradient.
struct MultiHeadAttention {
  MultiHeadAttention(const Scope& scope, const MultiHeadOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const Mask& mask = {}, Rng* rng = nullptr,
                                  CallSite at = {}) const;
  [[nodiscard]] Tensor operator()(const Tensor& x, const Mask& mask = {}, Rng* rng = nullptr,
                                  CallSite at = {}) const;
  [[nodiscard]] MultiHeadResult with_weights(const Tensor& query, const Tensor& key,
                                             const Tensor& value, const Mask& mask = {},
                                             Rng* rng = nullptr, CallSite at = {}) const;
  // All of the above, and what they leave out.
  [[nodiscard]] MultiHeadResult run(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionRun& how, CallSite at = {}) const;

  AttentionVariant variant;                  // with kv_heads as it is
  Linear query;                              // [D, H d]
  Linear key;                                // [D, G d]
  Linear value;                              // [D, G e]
  Linear output;                             // [H e, D]
  std::optional<Norm> query_norm, key_norm;  // gain, bias [d]
  Param relative;  // t5 [t5_buckets, H], relative [2 max_distance + 1, H]: the most distant key
                   // before the query first
  Param sinks;     // trained: [H]
  std::int64_t heads;
  double dropout;
  const char* path;
};

struct HeadwiseOptions {
  std::int64_t width = 0;
  std::int64_t heads = 1;  // width must divide by it
};

// The head-wise attention: each head's slice of the width goes through one projection d -> d that
// all heads share, without bias; the joined heads through fc_out with bias. Arguments in the order
// of the article it comes from: values, keys [B,S,D], query [B,T,D].
struct HeadwiseAttention {
  HeadwiseAttention(const Scope& scope, const HeadwiseOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& values, const Tensor& keys, const Tensor& query,
                                  const Mask& mask = {}, CallSite at = {}) const;
  [[nodiscard]] MultiHeadResult with_weights(const Tensor& values, const Tensor& keys,
                                             const Tensor& query, const Mask& mask = {},
                                             CallSite at = {}) const;

  Linear values;   // [d, d]
  Linear keys;     // [d, d]
  Linear queries;  // [d, d]
  Linear fc_out;   // [D, D]
  std::int64_t heads;
  const char* path;
};

// Row p, column 2i: sin(p / 10000^(2i/D)); column 2i+1: cos of the same angle. [length, width]; an
// odd width ends with a sine.  Vaswani et al. 2017.
[[nodiscard]] Tensor sinusoidal_positions(std::int64_t length, std::int64_t width,
                                          DType dtype = DType::f32);

// x [B,T,D] + a trained row for each position.  weight [max_length, D]. ShapeError when T >
// max_length.
struct LearnedPositions {
  LearnedPositions(const Scope& scope, std::int64_t max_length, std::int64_t width,
                   const Init& init = init::normal(0.02));
  [[nodiscard]] Tensor operator()(const Tensor& x, CallSite at = {}) const;

  Param weight;
  const char* path;
};

// Linear(D, D), LayerNorm, ReLU, Linear(D, classes) at every position: [B,T,D] -> [B,T,classes].
struct TokenHead {
  TokenHead(const Scope& scope, std::int64_t width, std::int64_t classes);
  [[nodiscard]] Tensor operator()(const Tensor& x, CallSite at = {}) const;

  Linear inner;
  LayerNorm norm;
  Linear output;
  const char* path;
};

// Mean over the real positions of each sample, then Linear(D, classes): [B,T,D] -> [B,classes].
// What stands at the other positions, NaN included, does not matter.
struct ClassifierHead {
  ClassifierHead(const Scope& scope, std::int64_t width, std::int64_t classes);
  // lengths[b] real positions of sample b, 1..T; all T when empty.
  [[nodiscard]] Tensor operator()(const Tensor& x, const std::vector<std::int64_t>& lengths = {},
                                  CallSite at = {}) const;

  Linear output;
  const char* path;
};

}  // namespace tapehead

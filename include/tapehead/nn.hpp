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
  [[nodiscard]] Tensor operator()(const Tensor& x) const;

  Param weight;
  Param bias;  // undefined without bias
  const char* path;
};

// ids [..] -> rows of the table [.., width].  weight [vocabulary, width].
struct Embedding {
  Embedding(const Scope& scope, std::int64_t vocabulary, std::int64_t width,
            const Init& init = init::normal(0.02));
  [[nodiscard]] Tensor operator()(const Tensor& ids) const;

  Param weight;
  const char* path;
};

// Layer normalisation over the last axis.  gain, bias [width].  Ba, Kiros, Hinton 2016.
struct LayerNorm {
  LayerNorm(const Scope& scope, std::int64_t width, double eps = 1e-5);
  [[nodiscard]] Tensor operator()(const Tensor& x) const;

  Param gain;
  Param bias;
  double eps;
  const char* path;
};

// Root-mean-square normalisation over the last axis.  gain [width].  Zhang & Sennrich 2019.
struct RMSNorm {
  RMSNorm(const Scope& scope, std::int64_t width, double eps = 1e-5);
  [[nodiscard]] Tensor operator()(const Tensor& x) const;

  Param gain;
  double eps;
  const char* path;
};

// Zero with probability p when given a stream. ValueError for p outside 0..1.
struct Dropout {
  explicit Dropout(double p = 0);
  [[nodiscard]] Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;

  double p;
};

enum class Activation { relu, gelu, gelu_tanh, silu };
[[nodiscard]] Tensor activate(const Tensor& x, Activation activation);  // elementwise

struct FeedForwardOptions {
  std::int64_t width = 0;
  std::int64_t hidden = 0;
  Activation activation = Activation::relu;
  double dropout = 0;  // after the activation
};

// down(activation(up(x))).
struct FeedForward {
  FeedForward(const Scope& scope, const FeedForwardOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;

  Linear up;
  Linear down;
  Activation activation;
  Dropout dropout;
  const char* path;
};

struct MultiHeadOptions {
  std::int64_t width = 0;
  std::int64_t heads = 1;  // width must divide by it
  bool bias = true;
  double dropout = 0;  // on the weights
};

struct MultiHeadResult {
  Tensor output;   // [B,T,D]
  Tensor weights;  // [B,H,T,S], before dropout
};

// The standard attention: W_Q, W_K, W_V, W_O, scores divided by sqrt(D / H).  Vaswani et al. 2017.
// query [B,T,D], key and value [B,S,D].
// What stands in key and value at a position that no query may see, NaN included, reaches neither
// the output nor a gradient.
struct MultiHeadAttention {
  MultiHeadAttention(const Scope& scope, const MultiHeadOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const Mask& mask = {}, Rng* rng = nullptr) const;
  [[nodiscard]] Tensor operator()(const Tensor& x, const Mask& mask = {}, Rng* rng = nullptr) const;
  [[nodiscard]] MultiHeadResult with_weights(const Tensor& query, const Tensor& key,
                                             const Tensor& value, const Mask& mask = {},
                                             Rng* rng = nullptr) const;

  Linear query;
  Linear key;
  Linear value;
  Linear output;
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
                                  const Mask& mask = {}) const;
  [[nodiscard]] MultiHeadResult with_weights(const Tensor& values, const Tensor& keys,
                                             const Tensor& query, const Mask& mask = {}) const;

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
  [[nodiscard]] Tensor operator()(const Tensor& x) const;

  Param weight;
  const char* path;
};

enum class NormPlace { post, pre };
enum class Positions { none, sinusoidal, learned };

struct EncoderOptions {
  std::int64_t layers = 1;
  std::int64_t width = 32;
  std::int64_t heads = 1;
  std::int64_t hidden = 64;
  Activation activation = Activation::relu;
  NormPlace norm = NormPlace::post;
  double dropout = 0;  // of the attention's output, inside the feed-forward and of its output
};

// post: x = norm1(x + attention(x)); norm2(x + ffn(x)).   pre: x + attention(norm1(x)); x +
// ffn(norm2(x)).
struct EncoderLayer {
  EncoderLayer(const Scope& scope, const EncoderOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& x, const Mask& mask = {}, Rng* rng = nullptr) const;
  // Also returns the attention weights of the layer.
  [[nodiscard]] MultiHeadResult with_weights(const Tensor& x, const Mask& mask = {},
                                             Rng* rng = nullptr) const;

  MultiHeadAttention attention;
  LayerNorm norm1;
  LayerNorm norm2;
  FeedForward ffn;
  Dropout dropout;
  NormPlace norm;
  const char* path;
};

struct EncoderResult {
  Tensor output;                // [B,T,D]
  std::vector<Tensor> weights;  // per layer [B,H,T,S]
};

// A stack of layers; pre-norm stacks end with a LayerNorm of their own.
struct Encoder {
  Encoder(const Scope& scope, const EncoderOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& x, const Mask& mask = {}, Rng* rng = nullptr) const;
  [[nodiscard]] EncoderResult with_weights(const Tensor& x, const Mask& mask = {},
                                           Rng* rng = nullptr) const;

  std::vector<EncoderLayer> layers;
  std::optional<LayerNorm> final_norm;  // pre-norm only
  const char* path;
};

// Linear(D, D), LayerNorm, ReLU, Linear(D, classes) at every position: [B,T,D] -> [B,T,classes].
struct TokenHead {
  TokenHead(const Scope& scope, std::int64_t width, std::int64_t classes);
  [[nodiscard]] Tensor operator()(const Tensor& x) const;

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
  [[nodiscard]] Tensor operator()(const Tensor& x,
                                  const std::vector<std::int64_t>& lengths = {}) const;

  Linear output;
  const char* path;
};

struct EncoderModelOptions {
  std::int64_t symbols = 10;  // vocabulary of the input
  std::int64_t classes = 10;  // of the output
  Positions positions = Positions::sinusoidal;
  std::int64_t max_length = 16;  // rows of learned positions; no limit for sinusoidal ones
  EncoderOptions encoder = {};
};

// one-hot -> Linear -> positions -> Encoder -> TokenHead: ids [B,T] -> logits [B,T,classes].
// The defaults are the published setup for reversing sequences: P. Lippe, "Tutorial 6: Transformers
// and multi-head attention", UvA Deep Learning Tutorials.
struct EncoderModel {
  EncoderModel(const Scope& scope, const EncoderModelOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& ids, const Mask& mask = {},
                                  Rng* rng = nullptr) const;
  [[nodiscard]] EncoderResult with_weights(const Tensor& ids,
                                           const Mask& mask = {}) const;  // output: logits

  EncoderModelOptions options;
  Linear input;
  std::optional<LearnedPositions> learned;
  Tensor sinusoids;  // [max_length, D] for sinusoidal positions; longer inputs compute their own
  Encoder encoder;
  TokenHead head;
  const char* path;
};

}  // namespace tapehead

// Transformers: one layer, a stack of it, and the three models that are made of stacks.
//
//   th::LanguageModelOptions options{.symbols = 65, .max_length = 64};
//   options.stack = {.layers = 4, .width = 128, .heads = 4, .hidden = 512};
//   th::LanguageModel model(params, options);
//   th::Tensor logits = model(ids);  // [B,T] -> [B,T,65]
//
// Streams and masks as in nn.hpp: without a stream nothing is dropped.
#pragma once

#include <functional>

#include <tapehead/nn.hpp>

namespace tapehead {

enum class NormPlace { post, pre };

// Where first weights come from. Biases start at 0 (standard: as in LinearOptions outside of the
// attention), gains at 1.
enum class Initialiser {
  standard,  // PyTorch's modules: see LinearOptions; embeddings N(0, 0.02)
  gpt,       // N(0, 0.02); what is added to the residual stream N(0, 0.02 / sqrt(2 layers))
  xavier,    // Xavier-uniform for every matrix, tables of embeddings too
  fan_in,    // nn.Linear's of PyTorch for every projection, biases too; nn.Embedding's N(0, 1)
};

// Probabilities, one for each place.
struct DropoutOptions {
  double embedding = 0;  // of the model's input, positions included
  double attention = 0;  // of the attention's weights
  double hidden = 0;     // inside the feed-forward, after its activation
  double branch = 0;     // of what attention and feed-forward add to the residual stream
};

// A stack of layers, whatever it is used for.
struct TransformerOptions {
  std::int64_t layers = 1;
  std::int64_t width = 32;
  std::int64_t heads = 1;
  std::int64_t hidden = 64;  // of the feed-forward
  Activation activation = Activation::relu;
  NormKind norm = NormKind::layer;
  NormPlace place = NormPlace::post;
  double norm_eps = 1e-5;
  bool norm_gain = true;
  bool bias = true;      // of all projections and of layer normalisation
  bool qkv_bias = true;  // of queries, keys and values
  DropoutOptions dropout = {};
  Initialiser init = Initialiser::standard;
  // Attention over a memory has no positions, window or modifier. A model puts its positions here
  // when they belong to the attention.
  AttentionVariant variant = {};
};

// What a layer may attend to beside its own sequence: the output of an encoder.
struct Memory {
  Tensor states;   // [B,S,D]
  Mask mask = {};  // of queries over the S states
};

struct LayerResult {
  Tensor output;         // [B,T,D]
  Tensor weights;        // [B,H,T,T]
  Tensor cross_weights;  // [B,H,T,S]; undefined without cross-attention
};

// One layer's keys and values so far, and those of the memory, which are made once.
struct LayerCache {
  KeyValueCache own, cross;
};
struct LayerPatch {
  AttentionPatch own, cross;
};
// What one call of a layer is given beside its input; see AttentionRun.
struct LayerRun {
  Mask mask = {};
  Memory memory = {};
  Rng* rng = nullptr;
  Weights weights = Weights::none;
  LayerPatch patch = {};
  LayerCache* cache = nullptr;
};

// post: h = norm1(x + attention(x));   [h = cross_norm(h + cross(h, memory));]  norm2(h + ffn(h))
// pre:  h = x + attention(norm1(x));   [h = h + cross(cross_norm(h), memory);]  h + ffn(norm2(h))
// Vaswani et al. 2017; Xiong et al. 2020. Without an activation there is no ffn and no norm2.
struct TransformerLayer {
  enum class Cross { no, yes };  // whether it attends to a memory

  TransformerLayer(const Scope& scope, const TransformerOptions& options, Cross cross = Cross::no);
  [[nodiscard]] Tensor operator()(const Tensor& x, const Mask& mask = {}, Rng* rng = nullptr,
                                  CallSite at = {}) const;
  [[nodiscard]] Tensor operator()(const Tensor& x, const Mask& mask, const Memory& memory,
                                  Rng* rng = nullptr, CallSite at = {}) const;
  [[nodiscard]] LayerResult with_weights(const Tensor& x, const Mask& mask = {},
                                         const Memory& memory = {}, Rng* rng = nullptr,
                                         CallSite at = {}) const;
  [[nodiscard]] LayerResult run(const Tensor& x, const LayerRun& how, CallSite at = {}) const;

  MultiHeadAttention attention;
  Norm norm1;
  std::optional<Norm> norm2;
  std::optional<FeedForward> ffn;
  std::optional<MultiHeadAttention> cross;
  std::optional<Norm> cross_norm;
  Dropout dropout;
  NormPlace place;
  const char* path;
};

struct StackResult {
  Tensor output;                      // [B,T,D]; of a model: its logits
  std::vector<Tensor> weights;        // per layer [B,H,T,T]
  std::vector<Tensor> cross_weights;  // per layer [B,H,T,S]
};

// What every layer keeps between steps of decoding.
struct DecodingCache {
  std::vector<LayerCache> layers;  // empty at first

  [[nodiscard]] std::int64_t length() const { return layers.empty() ? 0 : layers[0].own.length(); }
  void truncate(std::int64_t length);  // forgets later positions
};

struct StackRun {
  Mask mask = {};
  Memory memory = {};
  Rng* rng = nullptr;
  Weights weights = Weights::none;
  std::function<LayerPatch(std::int64_t layer)> patch = nullptr;  // counted from 0
  DecodingCache* cache = nullptr;
};

// Layers one after the other; a pre-norm stack ends with a norm of its own, unless told otherwise.
struct TransformerStack {
  enum class FinalNorm { no, yes };

  TransformerStack(const Scope& scope, const TransformerOptions& options,
                   TransformerLayer::Cross cross = TransformerLayer::Cross::no,
                   FinalNorm final = FinalNorm::yes);
  [[nodiscard]] Tensor operator()(const Tensor& x, const Mask& mask = {}, Rng* rng = nullptr,
                                  CallSite at = {}) const;
  [[nodiscard]] Tensor operator()(const Tensor& x, const Mask& mask, const Memory& memory,
                                  Rng* rng = nullptr, CallSite at = {}) const;
  [[nodiscard]] StackResult with_weights(const Tensor& x, const Mask& mask = {},
                                         const Memory& memory = {}, Rng* rng = nullptr,
                                         CallSite at = {}) const;
  [[nodiscard]] StackResult run(const Tensor& x, const StackRun& how, CallSite at = {}) const;

  std::vector<TransformerLayer> layers;
  std::optional<Norm> final_norm;  // pre-norm only
  const char* path;
};

struct TokenInputOptions {
  std::int64_t symbols = 10;
  std::int64_t width = 32;
  Positions positions = Positions::learned;
  std::int64_t max_length = 16;  // rows of learned positions; no limit for the others
  bool one_hot = false;          // one_hot(ids) W + b in place of rows of a table
  bool scaled = false;           // rows times sqrt(width), as Vaswani et al. 2017 have it
  std::optional<NormOptions> norm = std::nullopt;  // of rows plus positions
  double dropout = 0;                              // after that
  Initialiser init = Initialiser::standard;
};

// ids [B,T] -> rows of a table plus positions [B,T,D].  input.weight [symbols, D], positions.weight
// [max_length, D] when learned.
struct TokenInput {
  TokenInput(const Scope& scope, const TokenInputOptions& options);
  // `first`: the position of the first id, when what stands before it is known already.
  [[nodiscard]] Tensor operator()(const Tensor& ids, Rng* rng = nullptr, std::int64_t first = 0,
                                  CallSite at = {}) const;

  TokenInputOptions options;
  Param weight;      // the table, or W of one-hot inputs
  Param bias;        // of one-hot inputs
  Param positions;   // learned only
  Tensor sinusoids;  // [max_length, D]; longer inputs compute their own
  std::optional<Norm> norm;
  Dropout dropout;
  const char* path;
};

enum class EncoderHead {
  mlp,     // TokenHead: at every position
  linear,  // Linear: at every position
  pooled,  // ClassifierHead: once for a sequence
};

struct EncoderModelOptions {
  std::int64_t symbols = 10;  // vocabulary of the input
  std::int64_t classes = 10;  // of the output
  Positions positions = Positions::sinusoidal;
  std::int64_t max_length = 16;  // rows of learned positions; no limit for sinusoidal ones
  bool one_hot = true;           // see TokenInputOptions
  EncoderHead head = EncoderHead::mlp;
  TransformerOptions encoder = {};
};

// tokens -> positions -> layers -> head: ids [B,T] -> logits [B,T,classes], or [B,classes] pooled.
// The defaults are the published setup for reversing sequences: P. Lippe, "Tutorial 6: Transformers
// and multi-head attention", UvA Deep Learning Tutorials.
struct EncoderModel {
  EncoderModel(const Scope& scope, const EncoderModelOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& ids, const Mask& mask = {}, Rng* rng = nullptr,
                                  CallSite at = {}) const;
  // lengths[b] real ids in row b, the rest is padding that nothing looks at; all T when empty.
  [[nodiscard]] Tensor padded(const Tensor& ids, const std::vector<std::int64_t>& lengths,
                              Rng* rng = nullptr, CallSite at = {}) const;
  [[nodiscard]] StackResult with_weights(const Tensor& ids, const Mask& mask = {},
                                         CallSite at = {}) const;  // output: logits
  [[nodiscard]] StackResult padded_with_weights(const Tensor& ids,
                                                const std::vector<std::int64_t>& lengths,
                                                CallSite at = {}) const;
  // `how.mask` joins that of the lengths.
  [[nodiscard]] StackResult run(const Tensor& ids, const std::vector<std::int64_t>& lengths,
                                const StackRun& how, CallSite at = {}) const;

  EncoderModelOptions options;
  TokenInput input;
  TransformerStack encoder;
  std::optional<TokenHead> head;         // EncoderHead::mlp
  std::optional<Linear> linear;          // EncoderHead::linear
  std::optional<ClassifierHead> pooled;  // EncoderHead::pooled
  const char* path;
};

struct LanguageModelOptions {
  std::int64_t symbols = 10;
  Positions positions = Positions::learned;
  std::int64_t max_length = 16;  // rows of learned positions, no limit for the others
  bool tied = false;             // the output's matrix is the table of the input
  bool output_bias = true;       // never with a tied output
  bool scaled_input = false;     // see TokenInputOptions
  bool input_norm = false;       // a norm between the input and the first layer
  bool final_norm = true;        // the norm at the end of a pre-norm stack
  TransformerOptions stack = {.place = NormPlace::pre};
};

// tokens + positions -> causal layers -> logits of the next token: ids [B,T] -> [B,T,symbols].
// Padding belongs at the end of a row: what stands there reaches nothing before it.
struct LanguageModel {
  LanguageModel(const Scope& scope, const LanguageModelOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& ids, Rng* rng = nullptr, CallSite at = {}) const;
  [[nodiscard]] Tensor operator()(const Tensor& ids, const Mask& mask, Rng* rng = nullptr,
                                  CallSite at = {}) const;
  [[nodiscard]] StackResult with_weights(const Tensor& ids,
                                         CallSite at = {}) const;  // output: logits
  // `how.mask` joins the causal one; with a cache it is for the new ids and all positions so far.
  [[nodiscard]] StackResult run(const Tensor& ids, const StackRun& how, CallSite at = {}) const;
  // The ids that come next, after those that the cache has seen: the logits of these [B,n,symbols],
  // as if everything had been given at once.
  [[nodiscard]] Tensor step(const Tensor& ids, DecodingCache& cache, CallSite at = {}) const;

  LanguageModelOptions options;
  TokenInput input;
  TransformerStack stack;
  std::optional<Linear> output;  // unless tied
  const char* path;
};

struct EncoderDecoderOptions {
  std::int64_t symbols = 10;  // of the source
  std::int64_t classes = 10;  // of the target
  Positions positions = Positions::sinusoidal;
  std::int64_t max_length = 16;
  bool tied = false;  // the output's matrix is the table of the target's input
  bool scaled_input = true;
  TransformerOptions stack = {};  // of encoder and decoder alike
};

// The translation setting of Vaswani et al. 2017: the encoded source and the target so far give the
// next token of the target.  source [B,S], target [B,T] -> logits [B,T,classes].
struct EncoderDecoder {
  EncoderDecoder(const Scope& scope, const EncoderDecoderOptions& options);
  // lengths: real ids of each source; all S when empty.
  [[nodiscard]] Tensor operator()(const Tensor& source, const std::vector<std::int64_t>& lengths,
                                  const Tensor& target, Rng* rng = nullptr, CallSite at = {}) const;
  [[nodiscard]] Tensor encode(const Tensor& source, const std::vector<std::int64_t>& lengths = {},
                              Rng* rng = nullptr, CallSite at = {}) const;  // [B,S,D]
  [[nodiscard]] Tensor decode(const Tensor& target, const Memory& memory, Rng* rng = nullptr,
                              CallSite at = {}) const;  // [B,T,classes]
  [[nodiscard]] StackResult with_weights(const Tensor& source,
                                         const std::vector<std::int64_t>& lengths,
                                         const Tensor& target,
                                         CallSite at = {}) const;  // of the decoder
  // The target ids that come next; see LanguageModel::step. The same memory at every step.
  [[nodiscard]] Tensor step(const Tensor& target, const Memory& memory, DecodingCache& cache,
                            CallSite at = {}) const;

  EncoderDecoderOptions options;
  TokenInput source_input;
  TransformerStack encoder;
  TokenInput target_input;
  TransformerStack decoder;
  std::optional<Linear> output;  // unless tied
  const char* path;
};

}  // namespace tapehead

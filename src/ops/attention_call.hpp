// The arithmetic of attention and of its gradient, on plain numbers: nothing here records.
//
// Two implementations give the same results. The direct one (attention_direct.cpp) keeps the
// weights from forward to backward; the streaming one (attention_streaming.cpp) walks over tiles of
// scores, keeps two numbers per query and makes the tiles again in backward, so that its memory
// grows with the length and not with its square. Both know a score only as
//   x_ts = c tanh(scale q_t . k_s / c) + bias_ts,   -inf where the mask blocks,
// without the tanh when there is no soft cap c.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tapehead/mask.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead::detail {

struct AttentionSizes {
  std::int64_t batch = 0;        // B
  std::int64_t heads = 0;        // H, of the queries
  std::int64_t queries = 0;      // T
  std::int64_t keys = 0;         // S
  std::int64_t width = 0;        // d, of a query and of a key
  std::int64_t value_width = 0;  // e
  std::int64_t group = 1;        // heads that share the keys and values of one head, H / G
  [[nodiscard]] std::int64_t key_heads() const { return heads / group; }
};

// What happens to the scores; undefined tensors are absent.
struct AttentionTerms {
  double scale = 1;
  double soft_cap = 0;   // c; 0: none
  Tensor bias = {};      // [B or 1, H or 1, T, S]
  Tensor relative = {};  // [H or 1, T + S - 1]: bias_ts = relative[h, s - t + T - 1]
  Tensor sinks = {};     // [H]: one more key per head with this score and no value
  double dropout = 0;
  std::optional<Rng> rng = std::nullopt;  // draw i decides on element i of the weights [B,H,T,S]
};

// Queries are worked on in blocks. These are the keys that any query of a block sees: what lies
// outside is skipped by every product.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool mixed = false;  // some of the pairs inside are blocked
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

// What forward leaves for backward. A weight is P_ts = e^(x_ts - maxima_t) factors_t; the maxima
// and factors are the two halves of the log-sum-exp, kept apart as their sum would lose the digits
// of small weights beside large scores.
struct AttentionForward {
  Tensor output;           // [B,H,T,e]
  Tensor weights;          // [B,H,T,S], of the direct kernel only
  Tensor maxima, factors;  // [B,H,T], of the streaming kernel, and where there are sinks
};

struct AttentionGradients {
  Tensor q, k, v;                // v undefined for those of the weights
  Tensor bias, relative, sinks;  // undefined unless wanted
};

// Which of the terms' gradients are wanted: those of biases cost time or memory of their own.
struct WantedTerms {
  bool bias = false;
  bool relative = false;
  bool sinks = false;
};

// One call of attention, all but its tensors q, k and v; backward works from the same one.
class AttentionCall {
 public:
  // `mask` and `terms` must fit the sizes.
  AttentionCall(const AttentionSizes& sizes, const Mask& mask, AttentionTerms terms);

  [[nodiscard]] const AttentionSizes& sizes() const { return sizes_; }
  [[nodiscard]] const Mask& mask() const { return mask_; }
  [[nodiscard]] const AttentionTerms& terms() const { return terms_; }
  // The choice of the kernel, by the shape alone.
  [[nodiscard]] bool streams() const { return streams_; }
  // Whether backward reads the output.
  [[nodiscard]] bool needs_output() const { return streams_ || terms_.sinks.defined(); }

  [[nodiscard]] AttentionForward forward(const Tensor& q, const Tensor& k, const Tensor& v) const;
  // The weights before dropout [B,H,T,S]; the streaming kernel makes them in a pass of their own.
  [[nodiscard]] Tensor weights(const Tensor& q, const Tensor& k, const AttentionForward& f) const;
  // From the cotangent of the output.
  [[nodiscard]] AttentionGradients output_gradient(const Tensor& q, const Tensor& k,
                                                   const Tensor& v, const AttentionForward& f,
                                                   const Tensor& d_output,
                                                   const WantedTerms& wanted) const;
  // From the cotangent of the weights.
  [[nodiscard]] AttentionGradients weights_gradient(const Tensor& q, const Tensor& k,
                                                    const AttentionForward& f,
                                                    const Tensor& weights, const Tensor& d_weights,
                                                    const WantedTerms& wanted) const;

  static constexpr std::int64_t kBlock = 64;  // queries per block of the direct kernel
  [[nodiscard]] std::int64_t blocks() const { return (sizes_.queries + kBlock - 1) / kBlock; }
  [[nodiscard]] const KeyRange& range(std::int64_t batch, std::int64_t head,
                                      std::int64_t block) const;

 private:
  static constexpr std::int64_t kStep = 16;  // keys at a time when looking for a range's ends

  [[nodiscard]] KeyRange find_range(std::int64_t batch, std::int64_t head, std::int64_t q0,
                                    std::int64_t q1) const;
  void find_ranges();
  void choose(bool streaming);

  AttentionSizes sizes_;
  Mask mask_;
  AttentionTerms terms_;
  bool streams_;
  std::vector<KeyRange> ranges_;  // [B or 1, H or 1, blocks], of the direct kernel
};

// For tests: while it lives, calls on this thread use the named kernel, whatever the shape.
class ForceAttentionKernel {
 public:
  enum Kernel { direct, streaming };
  explicit ForceAttentionKernel(Kernel kernel);
  ~ForceAttentionKernel();
  ForceAttentionKernel(const ForceAttentionKernel&) = delete;
  ForceAttentionKernel& operator=(const ForceAttentionKernel&) = delete;

 private:
  std::optional<Kernel> previous_;
};

// attention_direct.cpp
AttentionForward direct_forward(const AttentionCall& call, const Tensor& q, const Tensor& k,
                                const Tensor& v);
AttentionGradients direct_output_gradient(const AttentionCall& call, const Tensor& q,
                                          const Tensor& k, const Tensor& v,
                                          const AttentionForward& f, const Tensor& d_output,
                                          const WantedTerms& wanted);
AttentionGradients direct_weights_gradient(const AttentionCall& call, const Tensor& q,
                                           const Tensor& k, const Tensor& weights,
                                           const Tensor& d_weights, const WantedTerms& wanted);

// attention_streaming.cpp
AttentionForward streaming_forward(const AttentionCall& call, const Tensor& q, const Tensor& k,
                                   const Tensor& v);
Tensor streaming_weights(const AttentionCall& call, const Tensor& q, const Tensor& k,
                         const AttentionForward& f);
AttentionGradients streaming_output_gradient(const AttentionCall& call, const Tensor& q,
                                             const Tensor& k, const Tensor& v,
                                             const AttentionForward& f, const Tensor& d_output,
                                             const WantedTerms& wanted);

}  // namespace tapehead::detail

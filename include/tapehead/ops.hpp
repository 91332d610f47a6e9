// The operations: one declaration and one line of formula each.
//
// Every op takes and returns values, works in f32 and f64 for rank 0 to 8 and for axes of size 0,
// and throws an Error that names the op, the shapes and what to do. Inputs of one op share a dtype.
// Two-operand elementwise ops broadcast axes of size 1 between equal ranks, or a scalar (rank 0)
// with anything; other ranks need broadcast_to. Gradients are summed back to the operand's shape.
// Negative axes count from the end. Shape letters: B batch, H heads, T time, S source time, D
// width, d head width, V vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <tapehead/call_site.hpp>
#include <tapehead/mask.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead {

// One axis, several, or (default) all of them.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{axis}, all_(false) {}
  Axes(std::initializer_list<int> axes) : axes_(axes), all_(false) {}
  explicit Axes(std::vector<int> axes) : axes_(std::move(axes)), all_(false) {}
  [[nodiscard]] bool all() const { return all_; }
  [[nodiscard]] const std::vector<int>& list() const { return axes_; }

 private:
  std::vector<int> axes_;
  bool all_ = true;
};

// What becomes of a reduced axis.
enum class Reduced { drop, keep };
inline constexpr Reduced keep = Reduced::keep;

// ---- conversion ----
[[nodiscard]] Tensor cast(const Tensor& x, DType dtype,
                          CallSite at = {});   // number by number; gradient between floats
[[nodiscard]] Tensor detach(const Tensor& x);  // the same numbers, off the tape

// ---- arithmetic ----
[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b, CallSite at = {});  // a + b
[[nodiscard]] Tensor sub(const Tensor& a, const Tensor& b, CallSite at = {});  // a - b
[[nodiscard]] Tensor mul(const Tensor& a, const Tensor& b, CallSite at = {});  // a * b
[[nodiscard]] Tensor div(const Tensor& a, const Tensor& b, CallSite at = {});  // a / b
[[nodiscard]] Tensor maximum(const Tensor& a, const Tensor& b,
                             CallSite at = {});  // larger of the two; a tie shares the gradient
[[nodiscard]] Tensor maximum(const Tensor& x, double floor,
                             CallSite at = {});               // slope 0 where x <= floor
[[nodiscard]] Tensor neg(const Tensor& x, CallSite at = {});  // -x
[[nodiscard]] Tensor scale(const Tensor& x, double factor, CallSite at = {});  // factor * x
[[nodiscard]] Tensor shift(const Tensor& x, double amount, CallSite at = {});  // x + amount

[[nodiscard]] Tensor operator+(const Operand& a, const Tensor& b);
[[nodiscard]] Tensor operator-(const Operand& a, const Tensor& b);
[[nodiscard]] Tensor operator*(const Operand& a, const Tensor& b);
[[nodiscard]] Tensor operator/(const Operand& a, const Tensor& b);
[[nodiscard]] Tensor operator-(const Operand& x);
[[nodiscard]] Tensor operator+(const Operand& a, double b);
[[nodiscard]] Tensor operator+(double a, const Operand& b);
[[nodiscard]] Tensor operator-(const Operand& a, double b);
[[nodiscard]] Tensor operator-(double a, const Operand& b);
[[nodiscard]] Tensor operator*(const Operand& a, double b);
[[nodiscard]] Tensor operator*(double a, const Operand& b);
[[nodiscard]] Tensor operator/(const Operand& a, double b);
[[nodiscard]] Tensor operator/(double a, const Operand& b);

// ---- comparison: boolean results, no gradient ----
[[nodiscard]] Tensor equal(const Tensor& a, const Tensor& b);          // a == b
[[nodiscard]] Tensor not_equal(const Tensor& a, const Tensor& b);      // a != b
[[nodiscard]] Tensor less(const Tensor& a, const Tensor& b);           // a < b
[[nodiscard]] Tensor less_equal(const Tensor& a, const Tensor& b);     // a <= b
[[nodiscard]] Tensor greater(const Tensor& a, const Tensor& b);        // a > b
[[nodiscard]] Tensor greater_equal(const Tensor& a, const Tensor& b);  // a >= b
[[nodiscard]] Tensor equal(const Tensor& a, double b);
[[nodiscard]] Tensor not_equal(const Tensor& a, double b);
[[nodiscard]] Tensor less(const Tensor& a, double b);
[[nodiscard]] Tensor less_equal(const Tensor& a, double b);
[[nodiscard]] Tensor greater(const Tensor& a, double b);
[[nodiscard]] Tensor greater_equal(const Tensor& a, double b);
[[nodiscard]] Tensor logical_not(const Tensor& x);  // boolean in, boolean out
[[nodiscard]] Tensor logical_and(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor logical_or(const Tensor& a, const Tensor& b);

// ---- elementwise functions ----
[[nodiscard]] Tensor exp(const Tensor& x, CallSite at = {});   // e^x
[[nodiscard]] Tensor log(const Tensor& x, CallSite at = {});   // ln x
[[nodiscard]] Tensor sqrt(const Tensor& x, CallSite at = {});  // x^(1/2); slope +inf at 0
[[nodiscard]] Tensor pow(const Tensor& x, double exponent,
                         CallSite at = {});                    // x^p; slope p x^(p-1), 0 for p = 0
[[nodiscard]] Tensor abs(const Tensor& x, CallSite at = {});   // |x|; slope 0 at 0
[[nodiscard]] Tensor sign(const Tensor& x, CallSite at = {});  // -1, 0 or 1; slope 0
[[nodiscard]] Tensor tanh(const Tensor& x, CallSite at = {});  // (e^x - e^-x) / (e^x + e^-x)
[[nodiscard]] Tensor sigmoid(const Tensor& x, CallSite at = {});  // 1 / (1 + e^-x)
[[nodiscard]] Tensor erf(const Tensor& x,
                         CallSite at = {});  // 2/sqrt(pi) * integral of e^(-t^2), 0..x
[[nodiscard]] Tensor softplus(const Tensor& x, CallSite at = {});  // ln(1 + e^x), without overflow
[[nodiscard]] Tensor relu(const Tensor& x, CallSite at = {});      // max(x, 0); slope 0 at 0
[[nodiscard]] Tensor gelu(const Tensor& x, CallSite at = {});      // x * (1 + erf(x / sqrt 2)) / 2
[[nodiscard]] Tensor gelu_tanh(
    const Tensor& x, CallSite at = {});  // x * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
[[nodiscard]] Tensor silu(const Tensor& x, CallSite at = {});  // x * sigmoid(x)
[[nodiscard]] Tensor clamp(const Tensor& x, double low, double high,
                           CallSite at = {});  // slope 0 at and beyond the ends

// ---- selection ----
[[nodiscard]] Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b,
                           CallSite at = {});  // condition ? a : b
[[nodiscard]] Tensor masked_fill(const Tensor& x, const Tensor& blocked, double value,
                                 CallSite at = {});  // blocked ? value : x

// ---- reduction ----
[[nodiscard]] Tensor sum(const Tensor& x, const Axes& axes = {}, Reduced reduced = Reduced::drop,
                         CallSite at = {});
[[nodiscard]] Tensor mean(const Tensor& x, const Axes& axes = {}, Reduced reduced = Reduced::drop,
                          CallSite at = {});
[[nodiscard]] Tensor max(const Tensor& x, const Axes& axes = {}, Reduced reduced = Reduced::drop,
                         CallSite at = {});  // ties share
[[nodiscard]] Tensor min(const Tensor& x, const Axes& axes = {}, Reduced reduced = Reduced::drop,
                         CallSite at = {});  // ties share
[[nodiscard]] Tensor norm(const Tensor& x, const Axes& axes = {}, Reduced reduced = Reduced::drop,
                          CallSite at = {});  // sqrt(sum x^2); slope 0 at 0
[[nodiscard]] Tensor logsumexp(const Tensor& x, const Axes& axes = {},
                               Reduced reduced = Reduced::drop, CallSite at = {});  // ln sum e^x
[[nodiscard]] Tensor argmax(const Tensor& x, int axis = -1,
                            Reduced reduced = Reduced::drop);  // i64; the first of equals

// ---- shape ----
[[nodiscard]] Tensor broadcast_to(const Tensor& x, const Shape& shape,
                                  CallSite at = {});  // new axes in front, sizes 1 repeated
[[nodiscard]] Tensor reshape(const Tensor& x, const Shape& shape,
                             CallSite at = {});  // same elements, same order
[[nodiscard]] Tensor permute(const Tensor& x, const std::vector<int>& order,
                             CallSite at = {});  // y[.., i_order[k], ..]
[[nodiscard]] Tensor transpose(const Tensor& x, int axis_a = -2, int axis_b = -1,
                               CallSite at = {});  // two axes exchanged
[[nodiscard]] Tensor concat(const std::vector<Tensor>& xs, int axis, CallSite at = {});
[[nodiscard]] Tensor stack(const std::vector<Tensor>& xs, int axis = 0,
                           CallSite at = {});  // a new axis
[[nodiscard]] Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end,
                           CallSite at = {});  // end exclusive
[[nodiscard]] std::vector<Tensor> split(const Tensor& x, int axis, std::int64_t parts,
                                        CallSite at = {});  // equal parts
[[nodiscard]] Tensor pad(const Tensor& x, int axis, std::int64_t before, std::int64_t after,
                         double value = 0, CallSite at = {});

// ---- lookup ----
[[nodiscard]] Tensor one_hot(const Tensor& ids, std::int64_t classes,
                             DType dtype = DType::f32);  // [..] -> [.., classes]
[[nodiscard]] Tensor embedding(const Tensor& table, const Tensor& ids,
                               CallSite at = {});  // table [V,D], ids [..] -> [..,D]
// y[.., j, ..] = x[.., index[.., j, ..], ..]: ranks equal, sizes equal but for `axis`.
[[nodiscard]] Tensor gather(const Tensor& x, int axis, const Tensor& index, CallSite at = {});
// x with y[.., index[.., j, ..], ..] += source[.., j, ..]; repeated indices add up, in order.
[[nodiscard]] Tensor scatter_add(const Tensor& x, int axis, const Tensor& index,
                                 const Tensor& source, CallSite at = {});

// ---- products ----
struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};
// a [..,M,K] times b [..,K,N] -> [..,M,N]; leading axes broadcast (sizes 1, equal ranks), rank
// >= 2.
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {},
                            CallSite at = {});
[[nodiscard]] Tensor linear(const Tensor& x, const Tensor& weight,
                            CallSite at = {});  // x [..,in] W [in,out]
[[nodiscard]] Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            CallSite at = {});  // x W + b
// Two operands, explicit output, no label twice in one operand: einsum("nqhd,nkhd->nhqk", q, k).
[[nodiscard]] Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b,
                            CallSite at = {});

// ---- normalisation ----
[[nodiscard]] Tensor softmax(const Tensor& x, int axis = -1,
                             CallSite at = {});  // e^(x_i - m) / sum_j e^(x_j - m); all -inf: 0
[[nodiscard]] Tensor masked_softmax(const Tensor& scores, const Mask& mask,
                                    CallSite at = {});  // [B,H,T,S]; blocked exactly 0
[[nodiscard]] Tensor log_softmax(const Tensor& x, int axis = -1,
                                 CallSite at = {});  // x_i - m - ln sum_j e^(x_j - m)
// gain * (x - mean) / sqrt(variance + eps) + bias over the last axis; gain, bias [D]; eps > 0
[[nodiscard]] Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias,
                                double eps = 1e-5, CallSite at = {});
// gain * x / sqrt(mean(x^2) + eps) over the last axis; gain [D]; eps > 0
[[nodiscard]] Tensor rms_norm(const Tensor& x, const Tensor& gain, double eps = 1e-5,
                              CallSite at = {});
// Zero with probability p, else x / (1 - p); draws x.size() numbers of the stream (none for p = 0).
[[nodiscard]] Tensor dropout(const Tensor& x, double p, Rng& rng, CallSite at = {});

// ---- losses ----
struct CrossEntropyOptions {
  std::optional<std::int64_t> ignore = std::nullopt;  // target value whose rows do not count
  double label_smoothing = 0;                         // target (1 - s) one_hot + s / V
};
struct CrossEntropy {
  Tensor mean;             // sum / count, 0 when nothing counts; rank 0
  Tensor sum;              // over the rows that count; rank 0
  std::int64_t count = 0;  // rows that count
};
// logits [..,V], targets [..] of i64 -> mean over the rows that count. There is no form for
// probabilities.
[[nodiscard]] Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                                   const CrossEntropyOptions& options = {}, CallSite at = {});
[[nodiscard]] CrossEntropy cross_entropy_sums(const Tensor& logits, const Tensor& targets,
                                              const CrossEntropyOptions& options = {},
                                              CallSite at = {});
// Both operands of one shape: losses never broadcast.
[[nodiscard]] Tensor mse(const Tensor& prediction, const Tensor& target,
                         CallSite at = {});  // mean of (p - t)^2
// mean of softplus(x) - x t, the cross entropy of sigmoid(x) with t in 0..1
[[nodiscard]] Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets,
                                          CallSite at = {});

// ---- attention ----
// Positions of scores [B,H,T,S] as numbers of their dtype, each along its own axis.
struct ScorePositions {
  Tensor batch;  // [B,1,1,1]
  Tensor head;   // [1,H,1,1]
  Tensor query;  // [1,1,T,1], counted from AttentionOptions::first_query
  Tensor key;    // [1,1,1,S]
};
// New scores of the same shape, made with ops: what it uses may be trained.
using ScoreModifier = std::function<Tensor(const Tensor& scores, const ScorePositions& at)>;

struct AttentionOptions {
  std::optional<double> scale = std::nullopt;  // of the scores; 1/sqrt(d) when not given
  double dropout = 0;                          // on the weights; needs `rng`
  Rng* rng = nullptr;                          // nullptr: no dropout
  bool grouped = false;       // k and v may have fewer heads: q's must be a multiple of theirs
  double soft_cap = 0;        // c: scores become c tanh(x / c); 0: no cap.  Gemma 2, 2024
  Tensor bias = {};           // added to the scores: [B or 1, H or 1, T, S]
  Tensor relative_bias = {};  // [H or 1, T+S-1]: score (t, s) gets element s - t + T - 1
  Tensor sinks = {};          // [H]: a score without a key or value joins each head's softmax
  // Applied last, before the mask. The scores are then T x S numbers in memory, whatever the size.
  ScoreModifier modifier = nullptr;
  std::int64_t first_query = 0;  // the position of query 0, for the modifier
};
struct Attention {
  Tensor output;   // [B,H,T,e]
  Tensor weights;  // [B,H,T,S], before dropout; rows sum to 1, or are 0 where nothing is visible
};
// x = c tanh(scale q k^T / c) + bias;  softmax(x over visible keys, sink) v:
// q [B,H,T,d], k [B,H,S,d], v [B,H,S,e] -> [B,H,T,e]
// From 1024 keys and 16 queries on, scores are made tile by tile: memory grows with T + S.
[[nodiscard]] Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const Mask& mask = {}, const AttentionOptions& options = {},
                               CallSite at = {});
// The same bits of the output; the weights are T x S numbers.
[[nodiscard]] Attention attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                               const Mask& mask = {},
                                               const AttentionOptions& options = {},
                                               CallSite at = {});
// Every step of attention as a tensor of its own, made with plain ops: tape.watch() any of them to
// get its gradient. T x S numbers each; non-finite values at blocked positions are not kept apart.
struct AttentionSteps {
  Tensor scores;   // [B,H,T,S], with all that is done to them but the mask
  Tensor weights;  // [B,H,T,S]
  Tensor dropped;  // the weights after dropout
  Tensor output;   // [B,H,T,e]
};
[[nodiscard]] AttentionSteps attention_steps(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const Mask& mask = {},
                                             const AttentionOptions& options = {},
                                             CallSite at = {});
struct RotateOptions {
  double base = 10000;
  std::optional<std::int64_t> dims = std::nullopt;  // n, even: columns from n on stay; the width
  bool halves = false;     // pairs are columns i and i + n/2 in place of 2i and 2i + 1
  std::int64_t first = 0;  // position of row 0
  bool back = false;       // by the opposite angles
};
// x [..,T,d]: pair i of row t turned by the angle t / base^(2i/n)
[[nodiscard]] Tensor rotate(const Tensor& x, const RotateOptions& options = {}, CallSite at = {});
[[nodiscard]] Tensor split_heads(const Tensor& x, std::int64_t heads,
                                 CallSite at = {});                   // [B,T,D] -> [B,H,T,D/H]
[[nodiscard]] Tensor merge_heads(const Tensor& x, CallSite at = {});  // [B,H,T,d] -> [B,T,H*d]

}  // namespace tapehead

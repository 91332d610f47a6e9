#include "ops/attention_call.hpp"

#include <algorithm>
#include <utility>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "core/vector_math.hpp"
#include "ops/attention_scores.hpp"

namespace tapehead::detail {

using std::int64_t;

namespace {

// Measured, forward and backward, causal: up to about 1000 keys the direct kernel is the faster
// one, as it need not make the weights twice; from 1500 on the streaming one, as the weights leave
// the cache. With few queries its transposed tiles of keys do not pay, and weights are small.
constexpr int64_t kStreamKeys = 1024;
constexpr int64_t kStreamQueries = 16;

thread_local std::optional<ForceAttentionKernel::Kernel> forced;

bool streaming_for(const AttentionSizes& sizes) {
  if (forced) return *forced == ForceAttentionKernel::streaming;
  return sizes.keys >= kStreamKeys && sizes.queries >= kStreamQueries;
}

}  // namespace

ForceAttentionKernel::ForceAttentionKernel(Kernel kernel)
    : previous_(std::exchange(forced, kernel)) {}
ForceAttentionKernel::~ForceAttentionKernel() { forced = previous_; }

AttentionCall::AttentionCall(const AttentionSizes& sizes, const Mask& mask, AttentionTerms terms)
    : sizes_(sizes),
      mask_(mask.tabulated(sizes.batch, sizes.heads, sizes.queries, sizes.keys)),
      terms_(std::move(terms)),
      streams_(false) {
  if (!terms_.rng) terms_.dropout = 0;
  choose(streaming_for(sizes_));
}

void AttentionCall::choose(bool streaming) {
  streams_ = streaming;
  if (!streams_) find_ranges();
}

void AttentionCall::find_ranges() {
  const int64_t batches = mask_.per_batch() ? sizes_.batch : std::min<int64_t>(1, sizes_.batch);
  const int64_t heads = mask_.per_head() ? sizes_.heads : std::min<int64_t>(1, sizes_.heads);
  ranges_.clear();
  ranges_.reserve(static_cast<std::size_t>(batches * heads * blocks()));
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t q0 = 0; q0 < sizes_.queries; q0 += kBlock)
        ranges_.push_back(find_range(b, h, q0, std::min(sizes_.queries, q0 + kBlock)));
    }
  }
}

KeyRange AttentionCall::find_range(int64_t batch, int64_t head, int64_t q0, int64_t q1) const {
  if (mask_.is_all()) return {0, sizes_.keys, false};
  KeyRange range;
  for (int64_t k0 = 0; k0 < sizes_.keys; k0 += kStep) {
    const int64_t k1 = std::min(sizes_.keys, k0 + kStep);
    const Mask::Cover cover = mask_.cover(batch, head, q0, q1, k0, k1);
    if (cover == Mask::Cover::none) continue;
    if (range.size() == 0) range.begin = k0;
    // Skipped keys between two visible stretches make the range mixed, too.
    range.mixed = range.mixed || cover == Mask::Cover::mixed || (range.end != 0 && range.end != k0);
    range.end = k1;
  }
  return range;
}

const KeyRange& AttentionCall::range(int64_t batch, int64_t head, int64_t block) const {
  const int64_t b = mask_.per_batch() ? batch : 0;
  const int64_t h = mask_.per_head() ? head : 0;
  const int64_t heads = mask_.per_head() ? sizes_.heads : 1;
  return ranges_[static_cast<std::size_t>((b * heads + h) * blocks() + block)];
}

namespace {

// The sink of head h has weight p_t = e^(sink - m_t) f_t and no value, so dp = 0 for it:
//   dsink = sum over batch and queries of p_t (0 - sum_s P_ts dP_ts),
// the inner sum being y . dy for a cotangent of the output. `a` and `b` are [B,H,T,n].
Tensor sinks_gradient(const AttentionCall& call, const AttentionForward& f, const Tensor& a,
                      const Tensor& b) {
  const AttentionSizes& n = call.sizes();
  return with_float("attention", a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor gradient = empty({n.heads}, a.dtype());
    const int64_t width = a.dim(3);
    parallel_for(n.heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        const T sink = in<T>(call.terms().sinks)[h];
        double total = 0;
        for (int64_t batch = 0; batch < n.batch; ++batch) {
          const int64_t first = (batch * n.heads + h) * n.queries;
          for (int64_t row = first; row < first + n.queries; ++row) {
            const T factor = in<T>(f.factors)[row];
            if (factor == 0) continue;  // nothing at all to choose from
            const T weight = vector_exp(sink - in<T>(f.maxima)[row]) * factor;
            const T* x = in<T>(a) + row * width;
            const T* y = in<T>(b) + row * width;
            if (weight != 0) total -= static_cast<double>(weight) * selected_dot(x, y, width);
          }
        }
        out<T>(gradient)[h] = static_cast<T>(total);
      }
    });
    return gradient;
  });
}

}  // namespace

AttentionForward AttentionCall::forward(const Tensor& q, const Tensor& k, const Tensor& v) const {
  return streams_ ? streaming_forward(*this, q, k, v) : direct_forward(*this, q, k, v);
}

Tensor AttentionCall::weights(const Tensor& q, const Tensor& k, const AttentionForward& f) const {
  return streams_ ? streaming_weights(*this, q, k, f) : f.weights;
}

AttentionGradients AttentionCall::output_gradient(const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const AttentionForward& f, const Tensor& d_output,
                                                  const WantedTerms& wanted) const {
  AttentionGradients g = streams_ ? streaming_output_gradient(*this, q, k, v, f, d_output, wanted)
                                  : direct_output_gradient(*this, q, k, v, f, d_output, wanted);
  if (wanted.sinks) g.sinks = sinks_gradient(*this, f, f.output, d_output);
  return g;
}

// With all weights in memory there is no point in streaming: the direct kernel serves any length.
AttentionGradients AttentionCall::weights_gradient(const Tensor& q, const Tensor& k,
                                                   const AttentionForward& f, const Tensor& weights,
                                                   const Tensor& d_weights,
                                                   const WantedTerms& wanted) const {
  AttentionGradients g;
  if (streams_) {
    AttentionCall direct = *this;
    direct.choose(false);
    g = direct_weights_gradient(direct, q, k, weights, d_weights, wanted);
  } else {
    g = direct_weights_gradient(*this, q, k, weights, d_weights, wanted);
  }
  if (wanted.sinks) g.sinks = sinks_gradient(*this, f, weights, d_weights);
  return g;
}

}  // namespace tapehead::detail

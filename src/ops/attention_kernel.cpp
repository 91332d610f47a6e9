#include "ops/attention_kernel.hpp"

#include <algorithm>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/finite_rows.hpp"
#include "ops/piece.hpp"
#include "ops/softmax_row.hpp"

namespace tapehead::detail {

using std::int64_t;

AttentionCall::AttentionCall(const AttentionSizes& sizes, const Mask& mask, double scale,
                             double dropout, const Rng* dropout_rng)
    : sizes_(sizes),
      mask_(mask.tabulated(sizes.batch, sizes.heads, sizes.queries, sizes.keys)),
      scale_(scale),
      dropout_(dropout_rng == nullptr ? 0 : dropout) {
  if (dropout_rng != nullptr) rng_ = *dropout_rng;
  const int64_t batches = mask_.per_batch() ? sizes_.batch : std::min<int64_t>(1, sizes_.batch);
  const int64_t heads = mask_.per_head() ? sizes_.heads : std::min<int64_t>(1, sizes_.heads);
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

// Multiply-adds worth a chunk of its own: some ten times the cost of starting a team.
constexpr int64_t kChunkWork = int64_t{1} << 18;

int64_t units_per_chunk(int64_t work_per_unit) {
  return std::max<int64_t>(1, kChunkWork / std::max<int64_t>(1, work_per_unit));
}

// Working memory for each chunk of a parallel_for, taken before it starts.
template <class T>
class Scratch {
 public:
  Scratch(bool needed, int64_t units, int64_t chunk, int64_t size)
      : chunk_(chunk),
        size_(size),
        memory_(empty({needed ? (units + chunk - 1) / chunk * size : 0}, kDTypeOf<T>)) {}
  T* of(int64_t first_unit) { return out<T>(memory_) + first_unit / chunk_ * size_; }

 private:
  int64_t chunk_;
  int64_t size_;
  Tensor memory_;
};

}  // namespace

template <class T>
struct AttentionCall::Kernel {
  using In = Piece<const T>;
  using Out = Piece<T>;

  const AttentionCall& call;
  const AttentionSizes& n = call.sizes_;
  const T scale = static_cast<T>(call.scale_);
  const bool drops = call.dropout_ > 0;
  const bool check_finite = !call.mask_.is_all();

  // A block of queries of one head, with the keys that they see.
  struct Block {
    int64_t batch, head;
    int64_t query;        // the first one, within its head
    int64_t rows;         // queries
    int64_t first_query;  // among all heads
    int64_t first_key;    // among all heads
    KeyRange keys;
  };

  Block block_of(int64_t head_of_batch, int64_t block) const {
    const int64_t batch = head_of_batch / n.heads;
    const int64_t head = head_of_batch % n.heads;
    const int64_t query = block * kBlock;
    const KeyRange keys = call.range(batch, head, block);
    const int64_t rows = std::min(kBlock, n.queries - query);
    const int64_t first_key = head_of_batch * n.keys + keys.begin;
    return {batch, head, query, rows, head_of_batch * n.queries + query, first_key, keys};
  }

  // The block's rows of q, y or their cotangents; of k, v or theirs; its part of [queries, keys],
  // of which working memory holds one block.
  template <class U>
  Piece<U> of_queries(const Block& b, U* x, int64_t width) const {
    return {x + b.first_query * width, b.rows, width, width};
  }
  template <class U>
  Piece<U> of_keys(const Block& b, U* x, int64_t width) const {
    return {x + b.first_key * width, b.keys.size(), width, width};
  }
  int64_t first_weight(const Block& b) const { return b.first_query * n.keys + b.keys.begin; }
  template <class U>
  Piece<U> of_weights(const Block& b, U* x) const {
    return {x + first_weight(b), b.rows, b.keys.size(), n.keys};
  }
  Out working(const Block& b, T* x) const { return {x, b.rows, b.keys.size(), n.keys}; }

  // P = softmax(scale q k^T) over the visible keys.
  void weigh(const Block& b, const In& q, const In& k, const Out& p, unsigned char* visible) const {
    multiply_transposed(scale, q, k, p);
    for (int64_t i = 0; i < b.rows; ++i) {
      if (b.keys.mixed) {
        hide_blocked(call.mask_, b.batch, b.head, b.query + i, b.keys.begin, p.row(i),
                     {visible, static_cast<std::size_t>(p.columns)});
      }
      softmax_row(p.row(i), p.columns);
      T* whole_row = p.row(i) - b.keys.begin;
      std::fill(whole_row, whole_row + b.keys.begin, T{0});
      std::fill(whole_row + b.keys.end, whole_row + n.keys, T{0});
    }
  }

  // What dropout multiplies a weight by.
  T dropout_factor(int64_t weight) const {
    const bool kept = call.rng_->uniform_at(static_cast<std::uint64_t>(weight)) >= call.dropout_;
    return kept ? static_cast<T>(1 / (1 - call.dropout_)) : T{0};
  }

  // D = dropout(P); where a cotangent of D is given, it becomes one of P. A weight of 0 needs no
  // draw.
  void drop(const Block& b, const In& p, const Out& d, const Out* cotangent) const {
    for (int64_t i = 0; i < p.rows; ++i) {
      for (int64_t j = 0; j < p.columns; ++j) {
        const T weight = p.row(i)[j];
        const T factor = weight == 0 ? T{0} : dropout_factor(first_weight(b) + i * n.keys + j);
        d.row(i)[j] = factor == 0 ? T{0} : weight * factor;
        if (cotangent != nullptr) {
          T& dp = cotangent->row(i)[j];
          dp = factor == 0 ? T{0} : dp * factor;
        }
      }
    }
  }

  // dx = P * (dP - rowsum(P * dP)), overwriting dP; dq = scale dx k; dk += scale dx^T q. A query or
  // key that is not finite has made every weight it touches NaN or 0, so dx carries what is due and
  // the zeroed row need not be added back.
  void back_through_scores(const In& p, const Out& dx, const In& q, const In& k, const Out& dq,
                           const Out& dk) const {
    for (int64_t i = 0; i < p.rows; ++i) softmax_gradient_row(p.row(i), dx.row(i), p.columns);
    multiply(scale, dx, k, dq);
    add_transposed(scale, dx, q, dk);
  }

  Result forward(const Tensor& q, const Tensor& k, const Tensor& v) const {
    Result result{empty({n.batch, n.heads, n.queries, n.keys}, q.dtype()),
                  empty({n.batch, n.heads, n.queries, n.value_width}, q.dtype())};
    T* weights = out<T>(result.weights);
    T* output = out<T>(result.output);
    const FiniteRows<T> values(v, check_finite);
    const int64_t units = n.batch * n.heads * call.blocks();
    const int64_t chunk =
        units_per_chunk(std::min(kBlock, n.queries) * n.keys * (n.width + n.value_width));
    Scratch<unsigned char> visible(true, units, chunk, n.keys);
    Scratch<T> dropped(drops, units, chunk, kBlock * n.keys);
    parallel_for(units, chunk, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const Block b = block_of(unit / call.blocks(), unit % call.blocks());
        const Out p = of_weights(b, weights);
        weigh(b, of_queries(b, in<T>(q), n.width), of_keys(b, in<T>(k), n.width), p,
              visible.of(begin));
        const Out d = drops ? working(b, dropped.of(begin)) : p;
        if (drops) drop(b, {p.at, p.rows, p.columns, p.stride}, d, nullptr);
        const Out y = of_queries(b, output, n.value_width);
        multiply(T{1}, d, of_keys(b, values.clean(), n.value_width), y);
        values.add_zeroed(b.first_key, b.rows, b.keys.size(), {d.at, p.at, n.keys, 1}, y.at);
      }
    });
    return result;
  }

  // Calls f(block, first head of the chunk) for every block of queries, one head after another: the
  // blocks of a head add to the same dk and dv.
  template <class F>
  void for_heads(int64_t chunk, F f) const {
    parallel_for(n.batch * n.heads, chunk, [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) {
        for (int64_t block = 0; block < call.blocks(); ++block) f(block_of(head, block), begin);
      }
    });
  }

  std::array<Tensor, 3> output_gradient(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Tensor& weights, const Tensor& d_output) const {
    std::array<Tensor, 3> gradients{empty_like(q), zeros(k.shape(), k.dtype()),
                                    zeros(v.shape(), v.dtype())};
    T* dq = out<T>(gradients[0]);
    T* dk = out<T>(gradients[1]);
    T* dv = out<T>(gradients[2]);
    const FiniteRows<T> queries(q, check_finite);
    const FiniteRows<T> keys(k, check_finite);
    const FiniteRows<T> cotangents(d_output, check_finite);
    const int64_t heads = n.batch * n.heads;
    const int64_t chunk = units_per_chunk(2 * n.queries * n.keys * (n.width + n.value_width));
    Scratch<T> scratch(true, heads, chunk, kBlock * n.keys);
    Scratch<T> dropped(drops, heads, chunk, kBlock * n.keys);
    for_heads(chunk, [&](const Block& b, int64_t first_head) {
      const In p = of_weights(b, in<T>(weights));
      const Out dp = working(b, scratch.of(first_head));
      multiply_transposed(T{1}, of_queries(b, in<T>(d_output), n.value_width),
                          of_keys(b, in<T>(v), n.value_width), dp);  // of D, so far
      In d = p;
      if (drops) {
        const Out kept = working(b, dropped.of(first_head));
        drop(b, p, kept, &dp);
        d = {kept.at, kept.rows, kept.columns, kept.stride};
      }
      const Out dv_block = of_keys(b, dv, n.value_width);
      add_transposed(T{1}, d, of_queries(b, cotangents.clean(), n.value_width), dv_block);
      cotangents.add_zeroed(b.first_query, b.keys.size(), b.rows, {d.at, p.at, 1, n.keys},
                            dv_block.at);
      back_through_scores(p, dp, of_queries(b, queries.clean(), n.width),
                          of_keys(b, keys.clean(), n.width), of_queries(b, dq, n.width),
                          of_keys(b, dk, n.width));
    });
    return gradients;
  }

  std::array<Tensor, 2> weights_gradient(const Tensor& q, const Tensor& k, const Tensor& weights,
                                         const Tensor& d_weights) const {
    std::array<Tensor, 2> gradients{empty_like(q), zeros(k.shape(), k.dtype())};
    T* dq = out<T>(gradients[0]);
    T* dk = out<T>(gradients[1]);
    const FiniteRows<T> queries(q, check_finite);
    const FiniteRows<T> keys(k, check_finite);
    const int64_t chunk = units_per_chunk(2 * n.queries * n.keys * n.width);
    Scratch<T> scratch(true, n.batch * n.heads, chunk, kBlock * n.keys);
    for_heads(chunk, [&](const Block& b, int64_t first_head) {
      const In given = of_weights(b, in<T>(d_weights));
      const Out dp = working(b, scratch.of(first_head));
      for (int64_t i = 0; i < b.rows; ++i) std::copy_n(given.row(i), given.columns, dp.row(i));
      back_through_scores(
          of_weights(b, in<T>(weights)), dp, of_queries(b, queries.clean(), n.width),
          of_keys(b, keys.clean(), n.width), of_queries(b, dq, n.width), of_keys(b, dk, n.width));
    });
    return gradients;
  }
};

AttentionCall::Result AttentionCall::forward(const Tensor& q, const Tensor& k,
                                             const Tensor& v) const {
  return with_float("attention", q.dtype(),
                    [&](auto zero) { return Kernel<decltype(zero)>{*this}.forward(q, k, v); });
}

std::array<Tensor, 3> AttentionCall::output_gradient(const Tensor& q, const Tensor& k,
                                                     const Tensor& v, const Tensor& weights,
                                                     const Tensor& d_output) const {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return Kernel<decltype(zero)>{*this}.output_gradient(q, k, v, weights, d_output);
  });
}

std::array<Tensor, 2> AttentionCall::weights_gradient(const Tensor& q, const Tensor& k,
                                                      const Tensor& weights,
                                                      const Tensor& d_weights) const {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return Kernel<decltype(zero)>{*this}.weights_gradient(q, k, weights, d_weights);
  });
}

}  // namespace tapehead::detail

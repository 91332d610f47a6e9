// The direct kernel: the weights stay in memory from forward to backward.
#include <algorithm>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/attention_bias.hpp"
#include "ops/attention_call.hpp"
#include "ops/attention_scores.hpp"
#include "ops/finite_rows.hpp"
#include "ops/piece.hpp"
#include "ops/softmax_row.hpp"

namespace tapehead::detail {

using std::int64_t;

namespace {

constexpr int64_t kBlock = AttentionCall::kBlock;

template <class T>
struct DirectAttention {
  using In = Piece<const T>;
  using Out = Piece<T>;

  const AttentionCall& call;
  const AttentionSizes& n = call.sizes();
  const AttentionTerms& terms = call.terms();
  const Scores<T> scores{call};
  const T scale = static_cast<T>(terms.scale);
  const bool drops = terms.dropout > 0;
  const bool check_finite = !call.mask().is_all();

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
    const int64_t first_key = head_of_batch / n.group * n.keys + keys.begin;
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

  // x = scale q k^T, capped.
  void capped_scores(const Block& b, const Tensor& q, const Tensor& k, const Out& x) const {
    multiply_transposed(scale, of_queries(b, in<T>(q), n.width), of_keys(b, in<T>(k), n.width), x);
    if (!scores.capped()) return;
    for (int64_t i = 0; i < b.rows; ++i) scores.cap(x.row(i), x.columns);
  }

  // P = softmax of the scores over the visible keys.
  void weigh(const Block& b, const Tensor& q, const Tensor& k, const Out& p, unsigned char* visible,
             AttentionForward& f) const {
    capped_scores(b, q, k, p);
    const T sink = scores.sink(b.head);
    for (int64_t i = 0; i < b.rows; ++i) {
      scores.bias_and_hide(b.batch, b.head, b.query + i, b.keys.begin, b.keys.mixed, p.row(i),
                           {visible, static_cast<std::size_t>(p.columns)});
      const RowScale<T> row = softmax_row(p.row(i), p.columns, sink);
      if (f.maxima.defined()) {
        out<T>(f.maxima)[b.first_query + i] = row.maximum;
        out<T>(f.factors)[b.first_query + i] = row.factor;
      }
      T* whole_row = p.row(i) - b.keys.begin;
      std::fill(whole_row, whole_row + b.keys.begin, T{0});
      std::fill(whole_row + b.keys.end, whole_row + n.keys, T{0});
    }
  }

  // What dropout multiplies a weight by.
  T dropout_factor(int64_t weight) const {
    const bool kept = terms.rng->uniform_at(static_cast<std::uint64_t>(weight)) >= terms.dropout;
    return kept ? static_cast<T>(1 / (1 - terms.dropout)) : T{0};
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

  // What backward works with, of one chunk of heads.
  struct Backward {
    Tensor dq, dk, dx;  // dx [B,H,T,S] only where a bias wants it
    FiniteRows<T> queries, keys;
    int64_t chunk;
    Scratch<T> capped;
  };

  Backward backward(const Tensor& q, const Tensor& k, const WantedTerms& wanted,
                    int64_t width) const {
    const int64_t chunk = units_per_chunk(2 * n.group * n.queries * n.keys * width);
    const bool bias = wanted.bias || wanted.relative;
    return {empty_like(q),
            zeros(k.shape(), k.dtype()),
            bias ? zeros({n.batch, n.heads, n.queries, n.keys}, q.dtype()) : Tensor(),
            FiniteRows<T>(q, check_finite),
            FiniteRows<T>(k, check_finite),
            chunk,
            Scratch<T>(scores.capped(), n.batch * n.key_heads(), chunk, kBlock * n.keys)};
  }

  // dx = P * (dP - rowsum(P * dP)), overwriting dP, and through the soft cap; dq = scale dx k;
  // dk += scale dx^T q. A query or key that is not finite has made every weight it touches NaN or
  // 0, so dx carries what is due and the zeroed row need not be added back.
  void back_through_scores(const Block& b, const In& p, const Out& dx, const Tensor& q,
                           const Tensor& k, Backward& work, int64_t first_unit) const {
    for (int64_t i = 0; i < p.rows; ++i) softmax_gradient_row(p.row(i), dx.row(i), p.columns);
    if (work.dx.defined()) {
      const Out kept = of_weights(b, out<T>(work.dx));
      for (int64_t i = 0; i < p.rows; ++i) std::copy_n(dx.row(i), dx.columns, kept.row(i));
    }
    if (scores.capped()) {
      const Out x = working(b, work.capped.of(first_unit));
      capped_scores(b, q, k, x);
      for (int64_t i = 0; i < p.rows; ++i) scores.through_cap(x.row(i), dx.row(i), x.columns);
    }
    multiply(scale, dx, of_keys(b, work.keys.clean(), n.width),
             of_queries(b, out<T>(work.dq), n.width));
    add_transposed(scale, dx, of_queries(b, work.queries.clean(), n.width),
                   of_keys(b, out<T>(work.dk), n.width));
  }

  // Calls f(block, first unit of the chunk) for every block of queries. Heads that share keys come
  // one after another, and so do the blocks of a head: they add to the same dk and dv.
  template <class F>
  void for_key_heads(int64_t chunk, F f) const {
    parallel_for(n.batch * n.key_heads(), chunk, [&](int64_t begin, int64_t end) {
      for (int64_t head = begin * n.group; head < end * n.group; ++head) {
        for (int64_t block = 0; block < call.blocks(); ++block) f(block_of(head, block), begin);
      }
    });
  }

  void finish(AttentionGradients& g, Backward& work, const WantedTerms& wanted) const {
    g.q = work.dq;
    g.k = work.dk;
    const auto rows_of = [&](int64_t batch, int64_t head, int64_t query, int64_t, T*) {
      return in<T>(work.dx) + ((batch * n.heads + head) * n.queries + query) * n.keys;
    };
    if (wanted.bias) g.bias = bias_gradient<T>(call, kBlock, 0, rows_of);
    if (wanted.relative) g.relative = relative_gradient<T>(call, kBlock, 0, rows_of);
  }

  AttentionForward forward(const Tensor& q, const Tensor& k, const Tensor& v) const {
    AttentionForward f;
    f.output = empty({n.batch, n.heads, n.queries, n.value_width}, q.dtype());
    f.weights = empty({n.batch, n.heads, n.queries, n.keys}, q.dtype());
    if (terms.sinks.defined()) {
      f.maxima = empty({n.batch, n.heads, n.queries}, q.dtype());
      f.factors = empty_like(f.maxima);
    }
    T* weights = out<T>(f.weights);
    T* output = out<T>(f.output);
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
        weigh(b, q, k, p, visible.of(begin), f);
        const Out d = drops ? working(b, dropped.of(begin)) : p;
        if (drops) drop(b, {p.at, p.rows, p.columns, p.stride}, d, nullptr);
        const Out y = of_queries(b, output, n.value_width);
        multiply(T{1}, d, of_keys(b, values.clean(), n.value_width), y);
        values.add_zeroed(b.first_key, b.rows, b.keys.size(), {d.at, p.at, n.keys, 1}, y.at);
      }
    });
    return f;
  }

  AttentionGradients output_gradient(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const AttentionForward& f, const Tensor& d_output,
                                     const WantedTerms& wanted) const {
    Backward work = backward(q, k, wanted, n.width + n.value_width);
    AttentionGradients g;
    g.v = zeros(v.shape(), v.dtype());
    T* dv = out<T>(g.v);
    const FiniteRows<T> cotangents(d_output, check_finite);
    const int64_t units = n.batch * n.key_heads();
    Scratch<T> scratch(true, units, work.chunk, kBlock * n.keys);
    Scratch<T> dropped(drops, units, work.chunk, kBlock * n.keys);
    for_key_heads(work.chunk, [&](const Block& b, int64_t first_unit) {
      const In p = of_weights(b, in<T>(f.weights));
      const Out dp = working(b, scratch.of(first_unit));
      multiply_transposed(T{1}, of_queries(b, in<T>(d_output), n.value_width),
                          of_keys(b, in<T>(v), n.value_width), dp);  // of D, so far
      In d = p;
      if (drops) {
        const Out kept = working(b, dropped.of(first_unit));
        drop(b, p, kept, &dp);
        d = {kept.at, kept.rows, kept.columns, kept.stride};
      }
      const Out dv_block = of_keys(b, dv, n.value_width);
      add_transposed(T{1}, d, of_queries(b, cotangents.clean(), n.value_width), dv_block);
      cotangents.add_zeroed(b.first_query, b.keys.size(), b.rows, {d.at, p.at, 1, n.keys},
                            dv_block.at);
      back_through_scores(b, p, dp, q, k, work, first_unit);
    });
    finish(g, work, wanted);
    return g;
  }

  AttentionGradients weights_gradient(const Tensor& q, const Tensor& k, const Tensor& weights,
                                      const Tensor& d_weights, const WantedTerms& wanted) const {
    Backward work = backward(q, k, wanted, n.width);
    Scratch<T> scratch(true, n.batch * n.key_heads(), work.chunk, kBlock * n.keys);
    for_key_heads(work.chunk, [&](const Block& b, int64_t first_unit) {
      const In given = of_weights(b, in<T>(d_weights));
      const Out dp = working(b, scratch.of(first_unit));
      for (int64_t i = 0; i < b.rows; ++i) std::copy_n(given.row(i), given.columns, dp.row(i));
      back_through_scores(b, of_weights(b, in<T>(weights)), dp, q, k, work, first_unit);
    });
    AttentionGradients g;
    finish(g, work, wanted);
    return g;
  }
};

}  // namespace

AttentionForward direct_forward(const AttentionCall& call, const Tensor& q, const Tensor& k,
                                const Tensor& v) {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return DirectAttention<decltype(zero)>{call}.forward(q, k, v);
  });
}

AttentionGradients direct_output_gradient(const AttentionCall& call, const Tensor& q,
                                          const Tensor& k, const Tensor& v,
                                          const AttentionForward& f, const Tensor& d_output,
                                          const WantedTerms& wanted) {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return DirectAttention<decltype(zero)>{call}.output_gradient(q, k, v, f, d_output, wanted);
  });
}

AttentionGradients direct_weights_gradient(const AttentionCall& call, const Tensor& q,
                                           const Tensor& k, const Tensor& weights,
                                           const Tensor& d_weights, const WantedTerms& wanted) {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return DirectAttention<decltype(zero)>{call}.weights_gradient(q, k, weights, d_weights, wanted);
  });
}

}  // namespace tapehead::detail

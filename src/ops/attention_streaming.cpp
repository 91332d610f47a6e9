// The streaming kernel: tiles of scores are made, used and forgotten.
//
// Forward walks over the keys of a block of queries with a running maximum m, a running sum l of
// e^(x - m) and a running output y, which are scaled down whenever a larger score turns up:
//   m' = max(m, max_s x_s),  l' = l e^(m - m') + sum_s e^(x_s - m'),
//   y' = y e^(m - m') + sum_s e^(x_s - m') v_s;   at the end P v = y / l
// Backward makes each tile of weights again from m and 1 / l, and uses that the row sum of P dP is
// y . dy. It walks over the queries of a tile of keys, so that dk and dv are added up in place;
// tiles of keys are dealt out to a fixed number of parts, each with its own dq, added at the end.
// Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al.,
// "FlashAttention" (2022).
#include <algorithm>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "core/tile_product.hpp"
#include "ops/attention_call.hpp"
#include "ops/attention_tiles.hpp"
#include "ops/finite_rows.hpp"

namespace tapehead::detail {

using std::int64_t;

namespace {

constexpr int64_t kChunks = 64;  // of forward, each with working memory of its own

template <class T>
struct StreamingForward : StreamingTiles<T> {
  using Tiles = StreamingTiles<T>;
  using Tile = typename Tiles::Tile;
  using Tiles::check_finite;
  using Tiles::dropout_factors;
  using Tiles::drops;
  using Tiles::kBlocked;
  using Tiles::key_tiles;
  using Tiles::kKeys;
  using Tiles::kQueries;
  using Tiles::kTile;
  using Tiles::make_scores;
  using Tiles::make_weights;
  using Tiles::n;
  using Tiles::query_tiles;
  using Tiles::scores;
  using Tiles::tile_in;
  using Tiles::tile_of;
  using Tiles::transposed_tiles;

  // The running sums of a block of queries: one step of the walk over the keys.
  void step(const Tile& t, T* x, T* maxima, double* sums, T* output) const {
    for (int64_t i = 0; i < t.rows; ++i) {
      T* row = x + i * kKeys;
      const T largest = lane_max(row, t.columns);
      const T m = largest > maxima[i] ? largest : maxima[i];
      for (int64_t j = 0; j < t.columns; ++j) {
        const T e = vector_exp(row[j] - m);
        row[j] = row[j] == kBlocked ? T{0} : e;
      }
      if (m != maxima[i]) {
        const T shrink = maxima[i] == kBlocked ? T{0} : vector_exp(maxima[i] - m);
        sums[i] *= static_cast<double>(shrink);
        T* y = output + i * n.value_width;
        for (int64_t j = 0; j < n.value_width; ++j) y[j] = shrink == 0 ? T{0} : y[j] * shrink;
        maxima[i] = m;
      }
      sums[i] += lane_sum(t.columns, [&](int64_t j) { return row[j]; });
    }
  }

  AttentionForward forward(const Tensor& q, const Tensor& k, const Tensor& v) const {
    AttentionForward f;
    f.output = zeros({n.batch, n.heads, n.queries, n.value_width}, q.dtype());
    f.maxima = empty({n.batch, n.heads, n.queries}, q.dtype());
    f.factors = empty_like(f.maxima);
    T* output = out<T>(f.output);
    const FiniteRows<T> values(v, check_finite);
    const Tensor transposed = transposed_tiles(k);
    const int64_t units = n.batch * n.heads * query_tiles;
    const int64_t chunk = few_chunks(units, kChunks);
    Scratch<T> tiles(true, units, chunk, kTile + kKeys);
    Scratch<unsigned char> visible(true, units, chunk, kKeys);
    parallel_for(units, chunk, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t batch = unit / query_tiles / n.heads;
        const int64_t head = unit / query_tiles % n.heads;
        const Tile block = tile_of(batch, head, unit % query_tiles, 0);
        const T sink = scores.sink(head);
        T* y = output + block.first_query * n.value_width;
        T* maxima = out<T>(f.maxima) + block.first_query;
        double sums[kQueries];
        std::fill_n(maxima, block.rows, sink);
        std::fill_n(sums, block.rows, sink == kBlocked ? 0.0 : 1.0);
        T* x = tiles.of(begin);
        for (int64_t tile = 0; tile < key_tiles; ++tile) {
          const Tile t = tile_of(batch, head, unit % query_tiles, tile);
          if (t.cover == Mask::Cover::none) continue;
          make_scores(t, in<T>(q), tile_in(transposed, t), x, nullptr, visible.of(begin));
          step(t, x, maxima, sums, y);
          add_values(t, x, values, y, x + kTile);
        }
        for (int64_t i = 0; i < block.rows; ++i) {
          const T factor = sums[i] == 0 ? T{0} : static_cast<T>(1 / sums[i]);
          out<T>(f.factors)[block.first_query + i] = factor;
          T* row = y + i * n.value_width;
          for (int64_t j = 0; j < n.value_width; ++j) row[j] *= factor;
        }
      }
    });
    return f;
  }

  // y += dropout(e) v.
  void add_values(const Tile& t, T* e, const FiniteRows<T>& values, T* y, T* factors) const {
    if (drops) {
      for (int64_t i = 0; i < t.rows; ++i) {
        T* row = e + i * kKeys;
        dropout_factors(t, i, row, factors);
        for (int64_t j = 0; j < t.columns; ++j)
          row[j] = factors[j] == 0 ? T{0} : row[j] * factors[j];
      }
    }
    TileProduct<T> product{t.rows,
                           n.value_width,
                           t.columns,
                           e,
                           kKeys,
                           1,
                           values.clean() + t.first_key * n.value_width,
                           n.value_width,
                           y,
                           n.value_width};
    product.accumulate = true;
    tile_product(product);
    values.add_zeroed(t.first_key, t.rows, t.columns, {e, e, kKeys, 1}, y);
  }

  Tensor weights(const Tensor& q, const Tensor& k, const AttentionForward& f) const {
    Tensor result = zeros({n.batch, n.heads, n.queries, n.keys}, q.dtype());
    const Tensor keys = transposed_tiles(k);
    const int64_t units = n.batch * n.heads * query_tiles;
    const int64_t chunk = few_chunks(units, kChunks);
    Scratch<T> tiles(true, units, chunk, kTile);
    Scratch<unsigned char> visible(true, units, chunk, kKeys);
    parallel_for(units, chunk, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        for (int64_t tile = 0; tile < key_tiles; ++tile) {
          const Tile t = tile_of(unit / query_tiles / n.heads, unit / query_tiles % n.heads,
                                 unit % query_tiles, tile);
          if (t.cover == Mask::Cover::none) continue;
          T* x = tiles.of(begin);
          make_scores(t, in<T>(q), tile_in(keys, t), x, nullptr, visible.of(begin));
          make_weights(t, in<T>(f.maxima), in<T>(f.factors), x);
          for (int64_t i = 0; i < t.rows; ++i) {
            std::copy_n(x + i * kKeys, t.columns,
                        out<T>(result) + (t.first_query + i) * n.keys + t.key);
          }
        }
      }
    });
    return result;
  }
};

}  // namespace

AttentionForward streaming_forward(const AttentionCall& call, const Tensor& q, const Tensor& k,
                                   const Tensor& v) {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return StreamingForward<decltype(zero)>{{call}}.forward(q, k, v);
  });
}

Tensor streaming_weights(const AttentionCall& call, const Tensor& q, const Tensor& k,
                         const AttentionForward& f) {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return StreamingForward<decltype(zero)>{{call}}.weights(q, k, f);
  });
}

}  // namespace tapehead::detail

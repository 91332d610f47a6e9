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
#include "ops/attention_bias.hpp"
#include "ops/attention_call.hpp"
#include "ops/attention_scores.hpp"
#include "ops/finite_rows.hpp"

namespace tapehead::detail {

using std::int64_t;

namespace {

constexpr int64_t kQueries = 96;  // per tile; a multiple of the rows of a micro kernel
constexpr int64_t kKeys = 128;    // per tile; a multiple of its columns
constexpr int64_t kTile = kQueries * kKeys;
constexpr int64_t kChunks = 64;  // of forward, each with working memory of its own
constexpr int64_t kUnits = 8;    // backward is cut into at least this many pieces, if it can be

int64_t parts_of(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

template <class T>
struct StreamingAttention {
  const AttentionCall& call;
  const AttentionSizes& n = call.sizes();
  const AttentionTerms& terms = call.terms();
  const Scores<T> scores{call};
  const T scale = static_cast<T>(terms.scale);
  const bool drops = terms.dropout > 0;
  const bool check_finite = !call.mask().is_all();
  const int64_t query_tiles = parts_of(n.queries, kQueries);
  const int64_t key_tiles = parts_of(n.keys, kKeys);

  static constexpr T kBlocked = -std::numeric_limits<T>::infinity();

  // Queries [query, query + rows) of one head with keys [key, key + columns).
  struct Tile {
    int64_t batch, head, query, rows, key, columns;
    int64_t first_query, first_key;  // among all heads
    Mask::Cover cover;
  };

  Tile tile_of(int64_t batch, int64_t head, int64_t query_tile, int64_t key_tile) const {
    Tile t{};
    t.batch = batch;
    t.head = head;
    t.query = query_tile * kQueries;
    t.rows = std::min(kQueries, n.queries - t.query);
    t.key = key_tile * kKeys;
    t.columns = std::min(kKeys, n.keys - t.key);
    t.first_query = (batch * n.heads + head) * n.queries + t.query;
    t.first_key = (batch * n.key_heads() + head / n.group) * n.keys + t.key;
    t.cover = call.mask().is_all() ? Mask::Cover::all
                                   : call.mask().cover(batch, head, t.query, t.query + t.rows,
                                                       t.key, t.key + t.columns);
    return t;
  }

  // Rows of k or v [columns, width] as [width, kKeys], filled up with zeros: the products' right
  // sides.
  static void transpose(const T* x, int64_t columns, int64_t width, T* to) {
    for (int64_t i = 0; i < width; ++i) {
      T* row = to + i * kKeys;
      for (int64_t j = 0; j < columns; ++j) row[j] = x[j * width + i];
      std::fill(row + columns, row + kKeys, T{0});
    }
  }

  // x = scale q k^T, capped; rows of kKeys. `kept` gets a copy before biases and mask, if given.
  void make_scores(const Tile& t, const T* q, const T* transposed_keys, T* x, T* kept,
                   unsigned char* visible) const {
    TileProduct<T> product{t.rows,  kKeys, n.width,         q + t.first_query * n.width,
                           n.width, 1,     transposed_keys, kKeys,
                           x,       kKeys};
    product.alpha = scale;
    tile_product(product);
    for (int64_t i = 0; i < t.rows; ++i) {
      T* row = x + i * kKeys;
      if (scores.capped()) scores.cap(row, t.columns);
      if (kept != nullptr) std::copy_n(row, t.columns, kept + i * kKeys);
      scores.bias_and_hide(t.batch, t.head, t.query + i, t.key, t.cover == Mask::Cover::mixed, row,
                           {visible, static_cast<std::size_t>(t.columns)});
    }
  }

  // x becomes P, from what forward saved. Were a compiler to make these scores another way than
  // forward's, a large one could lie above the maximum by a rounding: e^0, not e^1000.
  void make_weights(const Tile& t, const T* maxima, const T* factors, T* x) const {
    for (int64_t i = 0; i < t.rows; ++i) {
      const T m = maxima[t.first_query + i];
      const T factor = factors[t.first_query + i];
      T* row = x + i * kKeys;
      for (int64_t j = 0; j < t.columns; ++j) {
        const T below = row[j] > m ? T{0} : row[j] - m;
        const T e = vector_exp(below);
        row[j] = row[j] == kBlocked ? T{0} : e;
      }
      for (int64_t j = 0; j < t.columns; ++j) {
        const T weight = row[j] * factor;
        row[j] = row[j] == 0 ? T{0} : weight;
      }
    }
  }

  // What dropout multiplies the weights of row i by; a weight of 0 needs no draw.
  void dropout_factors(const Tile& t, int64_t i, const T* weights, T* factors) const {
    const int64_t first = (t.first_query + i) * n.keys + t.key;
    for (int64_t j = 0; j < t.columns; ++j) {
      const bool kept =
          weights[j] != 0 &&
          terms.rng->uniform_at(static_cast<std::uint64_t>(first + j)) >= terms.dropout;
      factors[j] = kept ? static_cast<T>(1 / (1 - terms.dropout)) : T{0};
    }
  }

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

  // k [B,G,S,d] as tiles [B,G,tiles,d,kKeys].
  Tensor transposed_tiles(const Tensor& k) const {
    const int64_t heads = n.batch * n.key_heads();
    const int64_t width = k.dim(3);
    Tensor result = empty({heads * key_tiles, width, kKeys}, k.dtype());
    parallel_for(heads * key_tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t key = i % key_tiles * kKeys;
        transpose(in<T>(k) + (i / key_tiles * n.keys + key) * width, std::min(kKeys, n.keys - key),
                  width, out<T>(result) + i * width * kKeys);
      }
    });
    return result;
  }
  // A tile of the above.
  const T* tile_in(const Tensor& transposed, const Tile& t) const {
    const int64_t head = t.batch * n.key_heads() + t.head / n.group;
    return in<T>(transposed) + (head * key_tiles + t.key / kKeys) * transposed.dim(1) * kKeys;
  }

  // What backward reads, and where a chunk of it works.
  struct Saved {
    const T* q;
    const T* d_output;
    const T* maxima;
    const T* factors;
    const T* means;  // row sums of P dP
  };
  struct Work {
    T* x;        // scores, then weights P
    T* dx;       // dP, then the gradient of the scores
    T* dropped;  // D = dropout(P)
    T* capped;   // scores before biases and mask
    T* draws;    // one row
    unsigned char* visible;
  };
  int64_t work_size() const { return (2 + (drops ? 1 : 0) + (scores.capped() ? 1 : 0)) * kTile; }
  Work work_at(T* memory, T* draws, unsigned char* visible) const {
    Work w{memory, memory + kTile, memory, memory, draws, visible};
    if (drops) w.dropped = memory + 2 * kTile;
    if (scores.capped()) w.capped = memory + work_size() - kTile;
    return w;
  }

  // The weights of a tile, dropped as forward dropped them, and dx before the cap: P (dP - mean).
  void make_gradient(const Tile& t, const Saved& s, const T* keys, const T* values,
                     const Work& w) const {
    make_scores(t, s.q, keys, w.x, scores.capped() ? w.capped : nullptr, w.visible);
    make_weights(t, s.maxima, s.factors, w.x);
    tile_product<T>({t.rows, kKeys, n.value_width, s.d_output + t.first_query * n.value_width,
                     n.value_width, 1, values, kKeys, w.dx, kKeys});
    for (int64_t i = 0; i < t.rows; ++i) {
      const T* p = w.x + i * kKeys;
      T* dx = w.dx + i * kKeys;
      if (drops) {
        T* d = w.dropped + i * kKeys;
        dropout_factors(t, i, p, w.draws);
        for (int64_t j = 0; j < t.columns; ++j) {
          d[j] = w.draws[j] == 0 ? T{0} : p[j] * w.draws[j];
          dx[j] = w.draws[j] == 0 ? T{0} : dx[j] * w.draws[j];
        }
      }
      const T mean = s.means[t.first_query + i];
      for (int64_t j = 0; j < t.columns; ++j) {
        const T product = p[j] * (dx[j] - mean);
        dx[j] = p[j] == 0 ? T{0} : product;
      }
    }
  }

  Tensor row_means(const Tensor& y, const Tensor& dy) const {
    Tensor means = empty({n.batch * n.heads * n.queries}, y.dtype());
    parallel_for(means.size(), rows_per_chunk(n.value_width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        out<T>(means)[row] = static_cast<T>(selected_dot(
            in<T>(y) + row * n.value_width, in<T>(dy) + row * n.value_width, n.value_width));
      }
    });
    return means;
  }

  AttentionGradients output_gradient(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const AttentionForward& f, const Tensor& d_output,
                                     const WantedTerms& wanted) const {
    const FiniteRows<T> queries(q, check_finite);
    const FiniteRows<T> keys(k, check_finite);
    const FiniteRows<T> cotangents(d_output, check_finite);
    const Tensor means = row_means(f.output, d_output);
    const Saved saved{in<T>(q), in<T>(d_output), in<T>(f.maxima), in<T>(f.factors), in<T>(means)};

    const int64_t heads = n.batch * n.key_heads();
    const int64_t wanted_parts = std::min(key_tiles, parts_of(kUnits, std::max<int64_t>(1, heads)));
    const int64_t parts = std::max<int64_t>(1, wanted_parts);
    Tensor partial = zeros({parts, q.size()}, q.dtype());  // dq of each part
    AttentionGradients g;
    g.k = zeros(k.shape(), k.dtype());
    g.v = zeros(v.shape(), v.dtype());
    T* dk = out<T>(g.k);
    T* dv = out<T>(g.v);
    const int64_t units = heads * parts;
    const int64_t chunk = few_chunks(units, 2 * kUnits);
    Scratch<T> tiles(true, units, chunk, work_size() + kKeys * (1 + n.width + n.value_width));
    Scratch<unsigned char> visible(true, units, chunk, kKeys);
    parallel_for(units, chunk, [&](int64_t begin, int64_t end) {
      T* keys_t = tiles.of(begin) + work_size();
      T* values_t = keys_t + kKeys * n.width;
      const Work w = work_at(tiles.of(begin), values_t + kKeys * n.value_width, visible.of(begin));
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t batch = unit / parts / n.key_heads();
        const int64_t first_head = unit / parts % n.key_heads() * n.group;
        T* dq = out<T>(partial) + unit % parts * q.size();
        for (int64_t tile = unit % parts; tile < key_tiles; tile += parts) {
          const Tile place = tile_of(batch, first_head, 0, tile);
          transpose(in<T>(k) + place.first_key * n.width, place.columns, n.width, keys_t);
          transpose(in<T>(v) + place.first_key * n.value_width, place.columns, n.value_width,
                    values_t);
          for (int64_t i = 0; i < n.group * query_tiles; ++i) {
            const Tile t = tile_of(batch, first_head + i / query_tiles, i % query_tiles, tile);
            if (t.cover == Mask::Cover::none) continue;
            make_gradient(t, saved, keys_t, values_t, w);
            add_to_values(t, w, cotangents, dv + t.first_key * n.value_width);
            if (scores.capped()) {
              for (int64_t row = 0; row < t.rows; ++row)
                scores.through_cap(w.capped + row * kKeys, w.dx + row * kKeys, t.columns);
            }
            add_to_queries(t, w.dx, keys.clean(), dq + t.first_query * n.width);
            add_to_keys(t, w.dx, queries.clean(), dk + t.first_key * n.width);
          }
        }
      }
    });
    g.q = sum_of_parts(partial, q.shape());
    add_bias_gradients(g, saved, k, v, wanted);
    return g;
  }

  // dv += D^T dy
  void add_to_values(const Tile& t, const Work& w, const FiniteRows<T>& dy, T* dv) const {
    tile_product<T>({t.columns, n.value_width, t.rows, w.dropped, 1, kKeys,
                     dy.clean() + t.first_query * n.value_width, n.value_width, dv, n.value_width,
                     T{1}, true});
    dy.add_zeroed(t.first_query, t.columns, t.rows, {w.dropped, w.dropped, 1, kKeys}, dv);
  }
  // dq += scale dx k
  void add_to_queries(const Tile& t, const T* dx, const T* k, T* dq) const {
    tile_product<T>({t.rows, n.width, t.columns, dx, kKeys, 1, k + t.first_key * n.width, n.width,
                     dq, n.width, scale, true});
  }
  // dk += scale dx^T q
  void add_to_keys(const Tile& t, const T* dx, const T* q, T* dk) const {
    tile_product<T>({t.columns, n.width, t.rows, dx, 1, kKeys, q + t.first_query * n.width, n.width,
                     dk, n.width, scale, true});
  }

  static Tensor sum_of_parts(const Tensor& partial, const Shape& shape) {
    const int64_t parts = partial.dim(0);
    const int64_t size = partial.dim(1);
    if (parts == 1) return TensorAccess::view(partial, shape);
    Tensor total = empty(shape, partial.dtype());
    parallel_for(size, kElementChunk, [&](int64_t begin, int64_t end) {
      std::copy(in<T>(partial) + begin, in<T>(partial) + end, out<T>(total) + begin);
      for (int64_t part = 1; part < parts; ++part) {
        const T* from = in<T>(partial) + part * size;
        for (int64_t i = begin; i < end; ++i) out<T>(total)[i] += from[i];
      }
    });
    return total;
  }

  // A second walk, over the keys of a block of queries: only those who train a bias pay for it.
  void add_bias_gradients(AttentionGradients& g, const Saved& saved, const Tensor& k,
                          const Tensor& v, const WantedTerms& wanted) const {
    if (!wanted.bias && !wanted.relative) return;
    const Tensor keys = transposed_tiles(k);
    const Tensor values = transposed_tiles(v);
    const auto rows_of = [&](int64_t batch, int64_t head, int64_t query, int64_t rows, T* dx) {
      std::fill_n(dx, rows * n.keys, T{0});
      T* memory = dx + kQueries * n.keys;
      const Work w = work_at(memory, memory + work_size(),
                             reinterpret_cast<unsigned char*>(memory + work_size() + kKeys));
      for (int64_t tile = 0; tile < key_tiles; ++tile) {
        const Tile t = tile_of(batch, head, query / kQueries, tile);
        if (t.cover == Mask::Cover::none) continue;
        make_gradient(t, saved, tile_in(keys, t), tile_in(values, t), w);
        for (int64_t i = 0; i < rows; ++i)
          std::copy_n(w.dx + i * kKeys, t.columns, dx + i * n.keys + t.key);
      }
      return static_cast<const T*>(dx);
    };
    const int64_t room = kQueries * n.keys + work_size() + 2 * kKeys;
    if (wanted.bias) g.bias = bias_gradient<T>(call, kQueries, room, rows_of);
    if (wanted.relative) g.relative = relative_gradient<T>(call, kQueries, room, rows_of);
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
    return StreamingAttention<decltype(zero)>{call}.forward(q, k, v);
  });
}

Tensor streaming_weights(const AttentionCall& call, const Tensor& q, const Tensor& k,
                         const AttentionForward& f) {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return StreamingAttention<decltype(zero)>{call}.weights(q, k, f);
  });
}

AttentionGradients streaming_output_gradient(const AttentionCall& call, const Tensor& q,
                                             const Tensor& k, const Tensor& v,
                                             const AttentionForward& f, const Tensor& d_output,
                                             const WantedTerms& wanted) {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return StreamingAttention<decltype(zero)>{call}.output_gradient(q, k, v, f, d_output, wanted);
  });
}

}  // namespace tapehead::detail

// Backward of the streaming kernel; what it does and why stands in attention_streaming.cpp.
#include <algorithm>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "core/tile_product.hpp"
#include "ops/attention_bias.hpp"
#include "ops/attention_call.hpp"
#include "ops/attention_tiles.hpp"
#include "ops/finite_rows.hpp"

namespace tapehead::detail {

using std::int64_t;

namespace {

constexpr int64_t kUnits = 8;  // the work is cut into at least this many pieces, if it can be

template <class T>
struct StreamingBackward : StreamingTiles<T> {
  using Tiles = StreamingTiles<T>;
  using Tile = typename Tiles::Tile;
  using Tiles::call;
  using Tiles::check_finite;
  using Tiles::dropout_factors;
  using Tiles::drops;
  using Tiles::key_tiles;
  using Tiles::kKeys;
  using Tiles::kQueries;
  using Tiles::kTile;
  using Tiles::make_scores;
  using Tiles::make_weights;
  using Tiles::n;
  using Tiles::parts_of;
  using Tiles::query_tiles;
  using Tiles::scale;
  using Tiles::scores;
  using Tiles::tile_in;
  using Tiles::tile_of;
  using Tiles::transpose;
  using Tiles::transposed_tiles;

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
};

}  // namespace

AttentionGradients streaming_output_gradient(const AttentionCall& call, const Tensor& q,
                                             const Tensor& k, const Tensor& v,
                                             const AttentionForward& f, const Tensor& d_output,
                                             const WantedTerms& wanted) {
  return with_float("attention", q.dtype(), [&](auto zero) {
    return StreamingBackward<decltype(zero)>{{call}}.output_gradient(q, k, v, f, d_output, wanted);
  });
}

}  // namespace tapehead::detail

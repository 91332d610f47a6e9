// What both passes of the streaming kernel do with a tile of scores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "core/tile_product.hpp"
#include "ops/attention_call.hpp"
#include "ops/attention_scores.hpp"

namespace tapehead::detail {

template <class T>
struct StreamingTiles {
  static constexpr std::int64_t kQueries =
      96;                                     // per tile; a multiple of the rows of a micro kernel
  static constexpr std::int64_t kKeys = 128;  // per tile; a multiple of its columns
  static constexpr std::int64_t kTile = kQueries * kKeys;

  static std::int64_t parts_of(std::int64_t size, std::int64_t tile) {
    return (size + tile - 1) / tile;
  }

  const AttentionCall& call;
  const AttentionSizes& n = call.sizes();
  const AttentionTerms& terms = call.terms();
  const Scores<T> scores{call};
  const T scale = static_cast<T>(terms.scale);
  const bool drops = terms.dropout > 0;
  const bool check_finite = !call.mask().is_all();
  const std::int64_t query_tiles = parts_of(n.queries, kQueries);
  const std::int64_t key_tiles = parts_of(n.keys, kKeys);

  static constexpr T kBlocked = -std::numeric_limits<T>::infinity();

  // Queries [query, query + rows) of one head with keys [key, key + columns).
  struct Tile {
    std::int64_t batch, head, query, rows, key, columns;
    std::int64_t first_query, first_key;  // among all heads
    Mask::Cover cover;
  };

  Tile tile_of(std::int64_t batch, std::int64_t head, std::int64_t query_tile,
               std::int64_t key_tile) const {
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
  static void transpose(const T* x, std::int64_t columns, std::int64_t width, T* to) {
    for (std::int64_t i = 0; i < width; ++i) {
      T* row = to + i * kKeys;
      for (std::int64_t j = 0; j < columns; ++j) row[j] = x[j * width + i];
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
    for (std::int64_t i = 0; i < t.rows; ++i) {
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
    for (std::int64_t i = 0; i < t.rows; ++i) {
      const T m = maxima[t.first_query + i];
      const T factor = factors[t.first_query + i];
      T* row = x + i * kKeys;
      for (std::int64_t j = 0; j < t.columns; ++j) {
        const T below = row[j] > m ? T{0} : row[j] - m;
        const T e = vector_exp(below);
        row[j] = row[j] == kBlocked ? T{0} : e;
      }
      for (std::int64_t j = 0; j < t.columns; ++j) {
        const T weight = row[j] * factor;
        row[j] = row[j] == 0 ? T{0} : weight;
      }
    }
  }

  // What dropout multiplies the weights of row i by; a weight of 0 needs no draw.
  void dropout_factors(const Tile& t, std::int64_t i, const T* weights, T* factors) const {
    const std::int64_t first = (t.first_query + i) * n.keys + t.key;
    for (std::int64_t j = 0; j < t.columns; ++j) {
      const bool kept =
          weights[j] != 0 &&
          terms.rng->uniform_at(static_cast<std::uint64_t>(first + j)) >= terms.dropout;
      factors[j] = kept ? static_cast<T>(1 / (1 - terms.dropout)) : T{0};
    }
  }

  // k [B,G,S,d] as tiles [B,G,tiles,d,kKeys].
  Tensor transposed_tiles(const Tensor& k) const {
    const std::int64_t heads = n.batch * n.key_heads();
    const std::int64_t width = k.dim(3);
    Tensor result = empty({heads * key_tiles, width, kKeys}, k.dtype());
    parallel_for(heads * key_tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t key = i % key_tiles * kKeys;
        transpose(in<T>(k) + (i / key_tiles * n.keys + key) * width, std::min(kKeys, n.keys - key),
                  width, out<T>(result) + i * width * kKeys);
      }
    });
    return result;
  }
  // A tile of the above.
  const T* tile_in(const Tensor& transposed, const Tile& t) const {
    const std::int64_t head = t.batch * n.key_heads() + t.head / n.group;
    return in<T>(transposed) + (head * key_tiles + t.key / kKeys) * transposed.dim(1) * kKeys;
  }
};

}  // namespace tapehead::detail

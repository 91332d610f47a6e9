// c = alpha a b, or c += alpha a b, for matrices that fit in the caches: the products of attention
// tiles, which are too small for BLAS (it reaches 20 to 60 of 103 GFLOP/s on them here, this up to
// 100). A micro kernel keeps kTileRows rows and two vectors of columns of c in registers and walks
// once over the inner axis, so that element (i, j) is the same sum in the same order wherever it
// stands in c. Nothing is packed: rows of b are read as they lie, elements of a one by one with any
// strides, which serves a and its transpose alike. Goto, van de Geijn, "Anatomy of high-performance
// matrix multiplication" (2008).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tapehead::detail {

// Two vectors of columns: 6 x 2 accumulators of 16 registers with AVX2, the rest holds copies. With
// AVX-512, which has twice the registers, 12 rows were no faster.
#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif
inline constexpr int kTileRows = kVectorBytes == 16 ? 4 : 6;
template <class T>
inline constexpr std::int64_t kTileColumns = 2 * kVectorBytes / static_cast<int>(sizeof(T));

// a [m, k], element (i, l) at a[i * a_row + l * a_column]; b [k, n] and c [m, n] with rows of
// neighbours, b_row and c_row apart.
template <class T>
struct TileProduct {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t a_row, a_column;
  const T* b;
  std::int64_t b_row;
  T* c;
  std::int64_t c_row;
  T alpha = 1;
  bool accumulate = false;
};

// Rows x (Vectors vectors) of c.
template <class T, int Rows, int Vectors>
inline void micro_product(const TileProduct<T>& p) {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  constexpr std::int64_t kWidth = kTileColumns<T> / 2;
  Vector sum[Rows][Vectors] = {};
  const T* a = p.a;
  const T* b = p.b;
  for (std::int64_t l = 0; l < p.k; ++l, a += p.a_column, b += p.b_row) {
    Vector row[Vectors];
    for (int v = 0; v < Vectors; ++v) std::memcpy(&row[v], b + v * kWidth, sizeof row[v]);
    for (int i = 0; i < Rows; ++i) {
      const T factor = a[i * p.a_row];
      for (int v = 0; v < Vectors; ++v) sum[i][v] += factor * row[v];
    }
  }
  for (int i = 0; i < Rows; ++i) {
    for (int v = 0; v < Vectors; ++v) {
      T* c = p.c + i * p.c_row + v * kWidth;
      Vector result = p.alpha * sum[i][v];
      if (p.accumulate) {
        Vector before;
        std::memcpy(&before, c, sizeof before);
        result += before;
      }
      std::memcpy(c, &result, sizeof result);
    }
  }
}

// The last rows, fewer than a micro kernel's.
template <class T, int Vectors, int Rows>
inline void last_rows(const TileProduct<T>& p) {
  if constexpr (Rows > 0) {
    if (p.m == Rows) return micro_product<T, Rows, Vectors>(p);
    last_rows<T, Vectors, Rows - 1>(p);
  }
}

// One column of micro kernels: n = Vectors vectors. Fewer vectors go with more rows.
template <class T, int Vectors = 2>
inline void panel_product(TileProduct<T> p) {
  constexpr int kRows = kTileRows * 2 / Vectors;
  for (; p.m >= kRows; p.m -= kRows) {
    micro_product<T, kRows, Vectors>(p);
    p.a += kRows * p.a_row;
    p.c += kRows * p.c_row;
  }
  last_rows<T, Vectors, kRows - 1>(p);
}

// The last columns, fewer than kTileColumns: b is copied and filled up with zeros, one piece of the
// inner axis after the other.
template <class T>
void last_columns(const TileProduct<T>& p) {
  constexpr std::int64_t kDepth = 64;
  constexpr std::int64_t kColumns = kTileColumns<T>;
  T b[kDepth * kColumns] = {};
  T c[kTileRows * kColumns];
  std::int64_t first = 0;
  do {
    const std::int64_t depth = std::min(kDepth, p.k - first);
    for (std::int64_t l = 0; l < depth; ++l)
      std::copy_n(p.b + (first + l) * p.b_row, p.n, b + l * kColumns);
    for (std::int64_t i = 0; i < p.m; i += kTileRows) {
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, p.m - i);
      const T* a = p.a + i * p.a_row + first * p.a_column;
      panel_product<T>({rows, kColumns, depth, a, p.a_row, p.a_column, b, kColumns, c, kColumns,
                        p.alpha, false});
      for (std::int64_t r = 0; r < rows; ++r) {
        T* to = p.c + (i + r) * p.c_row;
        for (std::int64_t j = 0; j < p.n; ++j) {
          const T before = p.accumulate || first > 0 ? to[j] : T{0};
          to[j] = before + c[r * kColumns + j];
        }
      }
    }
    first += kDepth;
  } while (first < p.k);
}

template <class T>
void tile_product(TileProduct<T> p) {
  for (; p.n >= kTileColumns<T>; p.n -= kTileColumns<T>) {
    panel_product(p);
    p.b += kTileColumns<T>;
    p.c += kTileColumns<T>;
  }
  if (p.n >= kTileColumns<T> / 2) {
    panel_product<T, 1>(p);
    p.n -= kTileColumns<T> / 2;
    p.b += kTileColumns<T> / 2;
    p.c += kTileColumns<T> / 2;
  }
  if (p.n > 0) last_columns(p);
}

}  // namespace tapehead::detail

// Products of parts of matrices, for kernels that run inside parallel_for.
#pragma once

#include <cstdint>

#include "core/gemm.hpp"

namespace tapehead::detail {

// Part of a larger row-major matrix.
template <class T>
struct Piece {
  T* at;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
  [[nodiscard]] T* row(std::int64_t i) const { return at + i * stride; }
};

// c = alpha a b
template <class T, class A, class B>
void multiply(T alpha, const Piece<A>& a, const Piece<B>& b, const Piece<T>& c) {
  GemmArgs<T> g{.m = a.rows, .n = b.columns, .k = a.columns, .a = a.at, .b = b.at, .c = c.at};
  g.alpha = alpha;
  gemm_serial(g, a.stride, b.stride, c.stride);
}
// c = alpha a b^T
template <class T, class A, class B>
void multiply_transposed(T alpha, const Piece<A>& a, const Piece<B>& b, const Piece<T>& c) {
  GemmArgs<T> g{.m = a.rows, .n = b.rows, .k = a.columns, .a = a.at, .b = b.at, .c = c.at};
  g.transpose_b = true;
  g.alpha = alpha;
  gemm_serial(g, a.stride, b.stride, c.stride);
}
// c += alpha a^T b
template <class T, class A, class B>
void add_transposed(T alpha, const Piece<A>& a, const Piece<B>& b, const Piece<T>& c) {
  GemmArgs<T> g{.m = a.columns, .n = b.columns, .k = a.rows, .a = a.at, .b = b.at, .c = c.at};
  g.transpose_a = true;
  g.alpha = alpha;
  g.accumulate = true;
  gemm_serial(g, a.stride, b.stride, c.stride);
}

}  // namespace tapehead::detail

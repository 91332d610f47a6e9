// The one door to BLAS. Row-major, zero sizes work, C is never read unless it is added to.
#pragma once

#include <cstdint>

namespace tapehead::detail {

template <class T>
struct GemmArgs {
  bool transpose_a = false;  // a is [k, m] in memory
  bool transpose_b = false;  // b is [n, k] in memory
  std::int64_t m = 0;        // rows of c
  std::int64_t n = 0;        // columns of c
  std::int64_t k = 0;        // summed over
  const T* a = nullptr;
  const T* b = nullptr;
  T* c = nullptr;  // [m, n], dense
  T alpha = 1;
  bool accumulate = false;  // c += alpha a b, else c = alpha a b
  const T* bias = nullptr;  // [n], added to every row; not together with accumulate
};

// ValueError naming the op for sizes beyond BLAS's 32-bit integers; for ops to call before they
// allocate. The products below check too.
void check_gemm_sizes(const char* op, std::int64_t m, std::int64_t n, std::int64_t k);

// How the product is cut into BLAS calls depends on the shape alone, and the pieces may run on
// several threads: the same bits on any number of them. ValueError for sizes beyond BLAS's 32-bit
// integers.
template <class T>
void gemm(const GemmArgs<T>& args);

// `count` products whose operands lie at fixed strides (in elements; 0 repeats an operand).
template <class T>
void gemm_batch(const GemmArgs<T>& first, std::int64_t count, std::int64_t stride_a,
                std::int64_t stride_b, std::int64_t stride_c);

// One product on the calling thread in one BLAS call, for kernels that run inside parallel_for.
template <class T>
void gemm_serial(const GemmArgs<T>& args);
// The same with leading dimensions of a, b and c in memory.
template <class T>
void gemm_serial(const GemmArgs<T>& args, std::int64_t lda, std::int64_t ldb, std::int64_t ldc);

}  // namespace tapehead::detail

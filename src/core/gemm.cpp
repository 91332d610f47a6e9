#include "core/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include <cblas.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <tapehead/system.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"

namespace tapehead {
namespace detail {
namespace {

// The bits of an sgemm row depend on its place in the call, so row tiles are fixed: a multiple of
// 12 (the kernels' register tiles are 4, 6 or 12 rows) that keeps a tile of a and c in the
// second-level cache.
constexpr std::int64_t kRowTile = 192;
// A tall product (few outputs, long sum: a weight gradient) is cut along k instead.
constexpr std::int64_t kDepthTile = 512;
constexpr std::int64_t kMaxDepthParts = 16;
constexpr std::int64_t kSmallWork = 32 * 32 * 32;  // multiply-adds not worth a team

enum class Flavour { serial, pthread, openmp };

// Measured on Debian 12: the serial flavour gives wrong products when called from several threads
// at once; the openmp flavour ignores openblas_set_num_threads(1) from the next call on. The
// distribution can swap the flavour after the build, so it is read at run time.
Flavour flavour() {
  static const Flavour found = [] {
    switch (openblas_get_parallel()) {
      case OPENBLAS_SEQUENTIAL: return Flavour::serial;
      case OPENBLAS_OPENMP: return Flavour::openmp;
      default: openblas_set_num_threads(1); return Flavour::pthread;
    }
  }();
  return found;
}

// The openmp flavour takes the calling thread's OpenMP default as its number of threads. While this
// lives that is 1. OpenMP is the flavour's own affair: its runtime is looked up, not linked.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : previous_(runtime().get == nullptr ? 1 : runtime().get()) {
    if (previous_ != 1) runtime().set(1);
  }
  ~OneOpenMpThread() {
    if (previous_ != 1) runtime().set(previous_);
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  struct Runtime {
    int (*get)();
    void (*set)(int);
  };
  static const Runtime& runtime() {
    static const Runtime found = [] {
      void* get = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
      void* set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
      if (get == nullptr || set == nullptr) return Runtime{nullptr, nullptr};
      return Runtime{reinterpret_cast<int (*)()>(get), reinterpret_cast<void (*)(int)>(set)};
    }();
    return found;
  }

  int previous_;
};

void call_blas(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, float alpha,
               const float* a, blasint lda, const float* b, blasint ldb, float beta, float* c,
               blasint ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void call_blas(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k,
               double alpha, const double* a, blasint lda, const double* b, blasint ldb,
               double beta, double* c, blasint ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void check_range(const char* op, const char* what, std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<blasint>::max()) {
    fail<ValueError>(
        fmt::format("{}: {} {} does not fit BLAS's {}-bit integers; cut the product "
                    "into pieces",
                    op, what, value, 8 * sizeof(blasint)));
  }
}

template <class T>
void check_sizes(const GemmArgs<T>& args) {
  check_gemm_sizes("matmul", args.m, args.n, args.k);
}

// Some BLAS kernels read c even when beta is 0, and 0 * NaN is NaN: c is written first, with zeros
// or with the bias that the product is added to, while it is about to be in cache anyway.
template <class T>
void start(const GemmArgs<T>& g, std::int64_t ldc) {
  for (std::int64_t i = 0; i < g.m; ++i) {
    if (g.bias == nullptr) {
      std::fill_n(g.c + i * ldc, g.n, T{0});
    } else {
      std::copy_n(g.bias, g.n, g.c + i * ldc);
    }
  }
}

template <class T>
void product(const GemmArgs<T>& g, std::int64_t lda, std::int64_t ldb, std::int64_t ldc) {
  if (g.m == 0 || g.n == 0) return;
  if (!g.accumulate) start(g, ldc);
  if (g.k == 0) return;
  const auto blas = [&] {
    call_blas(g.transpose_a ? CblasTrans : CblasNoTrans, g.transpose_b ? CblasTrans : CblasNoTrans,
              static_cast<blasint>(g.m), static_cast<blasint>(g.n), static_cast<blasint>(g.k),
              g.alpha, g.a, static_cast<blasint>(lda), g.b, static_cast<blasint>(ldb),
              g.accumulate || g.bias != nullptr ? T{1} : T{0}, g.c, static_cast<blasint>(ldc));
  };
  switch (flavour()) {
    case Flavour::pthread: blas(); return;
    case Flavour::openmp: {
      const OneOpenMpThread one;
      blas();
      return;
    }
    case Flavour::serial: {
      static std::mutex mutex;
      const std::lock_guard<std::mutex> lock(mutex);
      blas();
      return;
    }
  }
}

template <class T>
std::int64_t row_stride_a(const GemmArgs<T>& g) {
  return std::max<std::int64_t>(1, g.transpose_a ? g.m : g.k);
}
template <class T>
std::int64_t row_stride_b(const GemmArgs<T>& g) {
  return std::max<std::int64_t>(1, g.transpose_b ? g.k : g.n);
}

// Rows [begin, end) of c.
template <class T>
void row_tile(const GemmArgs<T>& g, std::int64_t begin, std::int64_t end) {
  GemmArgs<T> tile = g;
  tile.m = end - begin;
  tile.a = g.a + (g.transpose_a ? begin : begin * g.k);
  tile.c = g.c + begin * g.n;
  product(tile, row_stride_a(g), row_stride_b(g), std::max<std::int64_t>(1, g.n));
}

// c as a sum of products over pieces of k, added in order.
template <class T>
void split_depth(const GemmArgs<T>& g) {
  const std::int64_t wanted = std::min(kMaxDepthParts, (g.k + kDepthTile - 1) / kDepthTile);
  const std::int64_t piece = (g.k + wanted - 1) / wanted;
  const std::int64_t parts = (g.k + piece - 1) / piece;
  Tensor partial = empty({parts, g.m, g.n}, kDTypeOf<T>);
  T* sums = out<T>(partial);
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t p = first; p < last; ++p) {
      GemmArgs<T> part = g;
      const std::int64_t begin = p * piece;
      part.k = std::min(g.k, begin + piece) - begin;
      part.a = g.a + (g.transpose_a ? begin * g.m : begin);
      part.b = g.b + (g.transpose_b ? begin : begin * g.n);
      part.c = sums + p * g.m * g.n;
      part.accumulate = false;
      part.bias = nullptr;
      product(part, row_stride_a(g), row_stride_b(g), g.n);
    }
  });
  parallel_for(g.m * g.n, kElementChunk, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      T sum = g.accumulate ? g.c[i] : g.bias != nullptr ? g.bias[i % g.n] : T{0};
      for (std::int64_t p = 0; p < parts; ++p) sum += sums[p * g.m * g.n + i];
      g.c[i] = sum;
    }
  });
}

}  // namespace

void check_gemm_sizes(const char* op, std::int64_t m, std::int64_t n, std::int64_t k) {
  check_range(op, "rows", m);
  check_range(op, "columns", n);
  check_range(op, "inner size", k);
}

template <class T>
void gemm_serial(const GemmArgs<T>& args, std::int64_t lda, std::int64_t ldb, std::int64_t ldc) {
  product(args, lda, ldb, ldc);
}

template <class T>
void gemm_serial(const GemmArgs<T>& args) {
  product(args, row_stride_a(args), row_stride_b(args), std::max<std::int64_t>(1, args.n));
}

template <class T>
void gemm(const GemmArgs<T>& args) {
  check_sizes(args);
  if (args.m <= 2 * kRowTile && args.k >= 2 * kDepthTile && args.n > 0 && args.m > 0)
    return split_depth(args);
  const auto rows = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; row += kRowTile)
      row_tile(args, row, std::min(end, row + kRowTile));
  };
  if (args.m * args.n * args.k <= kSmallWork) return rows(0, args.m);
  parallel_for(args.m, kRowTile, rows);
}

template <class T>
void gemm_batch(const GemmArgs<T>& first, std::int64_t count, std::int64_t stride_a,
                std::int64_t stride_b, std::int64_t stride_c) {
  check_sizes(first);
  const auto nth = [&](std::int64_t i) {
    GemmArgs<T> args = first;
    args.a += i * stride_a;
    args.b += i * stride_b;
    args.c += i * stride_c;
    return args;
  };
  const std::int64_t work = std::max<std::int64_t>(1, first.m * first.n * first.k);
  if (work >= kSmallWork * 64) {  // each large enough to be cut by itself
    for (std::int64_t i = 0; i < count; ++i) gemm(nth(i));
    return;
  }
  const std::int64_t chunk = std::max<std::int64_t>(1, 2 * kSmallWork / work);
  parallel_for(count, chunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) gemm_serial(nth(i));
  });
}

template void gemm<float>(const GemmArgs<float>&);
template void gemm<double>(const GemmArgs<double>&);
template void gemm_batch<float>(const GemmArgs<float>&, std::int64_t, std::int64_t, std::int64_t,
                                std::int64_t);
template void gemm_batch<double>(const GemmArgs<double>&, std::int64_t, std::int64_t, std::int64_t,
                                 std::int64_t);
template void gemm_serial<float>(const GemmArgs<float>&);
template void gemm_serial<double>(const GemmArgs<double>&);
template void gemm_serial<float>(const GemmArgs<float>&, std::int64_t, std::int64_t, std::int64_t);
template void gemm_serial<double>(const GemmArgs<double>&, std::int64_t, std::int64_t,
                                  std::int64_t);

namespace {

template <class T>
std::string check_products(std::int64_t size, bool ta, bool tb) {
  const std::int64_t m = size;
  const std::int64_t n = size + 1;
  const std::int64_t k = size + 2;
  Rng rng(1, Stream::check, static_cast<std::uint64_t>(size));
  const auto draw = [&](std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& v : values) v = static_cast<T>(rng.below(9) - 4);
    return values;
  };
  const std::vector<T> a = draw(m * k);
  const std::vector<T> b = draw(k * n);
  std::vector<T> c(static_cast<std::size_t>(m * n), std::numeric_limits<T>::quiet_NaN());
  gemm_serial(GemmArgs<T>{ta, tb, m, n, k, a.data(), b.data(), c.data()});
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += a[static_cast<std::size_t>(ta ? l * m + i : i * k + l)] *
               b[static_cast<std::size_t>(tb ? j * k + l : l * n + j)];
      }
      const T found = c[static_cast<std::size_t>(i * n + j)];
      if (!(found == sum)) {
        return fmt::format(
            "{} product [{}, {}] x [{}, {}]{}{} is wrong at [{}, {}]: {} in place of {}",
            name_of(kDTypeOf<T>), m, k, k, n, ta ? ", a transposed" : "",
            tb ? ", b transposed" : "", i, j, found, sum);
      }
    }
  }
  return "";
}

}  // namespace
}  // namespace detail

BlasInfo blas_info() {
  BlasInfo info;
  const std::string config =
      openblas_get_config();  // "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY ..."
  const std::size_t end = config.find(' ', config.find(' ') + 1);
  info.name = config.substr(0, end);
  info.kernel = openblas_get_corename();
  switch (detail::flavour()) {
    case detail::Flavour::serial: info.flavour = "serial"; break;
    case detail::Flavour::pthread: info.flavour = "pthread"; break;
    case detail::Flavour::openmp: info.flavour = "openmp"; break;
  }
  return info;
}

std::string blas_self_test() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t s = 1; s <= 17; ++s) sizes.push_back(s);
  for (std::int64_t s : {31, 32, 33, 63, 64, 65}) sizes.push_back(s);
  for (std::int64_t size : sizes) {
    for (int flags = 0; flags < 4; ++flags) {
      std::string wrong = detail::check_products<float>(size, (flags & 1) != 0, (flags & 2) != 0);
      if (wrong.empty())
        wrong = detail::check_products<double>(size, (flags & 1) != 0, (flags & 2) != 0);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

}  // namespace tapehead

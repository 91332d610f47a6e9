// Run while configuring: does this header fit this library, and are its products exact? Sums of
// products of small integers have no rounding in f32 or f64, so every element must be equal.
#include <cblas.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k,
              const float* a, blasint lda, const float* b, blasint ldb, float* c) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, n);
}

void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k,
              const double* a, blasint lda, const double* b, blasint ldb, double* c) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, n);
}

template <class T>
bool exact(int m, int n, int k, bool ta, bool tb) {
  const auto size = [](int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  };
  std::vector<T> a(size(m, k));
  std::vector<T> b(size(k, n));
  std::vector<T> c(size(m, n));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(i * 7 % 9) - 4;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(i * 5 % 11) - 5;
  multiply(ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k, a.data(),
           ta ? m : k, b.data(), tb ? k : n, c.data());
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      T sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += a[static_cast<std::size_t>(ta ? l * m + i : i * k + l)] *
               b[static_cast<std::size_t>(tb ? j * k + l : l * n + j)];
      }
      if (!(c[static_cast<std::size_t>(i * n + j)] == sum)) return false;
    }
  }
  return true;
}

template <class T>
bool all_exact() {
  const int sizes[][3] = {{2, 2, 2}, {1, 5, 3}, {17, 13, 19}, {33, 64, 31}};
  for (const auto& s : sizes) {
    for (int flags = 0; flags < 4; ++flags) {
      if (!exact<T>(s[0], s[1], s[2], (flags & 1) != 0, (flags & 2) != 0)) return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  const char* config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const bool wide_library = std::strstr(config, "USE64BITINT") != nullptr;
  if (wide_library != (sizeof(blasint) == 8)) {
    std::printf("the header counts with %d-bit integers and the library with %d-bit ones",
                static_cast<int>(8 * sizeof(blasint)), wide_library ? 64 : 32);
    return 1;
  }
  if (!all_exact<float>()) return std::printf("sgemm gives wrong products"), 1;
  if (!all_exact<double>()) return std::printf("dgemm gives wrong products"), 1;
  const char* version_end = std::strchr(config, ' ');
  if (version_end != nullptr) version_end = std::strchr(version_end + 1, ' ');
  const int length = static_cast<int>(
      version_end != nullptr ? version_end - config : static_cast<long>(std::strlen(config)));
  const char* flavours[] = {"serial", "pthread", "openmp"};
  const int flavour = openblas_get_parallel();
  std::printf("%.*s, %s flavour, %s kernels", length, config,
              flavour >= 0 && flavour < 3 ? flavours[flavour] : "unknown", openblas_get_corename());
}

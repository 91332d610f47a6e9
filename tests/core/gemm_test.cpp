#include "core/gemm.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <tapehead/random.hpp>
#include <tapehead/system.hpp>

#include "support/catch.hpp"

namespace th = tapehead;
using th::detail::GemmArgs;

namespace {

// Whole numbers in -4..4: every product and sum below is exact in f32.
template <class T>
std::vector<T> integers(std::int64_t count, std::uint64_t salt) {
  th::Rng rng(11, th::Stream::check, salt);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& v : values) v = static_cast<T>(rng.below(9) - 4);
  return values;
}

template <class T>
std::vector<T> textbook(const GemmArgs<T>& g, std::vector<T> c) {
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t j = 0; j < g.n; ++j) {
      T sum = 0;
      for (std::int64_t l = 0; l < g.k; ++l) {
        sum += g.a[g.transpose_a ? l * g.m + i : i * g.k + l] *
               g.b[g.transpose_b ? j * g.k + l : l * g.n + j];
      }
      T& to = c[static_cast<std::size_t>(i * g.n + j)];
      to = (g.accumulate ? to : T{0}) + g.alpha * sum;
    }
  }
  return c;
}

template <class T>
void check_product(std::int64_t m, std::int64_t n, std::int64_t k, int flags) {
  const std::vector<T> a = integers<T>(m * k, 1);
  const std::vector<T> b = integers<T>(k * n, 2);
  GemmArgs<T> g;
  g.transpose_a = (flags & 1) != 0;
  g.transpose_b = (flags & 2) != 0;
  g.accumulate = (flags & 4) != 0;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a = a.data();
  g.b = b.data();
  g.alpha = 2;
  // What is overwritten may hold anything: 0 * NaN must not survive.
  std::vector<T> c = g.accumulate ? integers<T>(m * n, 3)
                                  : std::vector<T>(static_cast<std::size_t>(m * n),
                                                   std::numeric_limits<T>::quiet_NaN());
  const std::vector<T> expected = textbook(g, c);
  g.c = c.data();
  th::detail::gemm(g);
  INFO("m " << m << " n " << n << " k " << k << " flags " << flags);
  REQUIRE(c == expected);
}

}  // namespace

TEST_CASE("products of whole numbers are exact at every small size, transpose and accumulation") {
  for (std::int64_t m : {0, 1, 2, 3, 5, 8, 13, 17}) {
    for (std::int64_t n : {0, 1, 2, 4, 7, 16, 33}) {
      for (std::int64_t k : {0, 1, 3, 6, 16, 31}) {
        for (int flags = 0; flags < 8; ++flags) {
          check_product<float>(m, n, k, flags);
          check_product<double>(m, n, k, flags);
        }
      }
    }
  }
}

TEST_CASE("products past every tile size are exact") {
  for (int flags = 0; flags < 8; ++flags) {
    check_product<float>(193, 65, 40, flags);
    check_product<float>(400, 17, 33, flags);  // several row tiles
    check_product<float>(5, 7, 1024, flags);   // split along k
    check_product<double>(31, 33, 5001, flags);
    check_product<float>(1, 1, 20000, flags);
  }
}

TEST_CASE("a batch is its products one by one") {
  const std::int64_t m = 5, n = 3, k = 4, count = 37;
  const std::vector<float> a = integers<float>(count * m * k, 1);
  const std::vector<float> b = integers<float>(k * n, 2);  // shared
  std::vector<float> c(static_cast<std::size_t>(count * m * n));
  GemmArgs<float> g{false, false, m, n, k, a.data(), b.data(), c.data()};
  th::detail::gemm_batch(g, count, m * k, 0, m * n);
  for (std::int64_t i = 0; i < count; ++i) {
    GemmArgs<float> one = g;
    one.a += i * m * k;
    const std::vector<float> expected = textbook(one, std::vector<float>(m * n));
    REQUIRE(std::vector<float>(c.begin() + i * m * n, c.begin() + (i + 1) * m * n) == expected);
  }
}

TEST_CASE("the number of threads does not change a bit") {
  const std::int64_t sizes[][3] = {{1000, 64, 64}, {64, 64, 4096}, {3, 5, 9000}, {385, 100, 70}};
  for (const auto& size : sizes) {
    th::Rng rng(5, th::Stream::check);
    std::vector<float> a(static_cast<std::size_t>(size[0] * size[2]));
    std::vector<float> b(static_cast<std::size_t>(size[2] * size[1]));
    for (float& v : a) v = static_cast<float>(rng.normal());
    for (float& v : b) v = static_cast<float>(rng.normal());
    std::vector<std::vector<float>> results;
    for (int threads : {1, 2, 3, 8}) {
      const th::UseThreads use(threads);
      std::vector<float> c(static_cast<std::size_t>(size[0] * size[1]));
      th::detail::gemm(
          GemmArgs<float>{false, false, size[0], size[1], size[2], a.data(), b.data(), c.data()});
      results.push_back(c);
    }
    for (const auto& result : results) REQUIRE(result == results.front());
  }
}

TEST_CASE("sizes beyond BLAS's integers are refused before anything is read") {
  GemmArgs<float> g;
  g.m = std::int64_t{1} << 31;
  g.n = 1;
  g.k = 1;
  CHECK_THROWS_WITH(th::detail::gemm(g), ContainsSubstring("2147483648"));
}

TEST_CASE("the BLAS self test passes and names the library") {
  CHECK(th::blas_self_test() == "");
  const th::BlasInfo info = th::blas_info();
  CHECK_THAT(info.name, ContainsSubstring("OpenBLAS"));
  CHECK(!info.kernel.empty());
}

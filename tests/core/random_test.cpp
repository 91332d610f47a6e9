#include <tapehead/random.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include <tapehead/error.hpp>

#include "support/catch.hpp"

namespace th = tapehead;
using th::Rng;
using th::Stream;

TEST_CASE("Philox4x32-10 gives the published known answers") {
  // From the kat_vectors file of Random123, the authors' own distribution.
  using Block = std::array<std::uint32_t, 4>;
  CHECK(th::philox4x32({0, 0, 0, 0}, {0, 0}) ==
        Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(th::philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(
      th::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
      Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a draw is a pure function of seed, stream and counter") {
  Rng a(7, Stream::dropout);
  Rng b(7, Stream::dropout);
  std::vector<double> first;
  for (int i = 0; i < 20; ++i) first.push_back(a.normal());
  CHECK(a.counter() == 20);
  for (std::uint64_t i = 0; i < 20; ++i) CHECK(b.normal_at(i) == first[i]);
  CHECK(b.counter() == 0);
  b.seek(5);
  CHECK(b.normal() == first[5]);
  Rng c(7, Stream::dropout);
  c.skip(5);
  CHECK(c.normal_at(3) == first[8]);
}

TEST_CASE("seeds, streams and forks are different sequences") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (Stream stream :
         {Stream::init, Stream::data, Stream::shuffle, Stream::dropout, Stream::sampling}) {
      seen.insert(Rng(seed, stream).bits());
    }
  }
  const Rng parent(3, Stream::init);
  seen.insert(parent.fork("a").bits_at(0));
  seen.insert(parent.fork("b").bits_at(0));
  seen.insert(parent.fork("a").fork("a").bits_at(0));
  seen.insert(parent.fork(std::uint64_t{1}).bits_at(0));
  CHECK(seen.size() == 254);
  CHECK(parent.fork("a").bits_at(0) == Rng(3, Stream::init).fork("a").bits_at(0));
}

TEST_CASE("uniform and normal have the moments of their distributions") {
  Rng rng(1);
  constexpr int n = 200000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = rng.uniform();
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    sum += u;
    squares += u * u;
  }
  // Five standard errors: sqrt(1/12 / n) and sqrt(4/45 / n).
  CHECK(std::abs(sum / n - 0.5) < 5 * 0.2887 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1.0 / 3) < 5 * 0.2982 / std::sqrt(n));

  double moments[4] = {};
  int beyond_two = 0;
  for (int i = 0; i < n; ++i) {
    const double z = rng.normal();
    double power = 1;
    for (double& m : moments) m += (power *= z);
    if (std::abs(z) > 2) ++beyond_two;
  }
  CHECK(std::abs(moments[0] / n) < 5 / std::sqrt(n));
  CHECK(std::abs(moments[1] / n - 1) < 5 * std::sqrt(2.0 / n));
  CHECK(std::abs(moments[2] / n) < 5 * std::sqrt(15.0 / n));
  CHECK(std::abs(moments[3] / n - 3) < 5 * std::sqrt(96.0 / n));
  CHECK(std::abs(beyond_two / double(n) - 0.0455) < 0.003);
}

TEST_CASE("golden values: the same bits on every platform") {
  // Recomputed by tests/support/random_reference.py, an independent transcription.
  Rng rng(42, Stream::init);
  std::vector<double> normals;
  for (int i = 0; i < 8; ++i) normals.push_back(rng.normal());
  CHECK(normals == std::vector<double>{-0.6306109047995878, 0.03139285059235554,
                                       -0.8735638485620857, 0.383927531530301, 1.8382768160726661,
                                       -1.6397485753289713, -1.1915313927298627,
                                       -1.4580379865391768});
  std::vector<std::int64_t> integers;
  for (int i = 0; i < 8; ++i) integers.push_back(rng.below(1000));
  CHECK(integers == std::vector<std::int64_t>{99, 661, 138, 910, 617, 345, 459, 554});
}

TEST_CASE("below is unbiased and shuffle is a permutation") {
  Rng rng(5);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 70000; ++i) ++counts[static_cast<std::size_t>(rng.below(7))];
  for (int count : counts) CHECK(std::abs(count - 10000) < 5 * 93);  // sqrt(70000 * 6/49) = 92.6
  CHECK(rng.below(1) == 0);
  CHECK_THROWS_AS(rng.below(0), th::ValueError);

  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 0);
  rng.shuffle(std::span<int>(values));
  std::vector<int> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(values != expected);
  CHECK(sorted == expected);
}

// Compiled without floating-point contraction (see CMakeLists.txt): a fused multiply-add rounds
// once where two operations round twice, and the draws must be the same bits everywhere.
#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead {
namespace {

// SplitMix64's finaliser: a bijection whose every output bit depends on every input bit.
// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

// ln x for finite x > 0, from exactly rounded operations alone: x = m 2^e with m in [sqrt(1/2),
// sqrt 2), ln m = 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...), s = (m-1)/(m+1), |s| < 0.1716: 11 terms
// reach 1e-17.
double portable_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * s2 + 1.0 / k;
  return exponent * 0.6931471805599453 + 2 * s * series;
}

// (cos, sin) of 2 pi u for u in [0, 1): Taylor series on
// an eighth of a turn; ten terms reach 1e-18.
void portable_turn(double u, double& cosine, double& sine) {
  const int eighth = static_cast<int>(u * 8);  // 0..7
  const int quadrant = (eighth + 1) / 2;       // nearest multiple of a quarter turn, 0..4
  const double x = 6.283185307179586 * (u - quadrant * 0.25);  // |x| <= pi/4
  const double x2 = x * x;
  double term = 1;
  double c = 1;
  for (int k = 2; k <= 18; k += 2) {
    term *= -x2 / (k * (k - 1.0));
    c += term;
  }
  term = x;
  double s = x;
  for (int k = 3; k <= 19; k += 2) {
    term *= -x2 / (k * (k - 1.0));
    s += term;
  }
  switch (quadrant & 3) {
    case 0: cosine = c, sine = s; break;
    case 1: cosine = -s, sine = c; break;
    case 2: cosine = -c, sine = -s; break;
    default: cosine = s, sine = -c; break;
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

Rng::Rng(std::uint64_t seed, Stream stream, std::uint64_t substream)
    : key_(mix(seed ^ mix(static_cast<std::uint64_t>(stream)))), substream_(substream) {}

Rng Rng::fork(std::uint64_t number) const {
  Rng child = *this;
  child.substream_ = mix(substream_ ^ mix(number));
  child.counter_ = 0;
  return child;
}

Rng Rng::fork(std::string_view label) const { return fork(hash(label)); }

namespace {

// The two 64-bit words of Philox block (substream, counter).
std::array<std::uint64_t, 2> words(std::uint64_t key, std::uint64_t substream,
                                   std::uint64_t counter) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const auto block = philox4x32({low(counter), high(counter), low(substream), high(substream)},
                                {low(key), high(key)});
  return {block[0] | (std::uint64_t{block[1]} << 32), block[2] | (std::uint64_t{block[3]} << 32)};
}

double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::uint64_t Rng::bits_at(std::uint64_t i) const {
  return words(key_, substream_, counter_ + i)[0];
}

// Philox side by side for as many counters as fill a few vectors; the compiler does the rest.
void Rng::bits_at(std::uint64_t i, std::span<std::uint64_t> out) const {
  constexpr std::size_t kBlock = 32;
  std::uint32_t c[4][kBlock];
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    for (std::size_t l = 0; l < kBlock; ++l) {
      const std::uint64_t counter = counter_ + i + begin + l;
      c[0][l] = static_cast<std::uint32_t>(counter);
      c[1][l] = static_cast<std::uint32_t>(counter >> 32);
      c[2][l] = static_cast<std::uint32_t>(substream_);
      c[3][l] = static_cast<std::uint32_t>(substream_ >> 32);
    }
    auto key0 = static_cast<std::uint32_t>(key_);
    auto key1 = static_cast<std::uint32_t>(key_ >> 32);
    for (int round = 0; round < 10; ++round) {
      for (std::size_t l = 0; l < kBlock; ++l) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0][l];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2][l];
        c[0][l] = static_cast<std::uint32_t>(p1 >> 32) ^ c[1][l] ^ key0;
        c[1][l] = static_cast<std::uint32_t>(p1);
        c[2][l] = static_cast<std::uint32_t>(p0 >> 32) ^ c[3][l] ^ key1;
        c[3][l] = static_cast<std::uint32_t>(p0);
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    const std::size_t n = std::min(kBlock, out.size() - begin);
    for (std::size_t l = 0; l < n; ++l) out[begin + l] = c[0][l] | (std::uint64_t{c[1][l]} << 32);
  }
}

double Rng::uniform_at(std::uint64_t i) const { return unit(bits_at(i)); }

// Box-Muller: sqrt(-2 ln u) cos(2 pi v), u in (0, 1].
double Rng::normal_at(std::uint64_t i) const {
  const std::array<std::uint64_t, 2> pair = words(key_, substream_, counter_ + i);
  double cosine = 0;
  double sine = 0;
  portable_turn(unit(pair[1]), cosine, sine);
  return std::sqrt(-2 * portable_log(1.0 - unit(pair[0]))) * cosine;
}

std::uint64_t Rng::bits() {
  const std::uint64_t value = bits_at(0);
  ++counter_;
  return value;
}

double Rng::uniform() { return unit(bits()); }

double Rng::uniform(double low, double high) { return low + (high - low) * uniform(); }

double Rng::normal() {
  const double value = normal_at(0);
  ++counter_;
  return value;
}

// Draws are thrown away below 2^64 mod n, so that every residue is equally likely.
std::int64_t Rng::below(std::int64_t n) {
  if (n < 1) detail::fail<ValueError>(fmt::format("Rng::below: n must be at least 1, got {}", n));
  const auto range = static_cast<std::uint64_t>(n);
  const std::uint64_t rejected = (0 - range) % range;
  std::uint64_t value = bits();
  while (value < rejected) value = bits();
  return static_cast<std::int64_t>(value % range);
}

bool Rng::bernoulli(double p) { return uniform() < p; }

}  // namespace tapehead

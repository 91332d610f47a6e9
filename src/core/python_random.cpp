// MT19937: a state of 624 words, x_{k+624} = x_{k+397} xor ((high bit of x_k, low 31 of x_{k+1})
// A), each word tempered as it is given out. Names and constants as in the authors' mt19937ar.c.
#include <tapehead/python_random.hpp>

#include <bit>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead {

// init_by_array with the 32-bit digits of the seed, lowest first: how Python seeds from any int.
PythonRandom::PythonRandom(std::uint64_t seed) {
  std::vector<std::uint32_t> key{static_cast<std::uint32_t>(seed)};
  if (seed >> 32 != 0) key.push_back(static_cast<std::uint32_t>(seed >> 32));

  auto& mt = state_;
  mt[0] = 19650218;
  for (std::uint32_t i = 1; i < kWords; ++i) {
    mt[i] = 1812433253u * (mt[i - 1] ^ (mt[i - 1] >> 30)) + i;
  }
  std::size_t i = 1;
  const auto mixed = [&](std::uint32_t factor) {
    return mt[i] ^ ((mt[i - 1] ^ (mt[i - 1] >> 30)) * factor);
  };
  const auto advance = [&] {
    if (++i < kWords) return;
    mt[0] = mt[kWords - 1];
    i = 1;
  };
  std::size_t digit = 0;
  for (std::size_t k = 0; k < kWords; ++k) {
    mt[i] = mixed(1664525u) + key[digit] + static_cast<std::uint32_t>(digit);
    digit = (digit + 1) % key.size();
    advance();
  }
  for (std::size_t k = 0; k < kWords - 1; ++k) {
    mt[i] = mixed(1566083941u) - static_cast<std::uint32_t>(i);
    advance();
  }
  mt[0] = 0x80000000u;  // never all zero
}

void PythonRandom::refill() {
  constexpr std::size_t kShift = 397;
  for (std::size_t k = 0; k < kWords; ++k) {
    const std::uint32_t y = (state_[k] & 0x80000000u) | (state_[(k + 1) % kWords] & 0x7fffffffu);
    const std::uint32_t twist = (y & 1u) != 0 ? 0x9908b0dfu : 0u;
    state_[k] = state_[(k + kShift) % kWords] ^ (y >> 1) ^ twist;
  }
  next_ = 0;
}

std::uint32_t PythonRandom::bits32() {
  if (next_ == kWords) refill();
  std::uint32_t y = state_[next_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

double PythonRandom::random() {
  const auto high = static_cast<double>(bits32() >> 5);  // 27 bits
  const auto low = static_cast<double>(bits32() >> 6);   // 26 bits
  return (high * 0x1p26 + low) * 0x1p-53;
}

// As many bits as n has, until they say less than n.
std::int64_t PythonRandom::below(std::int64_t n) {
  if (n < 1) detail::fail<ValueError>(fmt::format("below: n must be at least 1, got {}", n));
  const auto limit = static_cast<std::uint64_t>(n);
  const int bits = 64 - std::countl_zero(limit);
  for (;;) {
    std::uint64_t drawn = 0;
    if (bits <= 32) {
      drawn = bits32() >> (32 - bits);
    } else {
      drawn = bits32();
      drawn |= std::uint64_t{bits32() >> (64 - bits)} << 32;
    }
    if (drawn < limit) return static_cast<std::int64_t>(drawn);
  }
}

double PythonRandom::gauss(double mean, double deviation) {
  double z = 0;
  if (gauss_) {
    z = *gauss_;
    gauss_.reset();
  } else {
    const double angle = random() * 6.283185307179586;  // 2 pi
    const double radius = std::sqrt(-2.0 * std::log(1.0 - random()));
    z = std::cos(angle) * radius;
    gauss_ = std::sin(angle) * radius;
  }
  return mean + z * deviation;
}

std::size_t PythonRandom::choice(std::span<const double> weights) {
  std::vector<double> sums;
  double total = 0;
  bool negative = false;
  for (const double weight : weights) {
    negative = negative || weight < 0;
    sums.push_back(total += weight);
  }
  if (negative || !(total > 0) || !std::isfinite(total)) {
    detail::fail<ValueError>(
        fmt::format("choice: the {} weights must be finite, not negative and not all 0; their sum "
                    "is {}",
                    weights.size(), total));
  }
  // bisect_right among all sums but the last.
  const double x = random() * total;
  std::size_t id = 0;
  while (id + 1 < sums.size() && sums[id] <= x) ++id;
  return id;
}

}  // namespace tapehead

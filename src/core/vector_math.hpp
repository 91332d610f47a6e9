// Functions that the compiler turns into vector code inside a plain loop, and sums over a row in a
// fixed number of lanes. Nothing here needs fast-math: lanes are written out, so the order of every
// sum is fixed.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tapehead::detail {

// e^x without branches, within 2 ulp everywhere (1.01 measured): inf beyond 88.72, gradual
// underflow to 0 below -87.3, NaN for NaN.
//   x = n ln 2 + r, |r| <= ln 2 / 2:   e^x = 2^n e^r,   e^r = 1 + r + r^2 p(r)
// ln 2 is split into a short head, whose product with n is exact, and a tail (Cody and Waite,
// "Software manual for the elementary functions", 1980). p is the polynomial of S. Moshier's
// Cephes, expf.c.
inline float vector_exp(float x) {
  x = x > 89.0f ? 89.0f : x;  // a NaN fails both comparisons and stays
  x = x < -104.0f ? -104.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  constexpr float kRound = 12582912.0f;
  const float rounded = x * 1.44269504f + kRound;
  const float n = rounded - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = p * (r * r) + r + 1.0f;
  // 2^n in two factors, as n runs from -150 to 128 and an exponent from -126 to 127. Unsigned
  // arithmetic wraps where x is NaN.
  const std::uint32_t shifted = std::bit_cast<std::uint32_t>(rounded) -
                                std::bit_cast<std::uint32_t>(kRound) + 256;  // n + 256
  const std::uint32_t half = shifted / 2;                                    // n/2 + 128
  const auto power = [](std::uint32_t biased) {
    return std::bit_cast<float>((biased - 1) << 23);  // 2^(biased - 128)
  };
  return e * power(half) * power(shifted - half);
}

inline double vector_exp(double x) { return std::exp(x); }

// Sums and maxima of a row run in this many independent lanes.
inline constexpr int kLanes = 16;

// The first n elements of a row shorter than the lanes, filled up with `fill`.
template <class T>
void pad_lanes(const T* x, std::int64_t n, T fill, T* lanes) {
  for (int l = 0; l < kLanes; ++l) lanes[l] = l < n ? x[l] : fill;
}

// f over all lanes, by halves; written out, so that they stay in registers.
template <class T, class F>
[[gnu::always_inline]] inline T fold_lanes(T (&lanes)[kLanes], F f) {
  static_assert(kLanes == 16);
  for (int l = 0; l < 8; ++l) lanes[l] = f(lanes[l], lanes[l + 8]);
  for (int l = 0; l < 4; ++l) lanes[l] = f(lanes[l], lanes[l + 4]);
  for (int l = 0; l < 2; ++l) lanes[l] = f(lanes[l], lanes[l + 2]);
  return f(lanes[0], lanes[1]);
}

// The largest of x_0 .. x_(n-1), -inf for none. NaNs count as absent.
template <class T>
T lane_max(const T* x, std::int64_t n) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  const auto larger = [](T a, T b) { return b > a ? b : a; };
  T lanes[kLanes];
  for (T& lane : lanes) lane = kLowest;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = larger(lanes[l], x[i + l]);
  }
  if (i < n) {
    T rest[kLanes];
    pad_lanes(x + i, n - i, kLowest, rest);
    for (int l = 0; l < kLanes; ++l) lanes[l] = larger(lanes[l], rest[l]);
  }
  return fold_lanes(lanes, larger);
}

// sum_i f(i) in f64, f(i) being cheap enough to be computed in a vector loop.
template <class F>
double lane_sum(std::int64_t n, F f) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(f(i + l));
  }
  double rest = 0;  // apart, so that the lanes need not be in memory to be reached one by one
  for (; i < n; ++i) rest += static_cast<double>(f(i));
  return fold_lanes(lanes, [](double a, double b) { return a + b; }) + rest;
}

}  // namespace tapehead::detail

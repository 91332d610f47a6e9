// Distances between numbers in units of the last place of f32.
#pragma once

#include <cstdint>

#include <tapehead/tensor.hpp>

namespace tapehead::detail {

struct Float32Error {
  double ulps = 0;          // of the scale: the worst element
  double element_ulps = 0;  // of the element itself, or of 2^-24 of the scale if that is more
  std::int64_t at = 0;      // the element behind `ulps`
  bool overflow = false;    // f64 is finite and f32 is not
};

// Largest finite magnitude; 0 for no tensor.
[[nodiscard]] double largest_in(const Tensor& x);

// Of `a`, in f32 or f64, from `b`, in f64. Equal infinities and NaN in both are no error.
[[nodiscard]] Float32Error float32_error(const Tensor& a, const Tensor& b, double scale);

// What a tensor's errors are measured by: its largest element; `otherwise` where the truth is 0,
// that is, where f64 comes to 2^16 times less than f32 does.
struct Float32Scale {
  double value = 0;
  bool zero = false;
};
[[nodiscard]] Float32Scale float32_scale(const Tensor& single, const Tensor& full,
                                         double otherwise);

}  // namespace tapehead::detail

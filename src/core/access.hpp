// The kernels' door to tensors: fresh memory, shared views, dtype dispatch.
#pragma once

#include <cstdint>
#include <utility>

#include <tapehead/tensor.hpp>

#include "core/message.hpp"

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "Tapehead needs NaN, infinity and the order of sums: no -ffast-math or -Ofast"
#endif

namespace tapehead::detail {

struct TensorAccess {
  // Uninitialised memory: the caller writes every element.
  static Tensor empty(const Shape& shape, DType dtype);
  // The same buffer under another shape, `offset` elements further on; never recorded.
  static Tensor view(const Tensor& x, const Shape& shape, std::int64_t offset = 0);
  // The same numbers with a position on a tape; (0, -1) for none.
  static Tensor placed(const Tensor& x, std::uint64_t tape, std::int32_t node) {
    Tensor y = x;
    y.tape_ = tape;
    y.node_ = node;
    return y;
  }
  template <class T>
  static T* data(Tensor& x) {
    return reinterpret_cast<T*>(x.buffer_.bytes()) + x.offset_;
  }
  template <class T>
  static const T* data(const Tensor& x) {
    return reinterpret_cast<const T*>(x.buffer_.bytes()) + x.offset_;
  }
  // Nobody else can see these bytes.
  static bool unique(const Tensor& x) { return x.buffer_.unique(); }
};

inline Tensor empty(const Shape& shape, DType dtype) { return TensorAccess::empty(shape, dtype); }
inline Tensor empty_like(const Tensor& x) { return TensorAccess::empty(x.shape(), x.dtype()); }

// The elements of a tensor of known dtype, for kernels: write (only to a fresh tensor) and read.
template <class T>
T* out(Tensor& x) {
  return TensorAccess::data<T>(x);
}
template <class T>
const T* in(const Tensor& x) {
  return TensorAccess::data<T>(x);
}

template <class T>
inline constexpr DType kDTypeOf = DType::f32;
template <>
inline constexpr DType kDTypeOf<double> = DType::f64;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::i64;
template <>
inline constexpr DType kDTypeOf<unsigned char> = DType::boolean;

// Calls f(float{}) or f(double{}): `[&](auto zero) { using T = decltype(zero); ... }`.
// DTypeError naming the op for other dtypes.
template <class F>
decltype(auto) with_float(const char* op, DType dtype, F&& f) {
  if (dtype == DType::f32) return std::forward<F>(f)(float{});
  if (dtype != DType::f64) fail_not_floating(op, dtype);
  return std::forward<F>(f)(double{});
}

// The same for all four dtypes; booleans are unsigned char.
template <class F>
decltype(auto) with_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return std::forward<F>(f)(float{});
    case DType::f64: return std::forward<F>(f)(double{});
    case DType::i64: return std::forward<F>(f)(std::int64_t{});
    case DType::boolean: break;
  }
  return std::forward<F>(f)(static_cast<unsigned char>(0));
}

}  // namespace tapehead::detail

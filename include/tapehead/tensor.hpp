// Tensor: a shape, a dtype and a shared, contiguous, row-major buffer.
//
// A tensor is a value: nothing changes the numbers behind a handle once it exists. There are no
// strided views (reshape shares the buffer, a transpose is a gemm flag or an explicit permute), so
// every kernel sees dense memory. Two integers say where the tensor stands on which tape.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/error.hpp>
#include <tapehead/random.hpp>

namespace tapehead {

enum class DType : std::uint8_t {
  f32,      // trains
  f64,      // checks
  i64,      // token ids
  boolean,  // conditions; one byte each, 0 or 1
};

[[nodiscard]] std::string_view name_of(DType dtype);  // "f32", "f64", "i64", "boolean"
[[nodiscard]] constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64;
}
[[nodiscard]] std::int64_t bytes_of(DType dtype);  // 4, 8, 8, 1

// Up to 8 axis sizes, stored inline. Sizes may be 0. ShapeError for a negative size, a rank above 8
// or a product that does not fit 63 bits.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;  // rank 0: a scalar
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::int64_t size() const;                // number of elements; 1 for rank 0
  [[nodiscard]] std::int64_t operator[](int axis) const;  // negative axes count from the end
  [[nodiscard]] std::span<const std::int64_t> sizes() const {
    return {sizes_.data(), static_cast<std::size_t>(rank_)};
  }
  // The axis as 0..rank-1; IndexError naming `what` when it is outside -rank..rank-1.
  [[nodiscard]] int axis(int axis, std::string_view what = "axis") const;

  [[nodiscard]] Shape with(int axis, std::int64_t size) const;  // one size replaced
  [[nodiscard]] Shape without(int axis) const;                  // one axis dropped
  [[nodiscard]] Shape appended(std::int64_t size) const;        // one axis more at the end

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  std::int32_t rank_ = 0;
};

[[nodiscard]] std::string to_string(const Shape& shape);  // "[2, 5, 32]"

namespace detail {

struct Block;  // a reference-counted piece of pool memory (src/core/pool.hpp)

// Shared ownership of one Block.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Block* owned) : block_(owned) {}  // takes over one reference
  Buffer(const Buffer& other);
  Buffer(Buffer&& other) noexcept : block_(other.block_) { other.block_ = nullptr; }
  Buffer& operator=(Buffer other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Buffer();

  [[nodiscard]] std::byte* bytes() const;  // nullptr when empty
  [[nodiscard]] bool unique() const;       // nobody else holds it
  explicit operator bool() const { return block_ != nullptr; }

 private:
  Block* block_ = nullptr;
};

struct TensorAccess;  // the kernels' door to fresh memory (src/core/access.hpp)

}  // namespace detail

class Tensor {
 public:
  Tensor() = default;  // no tensor: defined() is false and every op refuses it

  [[nodiscard]] bool defined() const { return static_cast<bool>(buffer_); }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] int rank() const { return shape_.rank(); }
  [[nodiscard]] std::int64_t dim(int axis) const { return shape_[axis]; }  // negative from the end
  [[nodiscard]] std::int64_t size() const { return shape_.size(); }

  // The one element of a tensor of size 1, whatever its rank. ShapeError otherwise.
  [[nodiscard]] double item() const;
  // One element by index; IndexError outside the shape.
  [[nodiscard]] double at(std::initializer_list<std::int64_t> index) const;
  [[nodiscard]] double at_flat(std::int64_t index) const;

  // The elements in row-major order. T is float, double, std::int64_t or bool (data: unsigned char
  // for booleans) and must be the tensor's dtype: DTypeError otherwise, nothing is converted.
  template <class T>
  [[nodiscard]] std::span<const T> data() const;
  template <class T>
  [[nodiscard]] std::vector<T> to_vector() const;

  // Position on a tape: (0, -1) for a constant.
  [[nodiscard]] std::uint64_t tape_id() const { return tape_; }
  [[nodiscard]] std::int32_t node() const { return node_; }

 private:
  friend struct detail::TensorAccess;

  Shape shape_;
  detail::Buffer buffer_;
  std::int64_t offset_ = 0;  // in elements
  std::uint64_t tape_ = 0;
  std::int32_t node_ = -1;
  DType dtype_ = DType::f32;
};

// Nested braces of numbers: tensor({{1, 2}, {3, 4}}) is a matrix, tensor(3) a scalar.
class NestedList {
 public:
  NestedList(double value) : value_(value) {}  // implicit, so that a literal converts
  NestedList(std::initializer_list<NestedList> items) : items_(items), is_list_(true) {}

  [[nodiscard]] Shape shape() const;               // ShapeError for ragged lists
  void append_to(std::vector<double>& out) const;  // row-major

 private:
  std::vector<NestedList> items_;
  double value_ = 0;
  bool is_list_ = false;
};

// Factories. `shape` may hold zeros. None of them is recorded on a tape.
[[nodiscard]] Tensor tensor(const NestedList& values, DType dtype = DType::f32);
[[nodiscard]] Tensor tensor(std::span<const float> values, const Shape& shape);         // f32
[[nodiscard]] Tensor tensor(std::span<const double> values, const Shape& shape);        // f64
[[nodiscard]] Tensor tensor(std::span<const std::int64_t> values, const Shape& shape);  // i64
[[nodiscard]] Tensor tensor(const std::vector<bool>& values, const Shape& shape);       // boolean
[[nodiscard]] Tensor zeros(const Shape& shape, DType dtype = DType::f32);
[[nodiscard]] Tensor ones(const Shape& shape, DType dtype = DType::f32);
[[nodiscard]] Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
// start, start + step, ... up to but not including end; step may be negative, never 0.
[[nodiscard]] Tensor arange(double start, double end, double step = 1, DType dtype = DType::f32);
[[nodiscard]] Tensor arange(std::int64_t n);  // i64: 0 .. n-1
// Element i is draw number i of the stream, which moves on by shape.size().
[[nodiscard]] Tensor randn(const Shape& shape, Rng& rng, DType dtype = DType::f32);
[[nodiscard]] Tensor uniform(const Shape& shape, Rng& rng, double low = 0, double high = 1,
                             DType dtype = DType::f32);

// Reading. Large tensors are shortened with "..." in the middle of each long axis.
[[nodiscard]] std::string to_string(const Tensor& x);

struct Tolerance {
  double relative = 0;  // times the larger magnitude of the two elements
  double absolute = 0;
};

// What compare found: convertible to bool (true: equal within the tolerance), and readable.
struct Comparison {
  bool equal = true;
  std::int64_t mismatches = 0;
  double worst = 0;     // largest |a - b|
  std::string message;  // "" when equal; else shapes, count and the worst element by index
  explicit operator bool() const { return equal; }
};

// |a - b| <= absolute + relative * max(|a|, |b|) at every element; NaN equals NaN, and infinities
// of one sign are equal. Tensors of other shapes or dtypes are unequal, not an error.
[[nodiscard]] Comparison compare(const Tensor& a, const Tensor& b, Tolerance tolerance = {});
// Same shape, dtype and bits: -0 differs from 0, and NaN payloads count.
[[nodiscard]] bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace tapehead

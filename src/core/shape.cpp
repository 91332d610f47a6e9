#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead {

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i64: return "i64";
    case DType::boolean: break;
  }
  return "boolean";
}

std::int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64:
    case DType::i64: return 8;
    case DType::boolean: break;
  }
  return 1;
}

Shape::Shape(std::initializer_list<std::int64_t> sizes)
    : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const std::int64_t> sizes) {
  if (sizes.size() > kMaxRank) {
    detail::fail<ShapeError>(
        fmt::format("shape: rank is at most {}, got {}", kMaxRank, sizes.size()));
  }
  rank_ = static_cast<std::int32_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  // The product of the non-zero sizes must fit, so that no order of multiplication can overflow;
  // 2^59 elements leave room for the element size.
  std::int64_t product = 1;
  for (std::int64_t size : sizes) {
    if (size < 0)
      detail::fail<ShapeError>(
          fmt::format("shape: sizes cannot be negative: {}", to_string(*this)));
    if (size == 0) continue;
    if (product > (std::int64_t{1} << 59) / size) {
      detail::fail<ShapeError>(fmt::format("shape: {} has too many elements", to_string(*this)));
    }
    product *= size;
  }
}

std::int64_t Shape::size() const {
  std::int64_t product = 1;
  for (std::int64_t size : sizes()) product *= size;
  return product;
}

std::int64_t Shape::operator[](int axis_index) const {
  return sizes_[static_cast<std::size_t>(axis(axis_index))];
}

int Shape::axis(int axis, std::string_view what) const {
  if (axis < -rank_ || axis >= rank_) {
    detail::fail<IndexError>(rank_ == 0
                                 ? fmt::format("{} {}: a scalar (rank 0) has no axes", what, axis)
                                 : fmt::format("{} {} is outside {}..{} of shape {}", what, axis,
                                               -rank_, rank_ - 1, to_string(*this)));
  }
  return axis < 0 ? axis + rank_ : axis;
}

Shape Shape::with(int axis_index, std::int64_t size) const {
  std::array<std::int64_t, kMaxRank> sizes = sizes_;
  sizes[static_cast<std::size_t>(axis(axis_index))] = size;
  return Shape(std::span<const std::int64_t>(sizes.data(), static_cast<std::size_t>(rank_)));
}

Shape Shape::without(int axis_index) const {
  const int dropped = axis(axis_index);
  Shape result;
  for (int i = 0; i < rank_; ++i) {
    if (i != dropped)
      result.sizes_[static_cast<std::size_t>(result.rank_++)] = sizes_[static_cast<std::size_t>(i)];
  }
  return result;
}

Shape Shape::appended(std::int64_t size) const {
  std::array<std::int64_t, kMaxRank + 1> sizes{};
  std::copy_n(sizes_.begin(), rank_, sizes.begin());
  sizes[static_cast<std::size_t>(rank_)] = size;
  return Shape(std::span<const std::int64_t>(sizes.data(), static_cast<std::size_t>(rank_) + 1));
}

bool operator==(const Shape& a, const Shape& b) {
  return a.rank_ == b.rank_ && std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin());
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.sizes(), ", "));
}

}  // namespace tapehead

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include <fmt/format.h>

#include "core/access.hpp"
#include "core/pool.hpp"

namespace tapehead {

using detail::empty;
using detail::fail;

namespace detail {

Tensor TensorAccess::empty(const Shape& shape, DType dtype) {
  Tensor x;
  x.shape_ = shape;
  x.dtype_ = dtype;
  try {
    x.buffer_ = Buffer(allocate_block(shape.size() * bytes_of(dtype)));
  } catch (const std::bad_alloc&) {
    fail<MemoryError>(fmt::format("out of memory: {}{} needs {} bytes", name_of(dtype),
                                  to_string(shape), shape.size() * bytes_of(dtype)));
  }
  return x;
}

Tensor TensorAccess::view(const Tensor& x, const Shape& shape, std::int64_t offset) {
  Tensor y = placed(x, 0, -1);
  y.shape_ = shape;
  y.offset_ += offset;
  return y;
}

}  // namespace detail

namespace {

template <class T>
struct Stored {
  using type = T;
};
template <>
struct Stored<bool> {
  using type = unsigned char;
};

template <class T>
void check_reading(const Tensor& x) {
  constexpr DType kWanted = detail::kDTypeOf<typename Stored<T>::type>;
  detail::check_dtype("data", x, kWanted, "the tensor");
}

}  // namespace

template <class T>
std::span<const T> Tensor::data() const {
  check_reading<T>(*this);
  return {detail::in<T>(*this), static_cast<std::size_t>(size())};
}
template std::span<const float> Tensor::data<float>() const;
template std::span<const double> Tensor::data<double>() const;
template std::span<const std::int64_t> Tensor::data<std::int64_t>() const;
template std::span<const unsigned char> Tensor::data<unsigned char>() const;

template <class T>
std::vector<T> Tensor::to_vector() const {
  const auto elements = data<typename Stored<T>::type>();
  return std::vector<T>(elements.begin(), elements.end());
}
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<bool> Tensor::to_vector<bool>() const;

double Tensor::at_flat(std::int64_t index) const {
  detail::check_defined("at", *this, "the tensor");
  if (index < 0 || index >= size()) {
    fail<IndexError>(fmt::format("at: element {} is outside a tensor of {} elements, shape {}",
                                 index, size(), to_string(shape_)));
  }
  return detail::with_any(dtype_, [&](auto zero) {
    return static_cast<double>(detail::in<decltype(zero)>(*this)[index]);
  });
}

double Tensor::item() const {
  detail::check_defined("item", *this, "the tensor");
  if (size() != 1) {
    fail<ShapeError>(fmt::format(
        "item: needs exactly one element, but the shape is {}; reduce it first or use at()",
        to_string(shape_)));
  }
  return at_flat(0);
}

double Tensor::at(std::initializer_list<std::int64_t> index) const {
  detail::check_defined("at", *this, "the tensor");
  if (static_cast<int>(index.size()) != rank()) {
    fail<IndexError>(fmt::format("at: {} indices for shape {}", index.size(), to_string(shape_)));
  }
  std::int64_t flat = 0;
  for (int axis = 0; axis < rank(); ++axis) {
    const std::int64_t i = index.begin()[axis];
    if (i < 0 || i >= dim(axis)) {
      fail<IndexError>(
          fmt::format("at: index {} on axis {} is outside shape {}", i, axis, to_string(shape_)));
    }
    flat = flat * dim(axis) + i;
  }
  return at_flat(flat);
}

Shape NestedList::shape() const {
  if (!is_list_) return {};
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(items_.size())};
  if (!items_.empty()) {
    const Shape inner = items_.front().shape();
    for (const NestedList& item : items_) {
      if (item.shape() != inner) {
        fail<ShapeError>(
            fmt::format("tensor: ragged list: an item of shape {} beside one of shape {}",
                        to_string(item.shape()), to_string(inner)));
      }
    }
    sizes.insert(sizes.end(), inner.sizes().begin(), inner.sizes().end());
  }
  return Shape(sizes);
}

void NestedList::append_to(std::vector<double>& out) const {
  if (!is_list_) out.push_back(value_);
  for (const NestedList& item : items_) item.append_to(out);
}

namespace {

// A double as T; refuses what T cannot hold, for ids and conditions.
template <class T>
T convert(double value, const char* op) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    if (!(std::abs(value) <= 0x1p53) || std::trunc(value) != value) {
      fail<ValueError>(
          fmt::format("{}: {} is not a whole number, but the dtype is i64", op, value));
    }
  }
  if constexpr (std::is_same_v<T, unsigned char>) {
    if (value != 0 && value != 1) {
      fail<ValueError>(fmt::format("{}: a boolean is 0 or 1, got {}", op, value));
    }
  }
  return static_cast<T>(value);
}

template <class T>
Tensor from_span(std::span<const T> values, const Shape& shape) {
  if (static_cast<std::int64_t>(values.size()) != shape.size()) {
    fail<ShapeError>(fmt::format("tensor: {} values for shape {} of {} elements", values.size(),
                                 to_string(shape), shape.size()));
  }
  Tensor x = empty(shape, detail::kDTypeOf<T>);
  std::copy(values.begin(), values.end(), detail::out<T>(x));
  return x;
}

template <class Draw>
Tensor drawn(const char* op, const Shape& shape, Rng& rng, DType dtype, Draw&& draw) {
  Tensor x = detail::with_float(op, dtype, [&](auto zero) {
    using T = decltype(zero);
    Tensor y = empty(shape, dtype);
    T* to = detail::out<T>(y);
    for (std::int64_t i = 0; i < shape.size(); ++i)
      to[i] = static_cast<T>(draw(static_cast<std::uint64_t>(i)));
    return y;
  });
  rng.skip(static_cast<std::uint64_t>(shape.size()));
  return x;
}

}  // namespace

Tensor tensor(const NestedList& values, DType dtype) {
  const Shape shape = values.shape();
  std::vector<double> flat;
  values.append_to(flat);
  return detail::with_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    Tensor x = empty(shape, dtype);
    std::transform(flat.begin(), flat.end(), detail::out<T>(x),
                   [](double v) { return convert<T>(v, "tensor"); });
    return x;
  });
}

Tensor tensor(std::span<const float> values, const Shape& shape) {
  return from_span(values, shape);
}
Tensor tensor(std::span<const double> values, const Shape& shape) {
  return from_span(values, shape);
}
Tensor tensor(std::span<const std::int64_t> values, const Shape& shape) {
  return from_span(values, shape);
}
Tensor tensor(const std::vector<bool>& values, const Shape& shape) {
  const std::vector<unsigned char> bytes(values.begin(), values.end());
  return from_span(std::span<const unsigned char>(bytes), shape);
}

Tensor full(const Shape& shape, double value, DType dtype) {
  return detail::with_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T converted = convert<T>(value, "full");
    Tensor x = empty(shape, dtype);
    std::fill_n(detail::out<T>(x), shape.size(), converted);
    return x;
  });
}

Tensor zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }

Tensor arange(double start, double end, double step, DType dtype) {
  if (!std::isfinite(start) || !std::isfinite(end) || !std::isfinite(step) || step == 0) {
    fail<ValueError>(
        fmt::format("arange: start {}, end {}, step {}: all must be finite and the step not 0",
                    start, end, step));
  }
  const double count = std::max(0.0, std::ceil((end - start) / step));
  if (count > 0x1p53) fail<ValueError>(fmt::format("arange: {} elements are too many", count));
  return detail::with_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    Tensor x = empty({static_cast<std::int64_t>(count)}, dtype);
    for (std::int64_t i = 0; i < x.size(); ++i) {
      detail::out<T>(x)[i] = convert<T>(start + static_cast<double>(i) * step, "arange");
    }
    return x;
  });
}

Tensor arange(std::int64_t n) {
  if (n < 0) fail<ValueError>(fmt::format("arange: the count cannot be negative, got {}", n));
  return arange(0.0, static_cast<double>(n), 1.0, DType::i64);
}

Tensor randn(const Shape& shape, Rng& rng, DType dtype) {
  return drawn("randn", shape, rng, dtype, [&](std::uint64_t i) { return rng.normal_at(i); });
}

Tensor uniform(const Shape& shape, Rng& rng, double low, double high, DType dtype) {
  if (!(std::isfinite(low) && std::isfinite(high) && low <= high)) {
    fail<ValueError>(fmt::format("uniform: needs finite low <= high, got {} and {}", low, high));
  }
  return drawn("uniform", shape, rng, dtype,
               [&](std::uint64_t i) { return low + (high - low) * rng.uniform_at(i); });
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const auto bytes = static_cast<std::size_t>(a.size() * bytes_of(a.dtype()));
  return detail::with_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return bytes == 0 || std::memcmp(detail::in<T>(a), detail::in<T>(b), bytes) == 0;
  });
}

}  // namespace tapehead

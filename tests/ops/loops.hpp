// Textbook loops in f64 that the tests of shape and product ops compare with, and exact inputs:
// small integers, whose products and sums are exact in f32 too.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

// Whole numbers from -4 to 4, a function of size and salt alone.
inline tapehead::Tensor integers(const tapehead::Shape& shape, tapehead::DType dtype,
                                 std::uint64_t salt) {
  tapehead::Rng rng(salt, tapehead::Stream::check, static_cast<std::uint64_t>(shape.size()));
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.size(); ++i)
    values.push_back(static_cast<double>(rng.below(9)) - 4);
  return tapehead::cast(tapehead::tensor(std::span<const double>(values), shape), dtype);
}

inline std::vector<double> numbers(const tapehead::Tensor& x) {
  return tapehead::cast(x, tapehead::DType::f64).to_vector<double>();
}

inline tapehead::Tensor ids(std::vector<std::int64_t> values, const tapehead::Shape& shape) {
  return tapehead::tensor(std::span<const std::int64_t>(values), shape);
}

// Every index of a shape in row-major order.
inline std::vector<std::vector<std::int64_t>> indices(const tapehead::Shape& shape) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t flat = 0; flat < shape.size(); ++flat) {
    std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
    std::int64_t rest = flat;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      index[static_cast<std::size_t>(axis)] = rest % shape[axis];
      rest /= shape[axis];
    }
    all.push_back(index);
  }
  return all;
}

// Where an index stands in row-major memory; axes of size 1 take any index.
inline std::size_t flat(const tapehead::Shape& shape, const std::vector<std::int64_t>& index) {
  std::int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    at = at * shape[axis] + (shape[axis] == 1 ? 0 : index[static_cast<std::size_t>(axis)]);
  return static_cast<std::size_t>(at);
}

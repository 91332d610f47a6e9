// Which positions of the input reach which of the output: by gradients, or by exchanging ids.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/gradcheck.hpp>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"

namespace tapehead {

using detail::fail;

namespace {

// Calls visit(position on the axis, flat index) for every element.
template <class F>
void for_each_position(const Shape& shape, int axis, F visit) {
  std::int64_t inner = 1;
  for (int a = axis + 1; a < shape.rank(); ++a) inner *= shape[a];
  for (std::int64_t i = 0; i < shape.size(); ++i) visit(i / inner % shape[axis], i);
}

// max |x_i|, where a NaN stays.
void raise(double& most, double value) {
  if (std::isnan(most)) return;
  if (std::isnan(value) || std::abs(value) > most) most = std::abs(value);
}

// Magnitudes in [0.5, 1.5) with random signs at one position of the axis, 0 elsewhere: what a plain
// sum does not see, such as a softmax, is seen.
Tensor mix_at(const Shape& shape, DType dtype, int axis, std::int64_t position) {
  const Rng rng = Rng(0, Stream::check).fork("influence");
  Tensor mix = zeros(shape, dtype);
  detail::with_float("influence", dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = detail::out<T>(mix);
    for_each_position(shape, axis, [&](std::int64_t at, std::int64_t i) {
      if (at != position) return;
      const double u = 2 * rng.uniform_at(static_cast<std::uint64_t>(i)) - 1;
      to[i] = static_cast<T>(u < 0 ? u - 0.5 : u + 0.5);
    });
  });
  return mix;
}

Tensor result_of(const UnaryFunction& f, const Tensor& x) {
  Tensor y = f(x);
  detail::check_floating("influence", y, "the function's result");
  return y;
}

struct Matrix {
  Matrix(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count),
        columns(column_count),
        values(static_cast<std::size_t>(row_count * column_count)) {}
  double& at(std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
  [[nodiscard]] Tensor tensor() const {
    return tapehead::tensor(std::span<const double>(values), {rows, columns});
  }
  std::int64_t rows;
  std::int64_t columns;
  std::vector<double> values;
};

Tensor by_gradient(const UnaryFunction& f, const Tensor& x, int along, int y_axis) {
  const Tensor plain = result_of(f, x);
  const int y_along = plain.shape().axis(y_axis, "influence: y_axis");
  Matrix matrix(x.dim(along), plain.dim(y_along));
  for (std::int64_t j = 0; j < matrix.columns; ++j) {
    Tape tape;
    const Tensor at = tape.watch(x);
    const Tensor y = result_of(f, at);
    if (y.tape_id() != tape.id()) {
      fail<TapeError>(
          "influence: the result does not depend on x, as far as the tape sees: nothing was "
          "compared; is there a detach() on the way, or another tensor in its place?");
    }
    const Tensor gradient = tape.backward(y, mix_at(y.shape(), y.dtype(), y_along, j))[at];
    for_each_position(x.shape(), along, [&](std::int64_t i, std::int64_t flat) {
      raise(matrix.at(i, j), gradient.at_flat(flat));
    });
  }
  return matrix.tensor();
}

// x with each id at the position exchanged for the next larger one that occurs, the largest for the
// smallest.
Tensor exchanged(const Tensor& x, const std::vector<std::int64_t>& ids, int along,
                 std::int64_t position) {
  std::vector<std::int64_t> values = x.to_vector<std::int64_t>();
  for_each_position(x.shape(), along, [&](std::int64_t at, std::int64_t i) {
    if (at != position) return;
    std::int64_t& id = values[static_cast<std::size_t>(i)];
    const auto next = std::upper_bound(ids.begin(), ids.end(), id);
    id = next == ids.end() ? ids.front() : *next;
  });
  return tensor(std::span<const std::int64_t>(values), x.shape());
}

Tensor by_exchange(const UnaryFunction& f, const Tensor& x, int along, int y_axis) {
  std::vector<std::int64_t> ids = x.to_vector<std::int64_t>();
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.size() < 2) {
    fail<ValueError>(
        "influence: x holds fewer than two different ids, so there is nothing to exchange; give it "
        "other ids");
  }
  const Tensor before = result_of(f, x);
  const int y_along = before.shape().axis(y_axis, "influence: y_axis");
  Matrix matrix(x.dim(along), before.dim(y_along));
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    const Tensor after = result_of(f, exchanged(x, ids, along, i));
    detail::check_same_shape("influence", before, after, "the result", "that of other ids");
    for_each_position(before.shape(), y_along, [&](std::int64_t j, std::int64_t flat) {
      const double a = before.at_flat(flat);
      const double b = after.at_flat(flat);
      if (a != b && !(std::isnan(a) && std::isnan(b))) raise(matrix.at(i, j), a - b);
    });
  }
  return matrix.tensor();
}

}  // namespace

Tensor influence(const UnaryFunction& f, const Tensor& x, int x_axis, int y_axis) {
  detail::check_defined("influence", x);
  if (recording_tape() != nullptr) {
    fail<TapeError>(
        "influence: a tape is alive on this thread; this opens tapes of its own, so call it "
        "outside");
  }
  const int along = x.shape().axis(x_axis, "influence: x_axis");
  const Tensor constant = detail::TensorAccess::placed(x, 0, -1);
  if (x.dtype() == DType::i64) return by_exchange(f, constant, along, y_axis);
  detail::check_floating("influence", x);
  return by_gradient(f, constant, along, y_axis);
}

}  // namespace tapehead

// Who influences whom, for functions where it is known by hand.
#include <cmath>
#include <limits>

#include <tapehead/gradcheck.hpp>
#include <tapehead/ops.hpp>

#include "support/catch.hpp"

using namespace tapehead;

namespace {

Tensor numbers(const Shape& shape) {
  Rng rng(7, Stream::check);
  return randn(shape, rng, DType::f64);
}

// Where the matrix is not exactly 0.
std::vector<bool> reached(const Tensor& matrix) { return not_equal(matrix, 0).to_vector<bool>(); }

}  // namespace

TEST_CASE("the matrix has a row for each input position and a column for each output position") {
  // y_j = x_j + 10 x_(j-1), the first two of three positions of x and none of the last.
  const UnaryFunction f = [](const Tensor& x) {
    return slice(x, 1, 0, 2) + pad(slice(x, 1, 0, 1), 1, 1, 0) * 10.0;
  };
  const Tensor m = influence(f, numbers({2, 3}), 1, 1);
  CHECK(m.dtype() == DType::f64);
  CHECK(m.shape() == Shape{3, 2});
  CHECK(reached(m) == std::vector<bool>{true, true, false, true, false, false});
  // dy_1 / dx_0 is 10 times a number in [0.5, 1.5) and dy_0 / dx_0 one such number.
  CHECK(m.at({0, 1}) >= 5);
  CHECK(m.at({0, 1}) < 15);
  CHECK(m.at({0, 0}) >= 0.5);
  CHECK(m.at({0, 0}) < 1.5);
}

TEST_CASE("axes are counted from the end too, and may differ") {
  // Row sums: y_b depends on all of row b.
  const UnaryFunction f = [](const Tensor& x) { return sum(x, -1); };
  CHECK(reached(influence(f, numbers({2, 3}), 0, 0)) ==
        std::vector<bool>{true, false, false, true});
  CHECK(reached(influence(f, numbers({2, 3}), -1, -1)) == std::vector<bool>(6, true));
}

TEST_CASE("what mixes samples is found") {
  // Statistics over the batch, as batch normalisation takes them.
  const UnaryFunction f = [](const Tensor& x) {
    const Tensor centred = x - mean(x, 0, keep);
    return centred / sqrt(mean(centred * centred, 0, keep) + 1e-5);
  };
  CHECK(reached(influence(f, numbers({3, 4}), 0, 0)) == std::vector<bool>(9, true));
}

TEST_CASE("outputs whose sum is constant are not overlooked") {
  const UnaryFunction f = [](const Tensor& x) { return softmax(x); };
  CHECK(reached(influence(f, numbers({1, 3}), 0, 0)) == std::vector<bool>{true});
}

TEST_CASE("NaN is an influence") {
  const UnaryFunction f = [](const Tensor& x) {
    return x * std::numeric_limits<double>::quiet_NaN();
  };
  const Tensor m = influence(f, numbers({2}), 0, 0);
  CHECK(std::isnan(m.at({0, 0})));
}

TEST_CASE("ids are exchanged, and what no gradient sees is seen") {
  // The sum of the ids so far: y_j = sum of x_i, i <= j.
  const UnaryFunction so_far = [](const Tensor& ids) {
    const Tensor x = cast(ids, DType::f64);
    const Tensor triangle = tensor({{1, 1, 1}, {0, 1, 1}, {0, 0, 1}}, DType::f64);
    return matmul(x, triangle);
  };
  const Tensor ids = tensor({{1, 4, 1}, {4, 1, 9}}, DType::i64);
  const Tensor m = influence(so_far, ids, 1, 1);
  // 1 becomes 4, 4 becomes 9, 9 becomes 1: the largest changes are 5, 5 and 8.
  const std::vector<double> changes{5, 5, 5, 0, 5, 5, 0, 0, 8};
  CHECK(m.to_vector<double>() == changes);

  const UnaryFunction largest = [](const Tensor& x) { return cast(argmax(x), DType::f64); };
  // [9, 1, 4] becomes [1, 4, 9]: its largest moves from place 0 to place 2.
  const Tensor moved = influence(largest, tensor({{9, 1, 4}, {1, 1, 4}}, DType::i64), 0, 0);
  CHECK(moved.at({0, 0}) == 2);
  CHECK(moved.at({1, 0}) == 0);
}

TEST_CASE("a comparison that cannot be made is refused") {
  const UnaryFunction same = [](const Tensor& x) { return x; };
  const UnaryFunction apart = [](const Tensor& x) { return detach(x) * 2.0; };
  CHECK_THROWS_WITH(influence(apart, numbers({2}), 0, 0),
                    ContainsSubstring("nothing was compared"));
  CHECK_THROWS_WITH(influence([](const Tensor& x) { return cast(x, DType::f64); },
                              tensor({3, 3}, DType::i64), 0, 0),
                    ContainsSubstring("fewer than two different ids"));
  CHECK_THROWS_AS(influence(same, numbers({2}), 1, 0), IndexError);
  CHECK_THROWS_AS(influence(same, numbers({2}), 0, 1), IndexError);
  CHECK_THROWS_AS(influence(same, tensor(std::vector<bool>{true, false}, {2}), 0, 0), DTypeError);
  Tape tape;
  CHECK_THROWS_WITH(influence(same, numbers({2}), 0, 0), ContainsSubstring("a tape is alive"));
}

#include <algorithm>
#include <numeric>

#include <tapehead/ops.hpp>
#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>

#include "ops/loops.hpp"
#include "support/catch.hpp"

namespace th = tapehead;
using th::DType;
using th::Shape;
using th::Tensor;

namespace {

const std::vector<DType> kAll{DType::f32, DType::f64, DType::i64, DType::boolean};

// 0, 1, 2, .. (booleans: every third) as a tensor of any dtype.
Tensor counted(const Shape& shape, DType dtype) {
  const Tensor count = th::reshape(th::arange(shape.size()), shape);
  if (dtype != DType::boolean) return th::cast(count, dtype);
  std::vector<bool> values;
  for (std::int64_t i = 0; i < shape.size(); ++i) values.push_back(i % 3 == 1);
  return th::tensor(values, shape);
}

// y[i_order[0], i_order[1], ..] = x[i_0, i_1, ..], element by element.
std::vector<double> permuted(const Tensor& x, const std::vector<int>& order, Shape& shape) {
  shape = x.shape();
  for (int k = 0; k < x.rank(); ++k)
    shape = shape.with(k, x.dim(order[static_cast<std::size_t>(k)]));
  const std::vector<double> from = numbers(x);
  std::vector<double> to(from.size());
  const auto places = indices(x.shape());
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::vector<std::int64_t> at;
    for (const int axis : order) at.push_back(places[i][static_cast<std::size_t>(axis)]);
    to[flat(shape, at)] = from[i];
  }
  return to;
}

}  // namespace

TEST_CASE("permute moves every element to its place, whatever the order") {
  for (const Shape& shape : std::vector<Shape>{
           {}, {7}, {3, 5}, {3, 1, 4}, {3, 5, 17}, {2, 3, 4, 5}, {2, 0, 3}, {1, 2, 3, 1, 2}}) {
    std::vector<int> order(static_cast<std::size_t>(shape.rank()));
    std::iota(order.begin(), order.end(), 0);
    do {
      for (const DType dtype : kAll) {
        const Tensor x = counted(shape, dtype);
        Shape wanted_shape;
        const std::vector<double> wanted = permuted(x, order, wanted_shape);
        const Tensor y = th::permute(x, order);
        REQUIRE(y.shape() == wanted_shape);
        REQUIRE(y.dtype() == dtype);
        CHECK(numbers(y) == wanted);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_CASE("permute of larger tensors, past a tile and past a chunk") {
  struct Case {
    Shape shape;
    std::vector<int> order;
  };
  for (const Case& c : std::vector<Case>{{{67, 33}, {1, 0}},
                                         {{300, 301}, {1, 0}},
                                         {{4, 65, 3, 70}, {0, 2, 1, 3}},
                                         {{4, 65, 3, 70}, {3, 2, 1, 0}},
                                         {{40, 3, 500}, {2, 0, 1}},
                                         {{2, 1, 2, 3, 1, 2, 2, 5}, {7, 0, 6, 1, 5, 2, 4, 3}}}) {
    const Tensor x = counted(c.shape, DType::f32);
    Shape shape;
    const std::vector<double> wanted = permuted(x, c.order, shape);
    for (const int count : {1, 2, 3}) {
      const th::UseThreads use(count);
      CHECK(numbers(th::permute(x, c.order)) == wanted);
    }
  }
}

TEST_CASE("permute's gradient goes back the way it came") {
  th::Tape tape({.differentiable = true});
  const Tensor x = tape.watch(counted({2, 3, 4}, DType::f64));
  const Tensor dy = integers({4, 2, 3}, DType::f64, 1);
  const Tensor y = th::permute(x, {2, 0, -2});
  const Tensor dx = tape.backward(y, dy)[x];
  for (const auto& at : indices({2, 3, 4}))
    CHECK(dx.at({at[0], at[1], at[2]}) == dy.at({at[2], at[0], at[1]}));
  // Twice: y is linear, so the gradient of sum(y^2) is 2x and its gradient is 2.
  const Tensor twice = tape.backward(th::sum(y * y))[x];
  CHECK(th::compare(twice, 2.0 * x));
  CHECK(th::compare(tape.backward(th::sum(twice))[x], th::full({2, 3, 4}, 2, DType::f64)));
}

TEST_CASE("transpose exchanges two axes") {
  CHECK(th::same_bits(th::transpose(th::tensor({{1, 2, 3}, {4, 5, 6}})),
                      th::tensor({{1, 4}, {2, 5}, {3, 6}})));
  const Tensor x = counted({2, 3, 4}, DType::f32);
  Shape shape;
  const std::vector<double> wanted = permuted(x, {2, 1, 0}, shape);
  CHECK(numbers(th::transpose(x, 0, -1)) == wanted);
  CHECK(th::same_bits(th::transpose(x, 1, 1), x));
  th::Tape tape;
  const Tensor a = tape.watch(th::tensor({{1, 2, 3}, {4, 5, 6}}));
  const th::Gradients g = tape.backward(th::transpose(a), th::tensor({{1, 2}, {3, 4}, {5, 6}}));
  CHECK(th::same_bits(g[a], th::tensor({{1, 3, 5}, {2, 4, 6}})));
  CHECK_THROWS_AS(th::transpose(th::zeros({3})), th::IndexError);
  CHECK_THROWS_AS(th::transpose(th::zeros({3, 2}), 0, 2), th::IndexError);
}

TEST_CASE("permute refuses an order that is none") {
  const Tensor x = th::zeros({3, 5, 17});
  CHECK_THROWS_WITH(th::permute(x, {0, 1}),
                    ContainsSubstring("permute: order [0, 1] for shape [3, 5, 17] has 2 entries "
                                      "for 3 axes"));
  CHECK_THROWS_WITH(th::permute(x, {0, 2, -1}), ContainsSubstring("names axis 2 twice"));
  CHECK_THROWS_AS(th::permute(x, {0, 1, 3}), th::IndexError);
  CHECK_THROWS_AS(th::permute(Tensor(), {}), th::ValueError);
}

TEST_CASE("slice takes what lies between two places of an axis") {
  for (const DType dtype : kAll) {
    const Tensor x = counted({3, 5, 4}, dtype);
    for (int axis = 0; axis < 3; ++axis) {
      for (std::int64_t begin = 0; begin <= x.dim(axis); ++begin) {
        for (std::int64_t end = begin; end <= x.dim(axis); ++end) {
          const Tensor y = th::slice(x, axis, begin, end);
          REQUIRE(y.shape() == x.shape().with(axis, end - begin));
          for (std::vector<std::int64_t> at : indices(y.shape())) {
            const double found = y.at({at[0], at[1], at[2]});
            at[static_cast<std::size_t>(axis)] += begin;
            CHECK(found == x.at({at[0], at[1], at[2]}));
          }
        }
      }
    }
  }
}

TEST_CASE("gradients of slice, pad, concat, stack and split by hand") {
  th::Tape tape;
  const Tensor x = tape.watch(th::tensor({{1, 2, 3}, {4, 5, 6}}));
  const Tensor z = tape.watch(th::tensor({{7}, {8}}));
  SECTION("slice") {
    const Tensor y = th::slice(x, 1, 1, 3);
    CHECK(th::same_bits(y, th::tensor({{2, 3}, {5, 6}})));
    CHECK(th::same_bits(tape.backward(y, th::tensor({{10, 20}, {30, 40}}))[x],
                        th::tensor({{0, 10, 20}, {0, 30, 40}})));
  }
  SECTION("slice of rows") {
    const Tensor y = th::slice(x, -2, 1, 2);
    CHECK(th::same_bits(y, th::tensor({{4, 5, 6}})));
    CHECK(th::same_bits(tape.backward(y, th::tensor({{1, 2, 3}}))[x],
                        th::tensor({{0, 0, 0}, {1, 2, 3}})));
  }
  SECTION("two slices of one tensor overlap") {
    const Tensor y = th::slice(x, 1, 0, 2) * th::slice(x, 1, 1, 3);
    CHECK(th::same_bits(tape.backward(th::sum(y))[x], th::tensor({{2, 4, 2}, {5, 10, 5}})));
  }
  SECTION("pad") {
    const Tensor y = th::pad(x, 0, 1, 2, -1);
    CHECK(th::same_bits(
        y, th::tensor({{-1, -1, -1}, {1, 2, 3}, {4, 5, 6}, {-1, -1, -1}, {-1, -1, -1}})));
    const Tensor dy = th::reshape(th::arange(0, 15), {5, 3});
    CHECK(th::same_bits(tape.backward(y, dy)[x], th::tensor({{3, 4, 5}, {6, 7, 8}})));
  }
  SECTION("concat") {
    const Tensor y = th::concat({x, z, x}, 1);
    CHECK(th::same_bits(y, th::tensor({{1, 2, 3, 7, 1, 2, 3}, {4, 5, 6, 8, 4, 5, 6}})));
    const th::Gradients g = tape.backward(y, th::reshape(th::arange(0, 14), {2, 7}));
    CHECK(th::same_bits(g[x], th::tensor({{0 + 4, 1 + 5, 2 + 6}, {7 + 11, 8 + 12, 9 + 13}})));
    CHECK(th::same_bits(g[z], th::tensor({{3}, {10}})));
  }
  SECTION("concat with a constant") {
    const Tensor y = th::concat({th::zeros({1, 3}), x}, 0);
    const th::Gradients g = tape.backward(y, th::tensor({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}));
    CHECK(th::same_bits(g[x], th::tensor({{4, 5, 6}, {7, 8, 9}})));
  }
  SECTION("stack in front and at the end") {
    const Tensor row = tape.watch(th::tensor({1, 2}));
    const Tensor y = th::stack({row, th::tensor({3, 4})});
    CHECK(th::same_bits(y, th::tensor({{1, 2}, {3, 4}})));
    const Tensor t = th::stack({th::tensor({3, 4}), row}, -1);
    CHECK(th::same_bits(t, th::tensor({{3, 1}, {4, 2}})));
    const Tensor w = th::tensor({{1, 10}, {100, 1000}});
    const th::Gradients g = tape.backward(th::sum(y * w) + th::sum(t * w));
    CHECK(th::same_bits(g[row], th::tensor({1 + 10, 10 + 1000})));
  }
  SECTION("split") {
    const std::vector<Tensor> parts = th::split(x, 1, 3);
    REQUIRE(parts.size() == 3);
    CHECK(th::same_bits(parts[1], th::tensor({{2}, {5}})));
    const Tensor y = parts[0] + 2.0 * parts[1] + 3.0 * parts[2];
    CHECK(th::same_bits(tape.backward(th::sum(y))[x], th::tensor({{1, 2, 3}, {1, 2, 3}})));
  }
}

TEST_CASE("concat of slices and of split parts is the whole again") {
  for (const DType dtype : kAll) {
    const Tensor x = counted({3, 6, 70}, dtype);
    for (int axis = 0; axis < 3; ++axis) {
      CHECK(th::same_bits(th::concat({th::slice(x, axis, 0, 1), th::slice(x, axis, 1, 1),
                                      th::slice(x, axis, 1, x.dim(axis))},
                                     axis),
                          x));
      CHECK(th::same_bits(th::concat(th::split(x, axis, x.dim(axis)), axis), x));
    }
  }
}

TEST_CASE("shape ops work on empty axes and on scalars") {
  const Tensor none = th::zeros({2, 0, 3});
  CHECK(th::slice(none, 1, 0, 0).shape() == Shape{2, 0, 3});
  CHECK(th::slice(th::zeros({2, 3}), 1, 1, 1).shape() == Shape{2, 0});
  CHECK(th::same_bits(th::concat({none, th::ones({2, 1, 3})}, 1), th::ones({2, 1, 3})));
  CHECK(th::concat({none, none}, 0).shape() == Shape{4, 0, 3});
  CHECK(th::stack({none, none}, 1).shape() == Shape{2, 2, 0, 3});
  CHECK(th::same_bits(th::pad(none, 1, 1, 1, 5), th::full({2, 2, 3}, 5)));
  CHECK(th::pad(none, 0, 1, 0).shape() == Shape{3, 0, 3});
  CHECK(th::split(none, 1, 2).size() == 2);
  CHECK(th::same_bits(th::stack({th::tensor(1), th::tensor(2)}), th::tensor({1, 2})));
  th::Tape tape;
  const Tensor x = tape.watch(none);
  CHECK(tape.backward(th::sum(th::concat({x, th::ones({2, 1, 3})}, 1)))[x].shape() ==
        Shape{2, 0, 3});
}

TEST_CASE("pad holds the value in x's own dtype") {
  CHECK(th::same_bits(th::pad(ids({1}, {1}), 0, 1, 0, 7), ids({7, 1}, {2})));
  CHECK(th::same_bits(th::pad(th::tensor({1}, DType::boolean), 0, 0, 1),
                      th::tensor({1, 0}, DType::boolean)));
  CHECK_THROWS_WITH(th::pad(ids({1}, {1}), 0, 1, 0, 0.5),
                    ContainsSubstring("pad: the value 0.5 is no i64"));
  CHECK_THROWS_AS(th::pad(th::tensor({1}, DType::boolean), 0, 1, 0, 2), th::ValueError);
}

TEST_CASE("shape ops refuse what does not fit and say why") {
  const Tensor x = th::zeros({3, 5, 17});
  CHECK_THROWS_WITH(th::slice(x, 1, 2, 6),
                    ContainsSubstring("slice: 2..6 (end exclusive) of axis 1 of [3, 5, 17], which "
                                      "has size 5"));
  CHECK_THROWS_AS(th::slice(x, 1, -1, 2), th::IndexError);
  CHECK_THROWS_AS(th::slice(x, 1, 3, 2), th::IndexError);
  CHECK_THROWS_AS(th::slice(x, 3, 0, 1), th::IndexError);
  CHECK_THROWS_WITH(th::split(x, 2, 4),
                    ContainsSubstring("axis 2 of [3, 5, 17] has size 17, which 4 equal parts do "
                                      "not divide: 1 is left over"));
  CHECK_THROWS_AS(th::split(x, 2, 0), th::ValueError);
  CHECK_THROWS_AS(th::pad(x, 0, -1, 2), th::ValueError);
  CHECK_THROWS_AS(th::pad(x, 0, INT64_MAX, INT64_MAX), th::ShapeError);
  CHECK_THROWS_WITH(th::concat({x, th::zeros({3, 5, 16})}, 1),
                    ContainsSubstring("concat: tensor 1 [3, 5, 16] beside tensor 0 [3, 5, 17]"));
  CHECK_THROWS_AS(th::concat({x, th::zeros({3, 5})}, 0), th::ShapeError);
  CHECK_THROWS_AS(th::concat({x, th::zeros({3, 5, 17}, DType::f64)}, 0), th::DTypeError);
  CHECK_THROWS_AS(th::concat({}, 0), th::ValueError);
  CHECK_THROWS_AS(th::concat({x, Tensor()}, 0), th::ValueError);
  CHECK_THROWS_AS(th::concat({th::tensor(1)}, 0), th::IndexError);
  CHECK_THROWS_WITH(th::stack({x, th::zeros({3, 5, 1})}),
                    ContainsSubstring("stack: tensor 1 [3, 5, 1] beside tensor 0 [3, 5, 17]"));
  CHECK_THROWS_AS(th::stack({x}, 4), th::IndexError);
  CHECK_THROWS_AS(th::stack({th::zeros({1, 1, 1, 1, 1, 1, 1, 1})}), th::ShapeError);
  CHECK_THROWS_AS(th::stack({}), th::ValueError);
}

#include <tapehead/ops.hpp>
#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>

#include "ops/loops.hpp"
#include "support/catch.hpp"

namespace th = tapehead;
using th::DType;
using th::Shape;
using th::Tensor;

TEST_CASE("one_hot puts a one at each id") {
  const Tensor x = ids({2, 0, 1, 2}, {2, 2});
  CHECK(th::same_bits(th::one_hot(x, 3), th::tensor({{{0, 0, 1}, {1, 0, 0}},  //
                                                     {{0, 1, 0}, {0, 0, 1}}})));
  CHECK(th::same_bits(th::one_hot(ids({1}, {}), 2, DType::f64), th::tensor({0, 1}, DType::f64)));
  CHECK(th::same_bits(th::one_hot(ids({0}, {1}), 1, DType::i64), th::tensor({{1}}, DType::i64)));
  CHECK(th::same_bits(th::one_hot(ids({1}, {1}), 2, DType::boolean),
                      th::tensor({{0, 1}}, DType::boolean)));
  CHECK(th::one_hot(ids({}, {2, 0}), 5).shape() == Shape{2, 0, 5});
  CHECK(th::one_hot(ids({}, {0}), 0).shape() == Shape{0, 0});
  CHECK_THROWS_WITH(th::one_hot(ids({0, 1, 2, 3}, {2, 2}), 3),
                    ContainsSubstring("one_hot: id 3 at position [1, 1] is outside the 3 classes"));
  CHECK_THROWS_AS(th::one_hot(ids({-1}, {1}), 3), th::IndexError);
  CHECK_THROWS_AS(th::one_hot(ids({0}, {1}), 0), th::IndexError);
  CHECK_THROWS_AS(th::one_hot(ids({0}, {1}), -1), th::ValueError);
  CHECK_THROWS_AS(th::one_hot(th::tensor({1.0}), 3), th::DTypeError);
}

TEST_CASE("embedding takes rows, and repeated ids add their gradients") {
  {
    th::Tape tape;
    const Tensor table = tape.watch(th::tensor({{0.1}}, DType::f64));
    const Tensor y = th::embedding(table, ids({0, 0}, {2}));
    const th::Gradients g = tape.backward(y, th::tensor({{0.2}, {0.3}}, DType::f64));
    CHECK(g[table].item() == 0.5);
  }
  {
    th::Tape tape;
    const Tensor table = tape.watch(th::tensor({{1}, {2}, {3}, {4}}));
    const Tensor y = th::embedding(table, ids({1, 1, 3, 1}, {2, 2}));
    CHECK(th::same_bits(y, th::tensor({{{2}, {2}}, {{4}, {2}}})));
    const th::Gradients g = tape.backward(th::sum(y));
    CHECK(th::same_bits(g[table], th::tensor({{0}, {3}, {0}, {1}})));
  }
}

TEST_CASE("embedding and its gradient equal the loop over ids") {
  struct Case {
    std::int64_t rows;
    std::int64_t width;
    Shape ids;
  };
  for (const Case& c : std::vector<Case>{{1, 1, {}},
                                         {3, 2, {4}},
                                         {7, 17, {3, 5}},
                                         {67, 3, {2, 3, 5}},
                                         {5, 67, {31}},
                                         {4, 130, {2, 9}},
                                         {4, 2, {2, 0}},
                                         {0, 2, {0}},
                                         {4, 0, {3}}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      th::Rng rng(9);
      std::vector<std::int64_t> drawn;
      for (std::int64_t i = 0; i < c.ids.size(); ++i) drawn.push_back(rng.below(c.rows));
      const Tensor where = ids(drawn, c.ids);
      th::Tape tape;
      const Tensor table = tape.watch(integers({c.rows, c.width}, dtype, 1));
      const Tensor y = th::embedding(table, where);
      REQUIRE(y.shape() == c.ids.appended(c.width));
      const Tensor dy = integers(y.shape(), dtype, 2);
      std::vector<double> wanted_y(static_cast<std::size_t>(y.size()));
      std::vector<double> wanted_d(static_cast<std::size_t>(table.size()));
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        for (std::size_t j = 0; j < static_cast<std::size_t>(c.width); ++j) {
          const std::size_t at = static_cast<std::size_t>(drawn[i] * c.width) + j;
          const std::size_t from = i * static_cast<std::size_t>(c.width) + j;
          wanted_y[from] = numbers(table)[at];
          wanted_d[at] += numbers(dy)[from];
        }
      }
      CHECK(numbers(y) == wanted_y);
      CHECK(numbers(tape.backward(y, dy)[table]) == wanted_d);
    }
  }
}

TEST_CASE("a row that no id names has a gradient of exactly 0, not of -0 or what memory held") {
  { const Tensor dirt = th::full({100, 8}, -1e30); }
  th::Tape tape;
  const Tensor table = tape.watch(th::ones({100, 8}));
  const th::Gradients g = tape.backward(th::embedding(table, ids({7}, {1})), th::full({1, 8}, -3));
  const Tensor d = g[table];
  CHECK(th::same_bits(th::slice(d, 0, 0, 7), th::zeros({7, 8})));
  CHECK(th::same_bits(th::slice(d, 0, 7, 8), th::full({1, 8}, -3)));
  CHECK(th::same_bits(th::slice(d, 0, 8, 100), th::zeros({92, 8})));
}

TEST_CASE("ten thousand gradients of one row lose no digits in f32") {
  // 0.1f ten thousand times: a running f32 sum is off by about 1e-4 relative.
  th::Tape tape;
  const Tensor table = tape.watch(th::zeros({2, 1}));
  const Tensor y = th::embedding(table, th::zeros({10000}, DType::i64));
  const th::Gradients g = tape.backward(y, th::full({10000, 1}, 0.1));
  CHECK(g[table].at({0, 0}) == static_cast<double>(static_cast<float>(10000.0 * 0.1f)));
}

TEST_CASE("embedding refuses ids outside its table") {
  const Tensor table = th::zeros({3, 12});
  for (const std::int64_t bad : {std::int64_t{999}, std::int64_t{3}, std::int64_t{-1}}) {
    CHECK_THROWS_AS(th::embedding(table, ids({0, 1, 2, bad}, {2, 2})), th::IndexError);
    CHECK_THROWS_WITH(th::embedding(table, ids({0, 1, bad, 999}, {2, 2})),
                      ContainsSubstring("embedding: id " + std::to_string(bad) +
                                        " at position [1, 0] is outside the table [rows 3, width "
                                        "12]: allowed are 0..2"));
  }
  CHECK_THROWS_WITH(th::embedding(th::zeros({0, 2}), ids({0}, {1})),
                    ContainsSubstring("allowed are none"));
  CHECK_THROWS_WITH(th::embedding(table, th::tensor({2.7})),
                    ContainsSubstring("each id must be an i64, but the tensor is f32"));
  CHECK_THROWS_AS(th::embedding(table, th::tensor({2.0})), th::DTypeError);
  CHECK_THROWS_AS(th::embedding(th::zeros({3}), ids({0}, {1})), th::ShapeError);
  CHECK_THROWS_AS(th::embedding(th::zeros({3, 2}, DType::i64), ids({0}, {1})), th::DTypeError);
  CHECK_THROWS_AS(th::embedding(table, Tensor()), th::ValueError);
}

TEST_CASE("embedding's gradient can be differentiated again") {
  // The lookup is linear in the table: v . dtable = sum(w embedding(v)), whose gradient by w is
  // embedding(v).
  th::Tape tape({.differentiable = true});
  const Tensor where = ids({2, 0, 2}, {3});
  const Tensor table = tape.watch(integers({4, 2}, DType::f64, 1));
  const Tensor w = tape.watch(integers({3, 2}, DType::f64, 2));
  const Tensor v = th::tensor({{1, 2}, {3, 4}, {5, 6}, {7, 8}}, DType::f64);
  const th::Gradients first = tape.backward(th::sum(w * th::embedding(table, where)));
  const th::Gradients second = tape.backward(first[table], v);
  CHECK(th::same_bits(th::detach(second[w]), th::tensor({{5, 6}, {1, 2}, {5, 6}}, DType::f64)));
}

TEST_CASE("gather and scatter_add by hand") {
  const Tensor x = th::tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(th::same_bits(th::gather(x, 1, ids({2, 2, 0, 1}, {2, 2})), th::tensor({{3, 3}, {4, 5}})));
  CHECK(th::same_bits(th::gather(x, 0, ids({1, 0, 1}, {1, 3})), th::tensor({{4, 2, 6}})));
  CHECK(th::same_bits(th::gather(ids({5, 7}, {2}), 0, ids({1, 1, 0}, {3})), ids({7, 7, 5}, {3})));
  CHECK(th::same_bits(
      th::scatter_add(x, 1, ids({2, 2, 0, 1}, {2, 2}), th::tensor({{10, 20}, {30, 40}})),
      th::tensor({{1, 2, 33}, {34, 45, 6}})));
  CHECK(th::same_bits(
      th::scatter_add(x, -2, ids({1, 0, 1, 1, 0, 0}, {2, 3}), th::tensor({{1, 2, 3}, {4, 5, 6}})),
      th::tensor({{1, 9, 9}, {9, 5, 9}})));
}

TEST_CASE("gather and scatter_add equal the loop, forwards and backwards") {
  struct Case {
    Shape x;
    int axis;
    std::int64_t count;
  };
  for (const Case& c : std::vector<Case>{{{1}, 0, 1},
                                         {{5}, 0, 9},
                                         {{3, 5, 17}, 0, 7},
                                         {{3, 5, 17}, 1, 2},
                                         {{3, 5, 17}, -1, 30},
                                         {{2, 300}, 0, 5},
                                         {{3, 4}, 1, 0},
                                         {{2, 0, 3}, 0, 4},
                                         {{2, 1, 2, 1, 2, 1, 2, 1}, 4, 3}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const int axis = c.axis < 0 ? c.axis + c.x.rank() : c.axis;
      const Shape shape = c.x.with(axis, c.count);
      th::Rng rng(4);
      std::vector<std::int64_t> drawn;
      for (std::int64_t i = 0; i < shape.size(); ++i) drawn.push_back(rng.below(c.x[axis]));
      const Tensor index = ids(drawn, shape);
      const Tensor x0 = integers(c.x, dtype, 1);
      const Tensor source0 = integers(shape, dtype, 2);
      const Tensor dy_gather = integers(shape, dtype, 3);
      const Tensor dy_scatter = integers(c.x, dtype, 4);

      std::vector<double> gathered;
      std::vector<double> d_gather(static_cast<std::size_t>(c.x.size()));
      std::vector<double> scattered = numbers(x0);
      std::vector<double> d_source;
      const auto places = indices(shape);
      for (std::size_t i = 0; i < places.size(); ++i) {
        std::vector<std::int64_t> at = places[i];
        at[static_cast<std::size_t>(axis)] = drawn[i];
        const std::size_t from = flat(c.x, at);
        gathered.push_back(numbers(x0)[from]);
        d_gather[from] += numbers(dy_gather)[i];
        scattered[from] += numbers(source0)[i];
        d_source.push_back(numbers(dy_scatter)[from]);
      }
      {
        th::Tape tape;
        const Tensor x = tape.watch(x0);
        const Tensor y = th::gather(x, c.axis, index);
        CHECK(numbers(y) == gathered);
        CHECK(numbers(tape.backward(y, dy_gather)[x]) == d_gather);
      }
      {
        th::Tape tape;
        const Tensor x = tape.watch(x0);
        const Tensor source = tape.watch(source0);
        const Tensor y = th::scatter_add(x, c.axis, index, source);
        CHECK(numbers(y) == scattered);
        const th::Gradients g = tape.backward(y, dy_scatter);
        CHECK(numbers(g[x]) == numbers(dy_scatter));
        CHECK(numbers(g[source]) == d_source);
      }
    }
  }
}

TEST_CASE("gather and scatter_add refuse what does not fit") {
  const Tensor x = th::zeros({2, 3});
  CHECK_THROWS_WITH(th::gather(x, 1, ids({0, 1, 3, 0}, {2, 2})),
                    ContainsSubstring("gather: index 3 at position [1, 0] is outside axis 1 of x "
                                      "[2, 3]: allowed are 0..2"));
  CHECK_THROWS_WITH(th::scatter_add(x, 0, ids({0, 1, -1}, {1, 3}), th::zeros({1, 3})),
                    ContainsSubstring("scatter_add: index -1 at position [0, 2]"));
  CHECK_THROWS_WITH(th::gather(x, 1, ids({0, 1, 2}, {3, 1})),
                    ContainsSubstring("index [3, 1] beside x [2, 3]"));
  CHECK_THROWS_AS(th::gather(x, 0, ids({0}, {1})), th::ShapeError);
  CHECK_THROWS_AS(th::gather(x, 2, ids({0}, {1})), th::IndexError);
  CHECK_THROWS_AS(th::gather(x, 0, th::zeros({1, 3})), th::DTypeError);
  CHECK_THROWS_AS(th::scatter_add(x, 0, ids({0, 0, 0}, {1, 3}), th::zeros({2, 3})), th::ShapeError);
  CHECK_THROWS_AS(th::scatter_add(x, 0, ids({0, 0, 0}, {1, 3}), th::zeros({1, 3}, DType::f64)),
                  th::DTypeError);
}

TEST_CASE("lookups give the same bits on any number of threads") {
  th::Rng rng(5);
  const Tensor table0 = th::randn({300, 96}, rng);
  std::vector<std::int64_t> drawn;
  for (int i = 0; i < 5000; ++i) drawn.push_back(rng.below(300));
  const Tensor where = ids(drawn, {50, 100});
  const Tensor w = th::randn({50, 100, 96}, rng);
  const Tensor x0 = th::randn({300, 700}, rng);
  std::vector<std::int64_t> many;
  for (int i = 0; i < 500 * 700; ++i) many.push_back(rng.below(300));
  const Tensor index = ids(many, {500, 700});
  const Tensor source = th::randn({500, 700}, rng);
  const auto run = [&](int count) {
    const th::UseThreads use(count);
    th::Tape tape;
    const Tensor table = tape.watch(table0);
    const Tensor x = tape.watch(x0);
    const Tensor y = th::embedding(table, where);
    const Tensor z = th::scatter_add(x, 0, index, source);
    const Tensor back = th::gather(z, 0, index);
    const th::Gradients g = tape.backward(th::sum(y * w) + th::sum(back * source));
    return std::vector<Tensor>{y,        z,    back,
                               g[table], g[x], th::one_hot(th::reshape(where, {5000}), 300)};
  };
  const std::vector<Tensor> one = run(1);
  for (const int count : {2, 3}) {
    const std::vector<Tensor> more = run(count);
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(th::same_bits(one[i], more[i]));
  }
}

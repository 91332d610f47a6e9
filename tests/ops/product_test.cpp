#include <limits>

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

// y = op(a) op(b) and the gradients of sum(dy * y), by the definition: one multiply-add for each
// (batch, i, j, k).
struct Product {
  Shape shape;
  std::vector<double> y;
  std::vector<double> da;
  std::vector<double> db;
};

Product by_definition(const Tensor& a, const Tensor& b, th::MatmulOptions options,
                      const std::vector<double>& dy) {
  const int rank = a.rank();
  const auto row = static_cast<std::size_t>(rank - 2);
  const auto column = static_cast<std::size_t>(rank - 1);
  const std::int64_t inner = a.dim(options.transpose_a ? -2 : -1);
  Shape shape = a.shape();
  for (int axis = 0; axis < rank - 2; ++axis)
    if (shape[axis] == 1) shape = shape.with(axis, b.dim(axis));
  shape = shape.with(-2, a.dim(options.transpose_a ? -1 : -2));
  shape = shape.with(-1, b.dim(options.transpose_b ? -2 : -1));
  const std::vector<double> va = numbers(a);
  const std::vector<double> vb = numbers(b);
  Product product{shape, std::vector<double>(static_cast<std::size_t>(shape.size())),
                  std::vector<double>(va.size()), std::vector<double>(vb.size())};
  const auto indexes = indices(shape);
  for (std::size_t at = 0; at < indexes.size(); ++at) {
    std::vector<std::int64_t> ia = indexes[at];
    std::vector<std::int64_t> ib = indexes[at];
    for (std::int64_t k = 0; k < inner; ++k) {
      ia[row] = options.transpose_a ? k : indexes[at][row];
      ia[column] = options.transpose_a ? indexes[at][row] : k;
      ib[row] = options.transpose_b ? indexes[at][column] : k;
      ib[column] = options.transpose_b ? k : indexes[at][column];
      const std::size_t fa = flat(a.shape(), ia);
      const std::size_t fb = flat(b.shape(), ib);
      product.y[at] += va[fa] * vb[fb];
      if (!dy.empty()) {
        product.da[fa] += dy[at] * vb[fb];
        product.db[fb] += dy[at] * va[fa];
      }
    }
  }
  return product;
}

// Value and gradients of matmul equal the definition exactly.
void check_product(const Shape& shape_a, const Shape& shape_b, th::MatmulOptions options,
                   DType dtype) {
  INFO(th::to_string(shape_a) << " times " << th::to_string(shape_b) << ", flags "
                              << options.transpose_a << options.transpose_b);
  th::Tape tape;
  const Tensor a = tape.watch(integers(shape_a, dtype, 1));
  const Tensor b = tape.watch(integers(shape_b, dtype, 2));
  const Tensor y = th::matmul(a, b, options);
  const Tensor dy = integers(y.shape(), dtype, 3);
  const Product wanted = by_definition(a, b, options, numbers(dy));
  REQUIRE(y.shape() == wanted.shape);
  CHECK(numbers(y) == wanted.y);
  const th::Gradients gradients = tape.backward(y, dy);
  CHECK(numbers(gradients[a]) == wanted.da);
  CHECK(numbers(gradients[b]) == wanted.db);
}

const std::vector<th::MatmulOptions> kFlags{
    {false, false}, {false, true}, {true, false}, {true, true}};

Shape flipped(const Shape& shape, bool transposed) {
  return transposed ? shape.with(-1, shape[-2]).with(-2, shape[-1]) : shape;
}

}  // namespace

TEST_CASE("matmul of a hand-sized example") {
  const Tensor a = th::tensor({{1, 2, 3}, {4, 5, 6}});
  const Tensor b = th::tensor({{7, 8}, {9, 10}, {11, 12}});
  CHECK(th::same_bits(th::matmul(a, b), th::tensor({{58, 64}, {139, 154}})));
  CHECK(th::same_bits(th::matmul(a, a, {.transpose_a = false, .transpose_b = true}),
                      th::tensor({{14, 32}, {32, 77}})));
}

TEST_CASE("matmul and its gradients equal the triple loop at every size and transpose") {
  const std::vector<std::int64_t> sizes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 33, 65};
  for (const th::MatmulOptions& flags : kFlags) {
    for (const std::int64_t m : sizes) {
      for (const std::int64_t k : sizes) {
        // Two column counts per pair keep the number of products bearable while each size meets
        // each.
        for (const std::int64_t n : {sizes[static_cast<std::size_t>(m * 7 + k * 3) % 13],
                                     sizes[static_cast<std::size_t>(m + k * 5 + 4) % 13]}) {
          for (const DType dtype : {DType::f32, DType::f64}) {
            check_product(flipped({m, k}, flags.transpose_a), flipped({k, n}, flags.transpose_b),
                          flags, dtype);
          }
        }
      }
    }
  }
}

TEST_CASE("matmul stretches leading axes and sums the gradients back") {
  struct Case {
    Shape a;
    Shape b;
  };
  const std::vector<Case> cases{
      {{3, 2, 5}, {3, 5, 4}},              // nothing stretched
      {{3, 2, 5}, {1, 5, 4}},              // one b for all: folds into one product
      {{1, 2, 5}, {3, 5, 4}},              // one a for all
      {{2, 3, 2, 5}, {1, 1, 5, 4}},        // folds over two axes
      {{2, 3, 2, 5}, {2, 1, 5, 4}},        // folds over the last
      {{2, 3, 2, 5}, {1, 3, 5, 4}},        // stretched in front
      {{2, 1, 2, 5}, {2, 3, 5, 4}},        //
      {{2, 1, 2, 5}, {1, 3, 5, 4}},        // each stretched once
      {{1, 3, 1, 2, 5}, {2, 1, 4, 5, 3}},  // in turn
      {{2, 1, 3, 2, 5}, {1, 1, 1, 5, 3}},  // with an axis of size 1 on both sides
      {{1, 1, 2, 5}, {1, 1, 5, 3}},
      {{0, 2, 5}, {1, 5, 3}},
      {{2, 0, 2, 5}, {1, 1, 5, 3}},
      {{1, 2, 5}, {0, 5, 3}},
      {{3, 2, 0}, {1, 0, 4}},
      {{3, 0, 5}, {3, 5, 2}},
      {{1, 1, 1, 1, 1, 2, 3, 4}, {2, 1, 1, 1, 1, 1, 4, 3}},
  };
  for (const Case& c : cases) {
    for (const th::MatmulOptions& flags : kFlags) {
      for (const DType dtype : {DType::f32, DType::f64}) {
        check_product(flipped(c.a, flags.transpose_a), flipped(c.b, flags.transpose_b), flags,
                      dtype);
      }
    }
  }
}

TEST_CASE("a row repeated by broadcast_to gets the sum of its rows' gradients") {
  // x [1, 2] as [2, 2] times W: dx is the sum over the two rows of dy W^T, and the product equals
  // that of a dense copy bit for bit.
  th::Tape tape;
  const Tensor x = tape.watch(th::tensor({{1, 2}}, DType::f64));
  const Tensor w = tape.watch(th::tensor({{3, 4}, {5, 6}}, DType::f64));
  const Tensor y = th::matmul(th::broadcast_to(x, {2, 2}), w);
  CHECK(th::same_bits(y, th::matmul(th::tensor({{1, 2}, {1, 2}}, DType::f64), th::detach(w))));
  const th::Gradients g = tape.backward(y, th::tensor({{1, 10}, {100, 1000}}, DType::f64));
  CHECK(numbers(g[x]) == std::vector<double>{43 + 4300, 65 + 6500});
  CHECK(numbers(g[w]) == std::vector<double>{101, 1010, 202, 2020});
}

TEST_CASE("products of transposed inputs equal products of dense copies bit for bit") {
  th::Rng rng(3);
  const Tensor x = th::randn({33, 17}, rng);
  const Tensor w = th::randn({33, 9}, rng);
  const Tensor dense = th::tensor(std::span<const float>(th::transpose(x).data<float>()), {17, 33});
  CHECK(th::same_bits(th::matmul(th::transpose(x), w), th::matmul(dense, w)));
  CHECK(th::same_bits(th::linear(th::transpose(x), w), th::linear(dense, w)));
}

TEST_CASE("old NaN in reused memory never reaches a product") {
  for (std::int64_t size = 1; size <= 40; ++size) {
    for (const th::MatmulOptions& flags : kFlags) {
      { const Tensor dirt = th::full({size, size}, std::numeric_limits<double>::quiet_NaN()); }
      const Tensor a = integers({size, size}, DType::f32, 1);
      const Tensor b = integers({size, size}, DType::f32, 2);
      { const Tensor dirt = th::full({size, size}, std::numeric_limits<double>::quiet_NaN()); }
      CHECK(numbers(th::matmul(a, b, flags)) == by_definition(a, b, flags, {}).y);
    }
  }
}

TEST_CASE("matmul's gradients can be differentiated again, with every transpose") {
  // s(a, b) = sum(w y). The product is linear in a, so v . ds/da = sum(w op(v) op(b)), whose
  // gradient by b is that of the product of v and b, and by w that product itself.
  for (const th::MatmulOptions& flags : kFlags) {
    for (const bool shared : {false, true}) {
      const Shape shape_a = flipped({3, 2, 5}, flags.transpose_a);
      const Shape shape_b = flipped({shared ? 1 : 3, 5, 4}, flags.transpose_b);
      th::Tape tape({.differentiable = true});
      const Tensor a = tape.watch(integers(shape_a, DType::f64, 1));
      const Tensor b = tape.watch(integers(shape_b, DType::f64, 2));
      const Tensor w = tape.watch(integers({3, 2, 4}, DType::f64, 3));
      const Tensor v = integers(shape_a, DType::f64, 4);
      const Tensor u = integers(shape_b, DType::f64, 5);
      const th::Gradients first = tape.backward(th::sum(w * th::matmul(a, b, flags)));
      const Product of_v = by_definition(v, b, flags, numbers(w));
      const th::Gradients by_a = tape.backward(first[a], v);
      CHECK(numbers(by_a[b]) == of_v.db);
      CHECK(numbers(by_a[w]) == of_v.y);
      const Product of_u = by_definition(a, u, flags, numbers(w));
      const th::Gradients by_b = tape.backward(first[b], u);
      CHECK(numbers(by_b[a]) == of_u.da);
      CHECK(numbers(by_b[w]) == of_u.y);
    }
  }
}

TEST_CASE("linear and its gradients equal the definition") {
  struct Case {
    Shape x;
    std::int64_t outputs;
  };
  for (const Case& c : std::vector<Case>{{{3}, 2},
                                         {{1}, 1},
                                         {{2, 3}, 4},
                                         {{2, 5, 7}, 3},
                                         {{2, 3, 1, 5}, 67},
                                         {{0, 3}, 2},
                                         {{2, 0, 3}, 2},
                                         {{2, 0}, 3},
                                         {{0}, 3},
                                         {{2, 3}, 0},
                                         {{500, 3}, 5},
                                         {{2, 2000}, 3},
                                         {{2000, 2}, 3}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const bool with_bias : {false, true}) {
        INFO(th::to_string(c.x) << " to " << c.outputs);
        th::Tape tape;
        const Tensor x = tape.watch(integers(c.x, dtype, 1));
        const Tensor w = tape.watch(integers({c.x[-1], c.outputs}, dtype, 2));
        const Tensor bias = tape.watch(integers({c.outputs}, dtype, 3));
        const Tensor y = with_bias ? th::linear(x, w, bias) : th::linear(x, w);
        const Tensor dy = integers(y.shape(), dtype, 4);
        REQUIRE(y.shape() == c.x.with(-1, c.outputs));
        std::int64_t rows = 1;
        for (int axis = 0; axis + 1 < c.x.rank(); ++axis) rows *= c.x[axis];
        const Product wanted =
            by_definition(th::reshape(th::detach(x), {rows, c.x[-1]}), w, {}, numbers(dy));
        std::vector<double> values = wanted.y;
        std::vector<double> dbias(static_cast<std::size_t>(c.outputs));
        const auto width = static_cast<std::size_t>(c.outputs);
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (with_bias) values[i] += numbers(bias)[i % width];
          dbias[i % width] += numbers(dy)[i];
        }
        CHECK(numbers(y) == values);
        const th::Gradients g = tape.backward(y, dy);
        CHECK(numbers(g[x]) == wanted.da);
        CHECK(numbers(g[w]) == wanted.db);
        if (with_bias) CHECK(numbers(g[bias]) == dbias);
      }
    }
  }
}

TEST_CASE("linear's gradients can be differentiated again") {
  th::Tape tape({.differentiable = true});
  const Tensor x = tape.watch(integers({2, 3, 5}, DType::f64, 1));
  const Tensor w = tape.watch(integers({5, 4}, DType::f64, 2));
  const Tensor b = tape.watch(integers({4}, DType::f64, 3));
  const Tensor c = tape.watch(integers({2, 3, 4}, DType::f64, 4));
  const Tensor v = integers({2, 3, 5}, DType::f64, 5);
  const th::Gradients first = tape.backward(th::sum(c * th::linear(x, w, b)));
  const th::Gradients second = tape.backward(first[x], v);
  const Product wanted =
      by_definition(th::reshape(v, {6, 5}), w, {}, numbers(c));  // v . dx = sum(c (v W))
  CHECK(numbers(second[w]) == wanted.db);
  CHECK(numbers(second[c]) == wanted.y);
  CHECK_FALSE(second.reached(b));
}

TEST_CASE("products give the same bits on any number of threads") {
  struct Case {
    Shape a;
    Shape b;
  };
  th::Rng rng(5);
  for (const Case& c : std::vector<Case>{{{65, 33}, {33, 17}},
                                         {{700, 40}, {40, 50}},
                                         {{20, 3000}, {3000, 30}},
                                         {{16, 40, 24}, {16, 24, 40}},
                                         {{9, 50, 24}, {1, 24, 40}},
                                         {{1, 200, 130}, {3, 130, 140}}}) {
    const Tensor first = th::randn(c.a, rng);
    const Tensor other = th::randn(c.b, rng);
    const Tensor bias = th::randn({c.b[-1]}, rng);
    const auto run = [&](int count) {
      const th::UseThreads use(count);
      th::Tape tape;
      const Tensor a = tape.watch(first);
      const Tensor b = tape.watch(other);
      const Tensor d = tape.watch(bias);
      const Tensor y = th::matmul(a, b);
      const Tensor z =
          th::linear(a,
                     th::reshape(th::slice(th::reshape(b, {b.size()}), 0, 0, a.dim(-1) * b.dim(-1)),
                                 {a.dim(-1), b.dim(-1)}),
                     d);
      const th::Gradients g = tape.backward(th::sum(y * y) + th::sum(z * z));
      return std::vector<Tensor>{y, z, g[a], g[b], g[d]};
    };
    const std::vector<Tensor> one = run(1);
    for (const int count : {2, 3}) {
      const std::vector<Tensor> more = run(count);
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(th::same_bits(one[i], more[i]));
    }
  }
}

TEST_CASE("products refuse what does not fit and say why") {
  const Tensor a = th::zeros({2, 5, 32});
  CHECK_THROWS_WITH(th::matmul(a, th::zeros({2, 64, 128})),
                    ContainsSubstring("matmul: inner sizes differ: a [batch 2, rows 5, inner 32] "
                                      "times b [batch 2, inner 64, columns 128]: 32 is not 64"));
  CHECK_THROWS_WITH(th::matmul(th::zeros({5, 32}), th::zeros({5, 32})),
                    ContainsSubstring("a [rows 5, inner 32] times b [inner 5, columns 32]"));
  CHECK_THROWS_WITH(
      th::matmul(th::zeros({5, 32}), th::zeros({4, 32}), {true, false}),
      ContainsSubstring(
          "a [inner 5, rows 32] transposed times b [inner 4, columns 32]: 5 is not 4"));
  CHECK_THROWS_WITH(th::matmul(a, th::zeros({32, 4})), ContainsSubstring("ranks differ"));
  CHECK_THROWS_WITH(
      th::matmul(a, th::zeros({3, 32, 4})),
      ContainsSubstring("batch sizes differ on axis 0") && ContainsSubstring("2 is not 3"));
  CHECK_THROWS_WITH(th::matmul(a, th::zeros({0, 32, 4})), ContainsSubstring("2 is not 0"));
  CHECK_THROWS_WITH(th::matmul(th::zeros({3}), th::zeros({3})), ContainsSubstring("rank 2"));
  CHECK_THROWS_AS(th::matmul(a, th::zeros({2, 32, 4}, DType::f64)), th::DTypeError);
  CHECK_THROWS_AS(th::matmul(th::zeros({2, 2}, DType::i64), th::zeros({2, 2}, DType::i64)),
                  th::DTypeError);
  CHECK_THROWS_AS(th::matmul(Tensor(), a), th::ValueError);

  CHECK_THROWS_WITH(
      th::linear(a, th::zeros({64, 128})),
      ContainsSubstring("linear: inner sizes differ: x [batch 2, time 5, in 32] times "
                        "weight [in 64, out 128]: 32 is not 64"));
  CHECK_THROWS_WITH(th::linear(a, th::zeros({32, 4}), th::zeros({5})),
                    ContainsSubstring("bias [5] does not fit weight [in 32, out 4]"));
  CHECK_THROWS_AS(th::linear(a, th::zeros({32, 4}), th::zeros({1, 4})), th::ShapeError);
  CHECK_THROWS_AS(th::linear(th::tensor(1), th::zeros({1, 1})), th::ShapeError);
  CHECK_THROWS_AS(th::linear(a, th::zeros({32})), th::ShapeError);
  CHECK_THROWS_AS(th::linear(a, th::zeros({32, 4}, DType::f64)), th::DTypeError);
}

TEST_CASE("a size that BLAS cannot count is refused before anything is allocated") {
  const std::int64_t large = std::int64_t{1} << 31;
  CHECK_THROWS_WITH(th::matmul(th::zeros({large, 0}), th::zeros({0, 1})),
                    ContainsSubstring("rows 2147483648 does not fit"));
  CHECK_THROWS_WITH(th::matmul(th::zeros({1, 0}), th::zeros({0, large})),
                    ContainsSubstring("columns 2147483648 does not fit"));
  CHECK_THROWS_WITH(th::matmul(th::zeros({0, large}), th::zeros({large, 0})),
                    ContainsSubstring("inner size 2147483648 does not fit"));
  CHECK_THROWS_WITH(th::linear(th::zeros({large, 0}), th::zeros({0, 1})),
                    ContainsSubstring("linear: rows 2147483648 does not fit"));
}

#include <tapehead/tensor.hpp>

#include <cmath>
#include <limits>

#include "support/catch.hpp"

namespace th = tapehead;
using th::DType;
using th::Shape;
using th::Tensor;

TEST_CASE("shapes count, index from the end and refuse what is not a shape") {
  const Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape.size() == 24);
  CHECK(shape[-1] == 4);
  CHECK(shape[0] == 2);
  CHECK(Shape{}.size() == 1);
  CHECK(Shape{3, 0, 5}.size() == 0);
  CHECK(shape.with(1, 7) == Shape{2, 7, 4});
  CHECK(shape.without(-2) == Shape{2, 4});
  CHECK(shape.appended(9) == Shape{2, 3, 4, 9});
  CHECK(Shape{1} != Shape{});
  CHECK(to_string(shape) == "[2, 3, 4]");
  CHECK_THROWS_AS(shape[3], th::IndexError);
  CHECK_THROWS_AS(shape[-4], th::IndexError);
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), th::ShapeError);
  CHECK_THROWS_WITH((Shape{2, -1}), ContainsSubstring("negative"));
  // Products that wrap around 64 bits, also behind a zero.
  CHECK_THROWS_WITH((Shape{std::int64_t{1} << 32, std::int64_t{1} << 32}),
                    ContainsSubstring("too many"));
  CHECK_THROWS_WITH((Shape{0, std::int64_t{1} << 32, std::int64_t{1} << 32}),
                    ContainsSubstring("too many"));
}

TEST_CASE("tensors are made from nested braces, spans and factories") {
  const Tensor m = th::tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(m.shape() == Shape{2, 3});
  CHECK(m.dtype() == DType::f32);
  CHECK(m.at({1, 0}) == 4);
  CHECK(th::tensor({{1}, {2}}).shape() == Shape{2, 1});
  CHECK(th::tensor(7).shape() == Shape{});
  CHECK(th::tensor(7).item() == 7);
  CHECK(th::tensor({1, 0, 1}, DType::boolean).to_vector<bool>() ==
        std::vector<bool>{true, false, true});
  CHECK(th::tensor({3, 4}, DType::i64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{3, 4});
  CHECK_THROWS_WITH(th::tensor({{1, 2}, {3}}), ContainsSubstring("ragged"));
  CHECK_THROWS_WITH(th::tensor({2.7}, DType::i64), ContainsSubstring("whole number"));
  CHECK_THROWS_WITH(th::tensor({2}, DType::boolean), ContainsSubstring("0 or 1"));

  const std::vector<double> values{1, 2, 3, 4};
  CHECK(th::tensor(std::span<const double>(values), {2, 2}).at({1, 1}) == 4);
  CHECK_THROWS_WITH(th::tensor(std::span<const double>(values), {3}),
                    ContainsSubstring("4 values for shape [3]"));

  CHECK(th::arange(4).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(th::arange(1, 2, 0.25, DType::f64).to_vector<double>() ==
        std::vector<double>{1, 1.25, 1.5, 1.75});
  CHECK(th::arange(2, 0, -1).to_vector<float>() == std::vector<float>{2, 1});
  CHECK(th::arange(0).shape() == Shape{0});
  CHECK_THROWS_AS(th::arange(0, 1, 0), th::ValueError);
  CHECK(th::full({2}, 3, DType::i64).at({1}) == 3);
}

TEST_CASE("a random tensor is the stream's next draws") {
  th::Rng a(3);
  th::Rng b(3);
  const Tensor x = th::randn({2, 3}, a, DType::f64);
  CHECK(a.counter() == 6);
  for (std::int64_t i = 0; i < 6; ++i) CHECK(x.at_flat(i) == b.normal());
  const Tensor u = th::uniform({4}, a, -1, 3, DType::f64);
  for (std::int64_t i = 0; i < 4; ++i) CHECK(u.at_flat(i) == -1 + 4 * b.uniform());
  CHECK_THROWS_AS(th::uniform({2}, a, 1, 0), th::ValueError);
  CHECK_THROWS_AS(th::uniform({2}, a, 0, std::nan("")), th::ValueError);
  CHECK(a.counter() == 10);
  CHECK_THROWS_AS(th::randn({2}, a, DType::i64), th::DTypeError);
}

TEST_CASE("reading checks dtype, size and index") {
  const Tensor x = th::tensor({1, 2, 3});
  CHECK_THROWS_WITH(x.data<double>(), ContainsSubstring("must be f64, but is f32"));
  CHECK_THROWS_WITH(x.item(), ContainsSubstring("[3]"));
  CHECK_THROWS_AS(x.at({3}), th::IndexError);
  CHECK_THROWS_AS(x.at({-1}), th::IndexError);
  CHECK_THROWS_AS(x.at({0, 0}), th::IndexError);
  CHECK_THROWS_WITH(Tensor().item(), ContainsSubstring("empty Tensor"));
  CHECK(th::full({1, 1, 1}, 5).item() == 5);
  CHECK(th::zeros({0}).to_vector<float>().empty());
}

TEST_CASE("printing is readable and shortens long axes") {
  CHECK(to_string(th::tensor({{1, 2.5}, {-3, 4}})) == "[[  1, 2.5],\n [ -3,   4]] (f32[2, 2])");
  CHECK(to_string(th::tensor(0.5)) == "0.5 (f32[])");
  CHECK(to_string(th::zeros({0, 3})) == "f32[0, 3] (empty)");
  CHECK(to_string(th::arange(100)) == "[ 0,  1,  2, ..., 97, 98, 99] (i64[100])");
  CHECK(to_string(th::tensor({1, 0}, DType::boolean)) == "[ true, false] (boolean[2])");
  CHECK(to_string(Tensor()) == "no tensor");
}

TEST_CASE("comparison names the worst element") {
  const Tensor a = th::tensor({{1, 2}, {3, 4}}, DType::f64);
  const Tensor b = th::tensor({{1, 2.5}, {3, 5}}, DType::f64);
  CHECK(th::compare(a, a));
  const th::Comparison c = th::compare(a, b, {.absolute = 0.1});
  CHECK_FALSE(c);
  CHECK(c.mismatches == 2);
  CHECK(c.worst == 1);
  CHECK(c.message == "2 of 4 elements of f64[2, 2] differ; worst at [1, 1]: 4 against 5, off by 1");
  CHECK(th::compare(a, b, {.relative = 0.2}));
  CHECK_FALSE(th::compare(a, th::tensor({1, 2, 3, 4}, DType::f64)));
  CHECK_FALSE(th::compare(a, th::tensor({{1, 2}, {3, 4}})));

  const double nan = std::nan("");
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(th::compare(th::tensor({nan, inf}), th::tensor({nan, inf})));
  CHECK_FALSE(th::compare(th::tensor({nan}), th::tensor({1}), {.absolute = 1e9}));
  CHECK_FALSE(th::compare(th::tensor({inf}), th::tensor({-inf}), {.relative = 1}));
  CHECK_FALSE(th::compare(th::tensor({inf}), th::tensor({1}), {.relative = 1}));

  CHECK(th::same_bits(a, a));
  CHECK_FALSE(th::same_bits(th::tensor({0.0}), th::tensor({-0.0})));
}

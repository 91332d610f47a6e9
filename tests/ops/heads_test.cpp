#include "ops/attention_support.hpp"

using namespace attention_test;

TEST_CASE("Heads are neighbouring parts of the width") {
  // [1 sample, 2 positions, width 6] as 3 heads of width 2.
  const Tensor x = tensor({{{0, 1, 2, 3, 4, 5}, {10, 11, 12, 13, 14, 15}}});
  const Tensor y = split_heads(x, 3);
  CHECK(y.shape() == Shape{1, 3, 2, 2});
  CHECK(numbers(y) == std::vector<double>{0, 1, 10, 11, 2, 3, 12, 13, 4, 5, 14, 15});
  CHECK(same_bits(merge_heads(y), x));
}

TEST_CASE("Splitting and merging undo one another, and each is the other's gradient") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Rng rng(1, Stream::check);
    const Tensor x = randn({3, 67, 10}, rng, dtype);
    const Tensor dy = randn({3, 5, 67, 2}, rng, dtype);
    Tape tape;
    const Tensor watched = tape.watch(x);
    const Tensor y = split_heads(watched, 5);
    for (const auto& [b, h, t, i] : {std::array<std::int64_t, 4>{2, 4, 66, 1}, {0, 3, 5, 0}})
      CHECK(y.at({b, h, t, i}) == x.at({b, t, h * 2 + i}));
    const Gradients g = tape.backward(y, dy);
    CHECK(same_bits(g[watched], merge_heads(dy)));
    CHECK(same_bits(split_heads(merge_heads(dy), 5), dy));
    Tape again;
    const Tensor apart = again.watch(dy);
    const Gradients back = again.backward(merge_heads(apart), x);
    CHECK(same_bits(back[apart], split_heads(x, 5)));
  }
}

TEST_CASE("Empty heads") {
  CHECK(split_heads(zeros({0, 3, 4}), 2).shape() == Shape{0, 2, 3, 2});
  CHECK(split_heads(zeros({2, 0, 4}), 2).shape() == Shape{2, 2, 0, 2});
  CHECK(split_heads(zeros({2, 3, 0}), 2).shape() == Shape{2, 2, 3, 0});
  Tape tape;
  const Tensor none = tape.watch(zeros({2, 0, 3, 4}));
  const Tensor y = merge_heads(none);
  CHECK(y.shape() == Shape{2, 3, 0});
  const Gradients g = tape.backward(y, zeros({2, 3, 0}));
  CHECK(g[none].shape() == Shape{2, 0, 3, 4});
}

TEST_CASE("A width that does not divide by the heads is refused, with the remainder") {
  CHECK_THROWS_WITH(split_heads(zeros({1, 2, 128}), 3), ContainsSubstring("128 mod 3 = 2"));
  CHECK_THROWS_AS(split_heads(zeros({1, 2, 128}), 3), ShapeError);
  CHECK_THROWS_AS(split_heads(zeros({1, 2, 8}), 0), ValueError);
  CHECK_THROWS_AS(split_heads(zeros({1, 2, 8}), -2), ValueError);
  CHECK_THROWS_WITH(split_heads(zeros({2, 8}), 2), ContainsSubstring("[batch, time, width]"));
  CHECK_THROWS_WITH(merge_heads(zeros({2, 8, 2})),
                    ContainsSubstring("[batch, heads, time, width]"));
  CHECK_THROWS_AS(split_heads(arange(4), 2), DTypeError);
}

// Bytes that the tape keeps for backward, against counts by hand: elements times bytes of every
// tensor that the formula of the gradient needs.
#include <memory>

#include <tapehead/nn.hpp>
#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"

using namespace tapehead;

TEST_CASE("an op keeps what its gradient formula needs, each buffer once") {
  Tape tape;
  const Tensor a = tape.watch(ones({3, 5}));  // 60 bytes in f32
  const Tensor b = tape.watch(full({5}, 2));  // 20 bytes
  const Tensor c = b + 1;                     // a slope of 1 needs nothing
  const Tensor square = a * a;                // a, though both sides hold it
  const Tensor wide = broadcast_to(c, {3, 5});
  const Tensor product = square * wide;  // both factors
  const Tensor soft = softmax(product);  // its own output
  const Tensor wave = tanh(soft);        // its own output
  const Tensor total = sum(wave);        // shapes alone
  CHECK(tape.kept_bytes(a.node()) == 0);
  CHECK(tape.kept_bytes(c.node()) == 0);
  CHECK(tape.kept_bytes(square.node()) == 60);
  CHECK(tape.kept_bytes(wide.node()) == 0);
  CHECK(tape.kept_bytes(product.node()) == 120);
  CHECK(tape.kept_bytes(soft.node()) == 60);
  CHECK(tape.kept_bytes(wave.node()) == 60);
  CHECK(tape.kept_bytes(total.node()) == 0);
  CHECK(tape.kept_bytes() == 60 + 120 + 60 + 60);
  CHECK_THROWS_AS(tape.kept_bytes(tape.size()), IndexError);
}

TEST_CASE("a buffer that several nodes keep counts once in all") {
  Tape tape;
  const Tensor x = tape.watch(ones({4, 8}, DType::f64));  // 256 bytes
  const Tensor y = x * x;
  const Tensor z = log(x);
  const Tensor part = slice(y, 0, 0, 1);  // shares y's buffer
  const Tensor w = part * part;
  CHECK(tape.kept_bytes(y.node()) == 256);
  CHECK(tape.kept_bytes(z.node()) == 256);
  CHECK(tape.kept_bytes(w.node()) == 256);  // all of y stays for the sake of its first row
  CHECK(tape.kept_bytes() == 512);
}

TEST_CASE("a linear layer keeps its input, and parameters are not counted") {
  Params params;
  const Linear layer(params / "layer", 7, 3);
  Tape tape;
  const Tensor x =
      tape.watch(ones({2, 5, 7}));  // so that its gradient, which needs the weight, is wanted
  const Tensor y = layer(x);
  CHECK(tape.kept_bytes(y.node()) == 2 * 5 * 7 * 4);
  CHECK(tape.kept_bytes() == 2 * 5 * 7 * 4);
}

TEST_CASE("boolean conditions and ids count with their own sizes") {
  Tape tape;
  const Tensor x = tape.watch(ones({6, 4}));
  const Tensor ids = tensor({1, 2, 3}, DType::i64);
  const Tensor rows = embedding(x, ids);                 // 3 ids of 8 bytes
  const Tensor kept = masked_fill(x, greater(x, 0), 0);  // 24 booleans of a byte
  CHECK(tape.kept_bytes(rows.node()) == 24);
  CHECK(tape.kept_bytes(kept.node()) == 24);
}

TEST_CASE("nothing is kept once backward has been") {
  Tape tape;
  const Tensor x = tape.watch(ones({6, 4}));
  const Tensor y = sum(softmax(x * x));
  CHECK(tape.kept_bytes() == 2 * 96);
  (void)tape.backward(y);
  CHECK(tape.kept_bytes() == 0);
  CHECK_THAT(to_string(tape), ContainsSubstring("spent: backward has consumed what was kept\n"));
}

TEST_CASE("a gradient function that cannot be copied still records") {
  Tape tape;
  const Tensor x = tape.watch(ones({2}));
  auto factor = std::make_unique<double>(3);
  const Tensor y =
      record("own", detach(x)).input(x, [factor = std::move(factor)](const Tensor& dy) {
        return dy * *factor;
      });
  CHECK(tape.kept_bytes(y.node()) == 0);
  CHECK(tape.backward(sum(y))[x].to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("the picture names parameters") {
  Params params;
  const Linear layer(params / "ffn" / "up", 2, 2);
  Tape tape;
  const Tensor y = layer(ones({1, 2}));
  const std::vector<int> inputs = tape.node(y.node()).inputs;  // x is a constant: weight and bias
  REQUIRE(inputs.size() == 2);
  CHECK(tape.node(inputs[0]).name == "ffn.up.weight");
  CHECK(tape.node(inputs[1]).name == "ffn.up.bias");
  CHECK(tape.node(y.node()).name.empty());
  CHECK_THAT(to_string(tape), ContainsSubstring("0  ffn.up.weight  (kept_test.cpp:"));
}

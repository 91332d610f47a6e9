// The tape names the line of the caller: of ops, operators, compositions, modules, own ops.
#include <string>
#include <string_view>

#include <tapehead/nn.hpp>
#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"

using namespace tapehead;

namespace {

bool is_this_file(const NodeInfo& node) {
  return std::string_view(node.file).ends_with("autograd/call_site_test.cpp");
}

Tensor own_op(const Tensor& x, CallSite at = {}) {
  const OpCall call(at);
  return record("own_op", detach(x)).input(x, [](const Tensor& dy) { return dy; });
}

constexpr int kPlainOpLine = __LINE__ + 2;
Tensor plain_op(const Tensor& x) {
  return record("plain_op", detach(x)).input(x, [](const Tensor& dy) { return dy; });
}

struct OwnModule {
  explicit OwnModule(const Scope& scope)
      : up(scope / "up", 3, 4), down(scope / "down", 4, 3), path(scope.path()) {}
  Tensor operator()(const Tensor& x) const {
    const InModule here(path);
    return down(relu(up(x)));
  }
  static constexpr int kLine = __LINE__ - 2;
  Linear up;
  Linear down;
  const char* path;
};

}  // namespace

TEST_CASE("a node knows the line of its op's call") {
  Tape tape;
  const int watched = __LINE__ + 1;
  const Tensor x = tape.watch(ones({2, 2}));
  const int line = __LINE__ + 1;
  const Tensor y = softmax(x, 0);
  CHECK(tape.node(x.node()).line == watched);
  CHECK(tape.node(y.node()).line == line);
  CHECK(is_this_file(tape.node(x.node())));
  CHECK(is_this_file(tape.node(y.node())));
}

TEST_CASE("operators know their line too, with numbers and parameters on either side") {
  Params params;
  const Param p = Scope(params).param("p", {2}, init::constant(2));
  Tape tape;
  const Tensor x = tape.watch(ones({2}));
  const auto line_of = [&](const Tensor& y) {
    const NodeInfo node = tape.node(y.node());
    CHECK(is_this_file(node));
    return node.line;
  };
  CHECK(line_of(x + x) == __LINE__);
  CHECK(line_of(x - p) == __LINE__);
  CHECK(line_of(p * x) == __LINE__);
  CHECK(line_of(p / p) == __LINE__);
  CHECK(line_of(-x) == __LINE__);
  CHECK(line_of(-p) == __LINE__);
  CHECK(line_of(x + 1) == __LINE__);
  CHECK(line_of(1.0 + x) == __LINE__);
  CHECK(line_of(p - 2.5) == __LINE__);
  CHECK(line_of(1 - x) == __LINE__);
  CHECK(line_of(x * 2) == __LINE__);
  CHECK(line_of(2 * p) == __LINE__);
  CHECK(line_of(x / 2) == __LINE__);
  CHECK(line_of(2.0 / x) == __LINE__);
}

TEST_CASE("what a composition or a module of the library records is at the caller's line") {
  Params params;
  const MultiHeadAttention attention(params / "attention", {.width = 4, .heads = 2});
  Tape tape({.differentiable = true});  // fused ops are recorded as their compositions
  const Tensor x = tape.watch(ones({1, 3, 4}));
  const int before = tape.size();
  const int line = __LINE__ + 1;
  const Tensor y = mean(attention(x, Mask::causal(3)));
  CHECK(tape.size() - before > 15);
  for (int i = before; i < tape.size(); ++i) {
    const NodeInfo node = tape.node(i);
    INFO(i << " " << node.op << " " << node.file << ":" << node.line);
    if (node.op == "parameter" && node.line == 0) continue;
    CHECK(node.line == line);
    CHECK(is_this_file(node));
  }
  const int forward = tape.size();
  const Gradients gradients = tape.backward(y);
  CHECK(tape.size() > forward);
  for (int i = forward; i < tape.size(); ++i) {
    const NodeInfo node = tape.node(i);
    INFO(i << " " << node.op << " " << node.file << ":" << node.line);
    if (node.op == "accumulate") continue;  // the engine's own
    CHECK(node.line == line);
  }
}

TEST_CASE("in a module of one's own the lines are its own") {
  Params params;
  const OwnModule module(params / "own");
  Tape tape;
  const Tensor y = module(ones({2, 3}));
  CHECK(tape.node(y.node()).op == "linear");
  CHECK(tape.node(y.node()).module == "own.down");
  CHECK(tape.node(y.node()).line == OwnModule::kLine);
}

TEST_CASE("an op of one's own has its caller's line with an OpCall, else the line of record") {
  Tape tape;
  const Tensor x = tape.watch(ones({2}));
  const int line = __LINE__ + 1;
  const Tensor y = own_op(x);
  CHECK(tape.node(y.node()).line == line);
  const Tensor z = plain_op(x);
  CHECK(tape.node(z.node()).line == kPlainOpLine);
}

TEST_CASE("the place is forgotten when an op throws") {
  Tape tape;
  const Tensor x = tape.watch(ones({2}));
  CHECK_THROWS_AS(matmul(x, x), Error);
  const int line = __LINE__ + 1;
  const Tensor y = exp(x);
  CHECK(tape.node(y.node()).line == line);
}

TEST_CASE("the picture of a tape shows the place") {
  Params params;
  const Linear layer(params / "layer", 2, 2);
  Tape tape;
  const int line = __LINE__ + 1;
  const Tensor y = layer(ones({1, 2}));
  CHECK(y.node() >= 0);
  CHECK_THAT(to_string(tape),
             ContainsSubstring("layer  (call_site_test.cpp:" + std::to_string(line) + ")"));
}

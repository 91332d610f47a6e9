// The tape's hooks: what passes along it can be seen and replaced. And what record() makes of
// outputs that other ops computed.
#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"

using namespace tapehead;

TEST_CASE("an own gradient takes the place of those of the ops behind the output", "[tape]") {
  Tape tape;
  const Tensor x = tape.watch(tensor({3, 4}));
  // d (x * x) would be 2 x; the op says 10.
  const Tensor y = record("own", x * x).input(x, [](const Tensor& dy) { return dy * 10.0; });
  CHECK(y.to_vector<float>() == std::vector<float>{9, 16});
  const Gradients g = tape.backward(sum(y));
  CHECK(g[x].to_vector<float>() == std::vector<float>{10, 10});
}

TEST_CASE("an output hook replaces what later ops and gradient functions see", "[tape]") {
  std::vector<std::string> seen;
  TapeOptions options;
  options.output_hook = [&](const OutputCall& call) {
    seen.emplace_back(call.op);
    CHECK(call.output.tape_id() == 0);
    return call.op == "exp" ? full(call.output.shape(), 5.0) : call.output;
  };
  Tape tape(options);
  const Tensor x = tape.watch(tensor({0, 1}));
  const Tensor y = exp(x) * 3.0;
  CHECK(y.to_vector<float>() == std::vector<float>{15, 15});
  // dx = dy e^x, where e^x is what the hook made of it.
  CHECK(tape.backward(sum(y))[x].to_vector<float>() == std::vector<float>{15, 15});
  CHECK(seen == std::vector<std::string>{"exp", "scale", "sum"});
}

TEST_CASE("an arrival hook sees the sum at a node and may replace it", "[tape]") {
  std::vector<int> nodes;
  TapeOptions options;
  options.arrival_hook = [&](const GradientCall& call) {
    nodes.push_back(call.node);
    CHECK(call.input == -1);
    if (call.op == "watched") CHECK(call.input_gradient.item() == 7);  // 3 and 4
    return call.op == "watched" ? full({1}, 100.0) : call.input_gradient;
  };
  Tape tape(options);
  const Tensor x = tape.watch(tensor({2}));
  const Gradients g = tape.backward(x * 3.0 + x * 4.0);
  CHECK(g[x].item() == 100);
  CHECK(nodes == std::vector<int>{3, 2, 1, 0});
}

TEST_CASE("a hook that changes the kind of a tensor is refused", "[tape]") {
  TapeOptions outputs;
  outputs.output_hook = [](const OutputCall&) { return tensor({1, 2, 3}); };
  {
    Tape tape(outputs);
    const Tensor x = tape.watch(tensor({2, 1}));
    CHECK_THROWS_WITH(exp(x), ContainsSubstring("exp: the output hook must return a f32[2]"));
  }
  TapeOptions arrivals;
  arrivals.arrival_hook = [](const GradientCall&) { return Tensor(); };
  Tape tape(arrivals);
  const Tensor x = tape.watch(tensor({2, 1}));
  CHECK_THROWS_WITH(tape.backward(sum(exp(x))), ContainsSubstring("sum"));
}

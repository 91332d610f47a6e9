#include <tapehead/tape.hpp>

#include <cmath>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include <tapehead/ops.hpp>
#include <tapehead/params.hpp>
#include <tapehead/system.hpp>

#include "support/catch.hpp"
#include "support/small_stack.hpp"

namespace th = tapehead;
using th::DType;
using th::Shape;
using th::Tensor;

namespace {
Tensor f64(const th::NestedList& values) { return th::tensor(values, DType::f64); }
}  // namespace

TEST_CASE("the expression of micrograd's README") {
  th::Tape tape;
  const Tensor a = tape.watch(f64(-4));
  const Tensor b = tape.watch(f64(2));
  Tensor c = a + b;
  Tensor d = a * b + th::pow(b, 3);
  c = c + (c + 1);
  c = c + (1 + c + (-a));
  d = d + (d * 2 + th::relu(b + a));
  d = d + (3 * d + th::relu(b - a));
  const Tensor e = c - d;
  const Tensor f = th::pow(e, 2);
  Tensor g = f / 2.0;
  g = g + 10.0 / f;
  const double value = g.item();
  const th::Gradients gradients = tape.backward(g);
  CHECK(value == Approx(24.7041).margin(5e-5));
  CHECK(gradients[a].item() == Approx(138.8338).margin(5e-5));
  CHECK(gradients[b].item() == Approx(645.5773).margin(5e-5));
}

TEST_CASE("an intermediate used twice gets the whole gradient") {
  // c = a + b, d = a b, y = (c + d) + c d at a = 2, b = 3, by hand:
  // dc = 1 + d = 7, dd = 1 + c = 6, da = dc + b dd = 25, db = dc + a dd = 19.
  th::Tape tape;
  const Tensor a = tape.watch(f64(2));
  const Tensor b = tape.watch(f64(3));
  const Tensor c = tape.watch(a + b);
  const Tensor d = tape.watch(a * b);
  const th::Gradients g = tape.backward((c + d) + c * d);
  CHECK(g[a].item() == 25);
  CHECK(g[b].item() == 19);
  CHECK(g[c].item() == 7);
  CHECK(g[d].item() == 6);

  // x (x 1) + (x x) 1 + x (x 1) = 3 x^2: slope 6 at 1.
  th::Tape second;
  const Tensor x = second.watch(f64(1));
  const Tensor y = x * (x * 1.0) + (x * x) * 1.0 + x * (x * 1.0);
  CHECK(second.backward(y)[x].item() == 6);
}

TEST_CASE("a million additions run forward, backward and away on a small stack") {
  on_small_stack([] {
    th::Tape tape;
    const Tensor x = tape.watch(f64(1));
    Tensor y = x;
    for (int i = 0; i < 1000000; ++i) y = y + 1.0;
    CHECK(tape.size() == 1000001);
    CHECK(y.item() == 1000001);
    CHECK(tape.backward(y)[x].item() == 1);
  });
}

TEST_CASE("a diamond of 2^40 paths takes 41 nodes and no more steps") {
  on_small_stack([] {
    th::Tape tape;
    const Tensor x = tape.watch(f64(1));
    Tensor y = x;
    for (int i = 0; i < 40; ++i) y = y + y;
    CHECK(tape.size() == 41);
    CHECK(y.item() == 0x1p40);
    CHECK(tape.backward(y)[x].item() == 0x1p40);
  });
}

TEST_CASE(
    "nothing is recorded without a tape, and only what depends on a watched tensor with one") {
  const Tensor x = f64({1, 2});
  CHECK((x * x).tape_id() == 0);
  th::Tape tape;
  CHECK((x * x).tape_id() == 0);
  CHECK(tape.size() == 0);
  const Tensor w = tape.watch(x);
  CHECK(tape.size() == 1);
  const Tensor y = w * x;
  CHECK(y.tape_id() == tape.id());
  CHECK(tape.size() == 2);
  (void)(x + x);
  CHECK(tape.size() == 2);
}

TEST_CASE("a spent tape says so, and records nothing more") {
  th::Tape tape;
  const Tensor x = tape.watch(f64(3));
  const Tensor y = x * x;
  const th::Gradients g = tape.backward(y);
  CHECK(g[x].item() == 6);
  CHECK(tape.spent());
  CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("spent"));
  const int size = tape.size();
  CHECK((y * y).tape_id() == 0);  // not an error: evaluation after backward just works
  CHECK(tape.size() == size);
  CHECK_THROWS_WITH(tape.watch(f64(1)), ContainsSubstring("spent"));
}

TEST_CASE("a tensor of another tape is refused with advice, in any build") {
  Tensor old;
  {
    th::Tape tape;
    old = tape.watch(f64(2)) * 3.0;
  }
  CHECK(old.item() == 6);  // its numbers stay readable
  CHECK((old * 2.0).item() == 12);
  th::Tape tape;
  const Tensor x = tape.watch(f64(1));
  CHECK_THROWS_WITH(x * old, ContainsSubstring("mul") && ContainsSubstring("detach()"));
  CHECK_THROWS_AS(old + old, th::TapeError);
  CHECK_THROWS_AS(tape.watch(old), th::TapeError);
  CHECK_THROWS_WITH(tape.backward(old), ContainsSubstring("another tape"));
  CHECK((x * th::detach(old)).item() == 6);
}

TEST_CASE("totals over steps: numbers add up, tensors of old steps are refused") {
  double total = 0;
  Tensor kept;
  for (int step = 0; step < 3; ++step) {
    th::Tape tape;
    const Tensor x = tape.watch(f64(step));
    const Tensor loss = x * x;
    if (kept.defined()) CHECK_THROWS_AS(loss + kept, th::TapeError);
    kept = loss;
    total += loss.item();
    (void)tape.backward(loss);
  }
  CHECK(total == 5);
}

TEST_CASE("memory is flat over steps, also when backward never runs") {
  const auto step = [](bool backward) {
    th::Tape tape;
    const Tensor x = tape.watch(th::ones({100, 100}));
    const Tensor loss = th::sum(x * x + x);
    if (backward) (void)tape.backward(loss);
  };
  const std::int64_t before = th::memory_info().live_bytes;
  step(true);
  const std::int64_t warm = th::memory_info().system_allocations;
  for (int i = 0; i < 20; ++i) step(i % 2 == 0);
  CHECK(th::memory_info().live_bytes == before);
#if !defined(__SANITIZE_ADDRESS__)
  CHECK(th::memory_info().system_allocations == warm);
#endif
}

TEST_CASE("backward releases what it consumed as it goes") {
  th::Tape tape;
  const Tensor x = tape.watch(th::ones({1000, 100}, DType::f64));
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = y * x;  // each keeps both operands
  const Tensor loss = th::sum(y);
  y = Tensor();
  const std::int64_t held = th::memory_info().live_bytes;
  {
    const th::Gradients g = tape.backward(loss);
    CHECK(g[x].at({0, 0}) == 11);
    // Left: x, the loss and x's gradient.
    CHECK(th::memory_info().live_bytes < held / 4);
  }
}

TEST_CASE("nested tapes are independent") {
  th::Tape outer;
  const Tensor x = outer.watch(f64(2));
  const Tensor y = x * x;
  double inner_slope = 0;
  {
    th::Tape inner;
    const Tensor z = inner.watch(f64(5));
    CHECK_THROWS_AS(z * x, th::TapeError);  // x stands on the outer tape
    inner_slope = inner.backward(z * z * th::detach(x))[z].item();
  }
  CHECK(inner_slope == 20);
  CHECK(outer.backward(y * x)[x].item() == 12);
}

TEST_CASE("tapes may end in another order than they began") {
  auto first = std::optional<th::Tape>();
  first.emplace();
  auto second = std::optional<th::Tape>();
  second.emplace();
  first.reset();
  const Tensor x = second->watch(f64(3));
  CHECK(second->backward(x * x)[x].item() == 6);
  second.reset();
  CHECK((x * x).tape_id() == 0);
}

TEST_CASE("an exception in a gradient function leaves nothing behind") {
  struct Planned {};
  const std::int64_t before = th::memory_info().live_bytes;
  {
    th::Tape tape;
    const Tensor x = tape.watch(th::ones({1000}));
    const Tensor bad = th::record("bad", th::ones({1000})).input(x, [](const Tensor&) -> Tensor {
      throw Planned();
    });
    const Tensor loss = th::sum(bad * x);
    CHECK_THROWS_AS(tape.backward(loss), Planned);
    CHECK(tape.spent());
  }
  CHECK(th::memory_info().live_bytes == before);
  th::Tape tape;  // and recording works as ever
  const Tensor x = tape.watch(f64(2));
  CHECK(tape.backward(x * x)[x].item() == 4);
}

TEST_CASE("each thread has its own recording; backward stays with its thread") {
  th::Tape tape;
  const Tensor x = tape.watch(f64(2));
  const Tensor y = x * x;
  bool refused = false;
  double other = 0;
  std::thread worker([&] {
    (void)(x * x);  // no tape here: not recorded
    try {
      (void)tape.backward(y);
    } catch (const th::TapeError&) {
      refused = true;
    }
    th::Tape mine;
    const Tensor z = mine.watch(f64(7));
    other = mine.backward(z * z)[z].item();
  });
  worker.join();
  CHECK(refused);
  CHECK(other == 14);
  CHECK(tape.size() == 2);
  CHECK(tape.backward(y)[x].item() == 4);
}

TEST_CASE("the engine answers for shape, dtype and count of what gradient functions return") {
  const auto backward_of = [](auto gradient) {
    th::Tape tape;
    const Tensor x = tape.watch(th::ones({2, 3}));
    const Tensor y = th::record("custom", th::ones({2, 3})).input(x, gradient);
    (void)tape.backward(th::sum(y));
  };
  CHECK_THROWS_WITH(backward_of([](const Tensor&) {
                      return th::ones({3, 2});
                    }),
                    ContainsSubstring("custom") && ContainsSubstring("f32[3, 2]") &&
                        ContainsSubstring("f32[2, 3]"));
  CHECK_THROWS_WITH(backward_of([](const Tensor&) {
                      return th::ones({2, 3}, DType::f64);
                    }),
                    ContainsSubstring("f64"));
  CHECK_THROWS_WITH(backward_of([](const Tensor&) { return Tensor(); }),
                    ContainsSubstring("nothing"));

  th::Tape tape;
  const Tensor x = tape.watch(th::ones({2}));
  const Tensor y = th::record("pair", th::ones({2})).inputs({x, x}, [](const Tensor& dy) {
    return std::vector<Tensor>{dy};
  });
  CHECK_THROWS_WITH(tape.backward(th::sum(y)), ContainsSubstring("1 gradients for 2 inputs"));
}

TEST_CASE("a joint gradient function serves several inputs, constants among them") {
  th::Tape tape;
  const Tensor a = tape.watch(f64(3));
  const Tensor b = f64(4);
  const Tensor c = tape.watch(f64(5));
  const Tensor y =
      th::record("product3", f64(60)).inputs({a, b, c}, [=](const Tensor& out, const Tensor& dy) {
        return std::array<Tensor, 3>{dy * (out / a), dy * (out / b), dy * (out / c)};
      });
  const th::Gradients g = tape.backward(y);
  CHECK(g[a].item() == 20);
  CHECK(g[c].item() == 12);
}

TEST_CASE("gradients are looked up by what was watched") {
  th::Tape tape;
  const Tensor x = tape.watch(f64({1, 2}));
  const Tensor unused = tape.watch(f64({{1, 2, 3}}));
  const Tensor y = x * x;
  const th::Gradients g = tape.backward(th::sum(y));
  CHECK(g[x].to_vector<double>() == std::vector<double>{2, 4});
  CHECK(g.reached(x));
  CHECK_FALSE(g.reached(unused));
  CHECK(g[unused].shape() == Shape{1, 3});
  CHECK(g[unused].at({0, 1}) == 0);
  CHECK_THROWS_WITH(g[y], ContainsSubstring("watch"));
  CHECK_THROWS_AS(tape.watch(th::tensor({1}, DType::i64)), th::DTypeError);
}

TEST_CASE("gradients of several backward passes add up") {
  const auto gradient = [](const Tensor& value, Tensor& handle) {
    th::Tape tape;
    handle = tape.watch(value);
    return tape.backward(th::sum(handle * handle));
  };
  Tensor x;
  Tensor y;
  th::Gradients g = gradient(f64({1, 2}), x);
  const th::Gradients copy = g;
  g += gradient(f64({10}), y);
  g *= 0.5;
  CHECK(g[x].to_vector<double>() == std::vector<double>{1, 2});
  CHECK(g[y].to_vector<double>() == std::vector<double>{10});
  CHECK(copy[x].to_vector<double>() == std::vector<double>{2, 4});
}

TEST_CASE("the loss must be one recorded number, else a cotangent is wanted") {
  th::Tape tape;
  const Tensor x = tape.watch(f64({1, 2}));
  const Tensor y = x * x;
  CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("[2]") && ContainsSubstring("cotangent"));
  CHECK_THROWS_WITH(tape.backward(f64(1)), ContainsSubstring("constant"));
  CHECK_THROWS_AS(tape.backward(Tensor()), th::ValueError);
  CHECK_THROWS_AS(tape.backward(y, f64({1, 2, 3})), th::ShapeError);
  CHECK_THROWS_AS(tape.backward(y, th::ones({2})), th::DTypeError);
  CHECK_FALSE(tape.spent());  // all refused before anything changed
  CHECK(tape.backward(y, f64({10, 100}))[x].to_vector<double>() == std::vector<double>{20, 400});
}

TEST_CASE("a differentiable tape gives second and third derivatives, any number of times") {
  // y = x^3 at 2: 12, 12, 6.
  th::Tape tape({.differentiable = true});
  const Tensor x = tape.watch(f64(2));
  const Tensor y = x * x * x;
  const Tensor first = tape.backward(y)[x];
  CHECK(first.item() == 12);
  const Tensor second = tape.backward(first)[x];
  CHECK(second.item() == 12);
  CHECK(tape.backward(second)[x].item() == 6);
  CHECK(tape.backward(y)[x].item() == 12);
}

TEST_CASE("a stretched operand's gradient is summed back to its shape") {
  // x = [[1],[2]] + b = [[10,20,30]] under cotangent [[1,2,3],[4,5,6]].
  th::Tape tape;
  const Tensor x = tape.watch(f64({{1}, {2}}));
  const Tensor b = tape.watch(f64({{10, 20, 30}}));
  const th::Gradients g = tape.backward(x + b, f64({{1, 2, 3}, {4, 5, 6}}));
  CHECK(th::same_bits(g[x], f64({{6}, {15}})));
  CHECK(th::same_bits(g[b], f64({{5, 7, 9}})));
}

TEST_CASE("the hook replaces what a gradient function returned") {
  th::TapeOptions options;
  std::vector<std::string> calls;
  options.gradient_hook = [&](const th::GradientCall& call) {
    calls.push_back(std::string(call.op) + ":" + std::to_string(call.input));
    return call.op == "mul" && call.input == 1 ? call.input_gradient * 0.0 : call.input_gradient;
  };
  th::Tape tape(options);
  const Tensor x = tape.watch(f64(3));
  const th::Gradients g = tape.backward(x * x + x);
  CHECK(g[x].item() == 4);  // 7 without the hook
  CHECK(calls == std::vector<std::string>{"add:0", "add:1", "mul:0", "mul:1"});
}

TEST_CASE("a tape prints its nodes, and errors name the module") {
  th::Tape tape;
  const int line = __LINE__ + 1;
  const Tensor x = tape.watch(f64({1, 2}));
  {
    const th::InModule here("encoder.ffn");
    (void)th::sum(x * x);
    CHECK_THROWS_WITH(x * f64({1, 2, 3}),
                      ContainsSubstring("2 is not 3") && ContainsSubstring("\n  in encoder.ffn"));
  }
  const auto row = [](int node, const char* op, const char* output, const char* inputs, int bytes,
                      const char* module, int at) {
    return fmt::format("{:>5}  {:<18} {:<22} {:<14} {:>12}  {}(tape_test.cpp:{})\n", node, op,
                       output, inputs, bytes, module, at);
  };
  // x * x keeps x, twice: one buffer of 2 * 8 bytes.
  CHECK(to_string(tape) ==
        " node  op                 output                 inputs           bytes kept  module "
        "(call)\n" +
            row(0, "watched", "f64[2]", "()", 0, "", line) +
            row(1, "mul", "f64[2]", "(0, 0)", 16, "encoder.ffn  ", line + 3) +
            row(2, "sum", "f64[]", "(1)", 0, "encoder.ffn  ", line + 3) + "16 bytes kept in all\n");
  CHECK_THROWS_AS(tape.node(3), th::IndexError);
}

TEST_CASE("under a spent inner tape the outer one records on") {
  th::Tape outer;
  const Tensor x = outer.watch(f64(3));
  Tensor y;
  {
    th::Tape inner;
    const Tensor u = inner.watch(f64(1));
    CHECK_THROWS_AS(x * x, th::TapeError);  // the inner tape records now
    (void)inner.backward(u * u);
    y = x * x;
  }
  CHECK(outer.backward(x + y)[x].item() == 7);
}

TEST_CASE(
    "backward on an outer tape does not record on an inner one that is alive, nor on itself") {
  th::Tape outer;
  const Tensor x = outer.watch(f64(3));
  const Tensor y = x * x;
  th::Tape inner;
  const Tensor u = inner.watch(f64(2));
  CHECK(outer.backward(y)[x].item() == 6);
  CHECK(inner.size() == 1);
  CHECK(outer.size() == 2);
  CHECK(inner.backward(u * u)[u].item() == 4);
}

TEST_CASE("a tape may end on another thread; its owner records on") {
  auto tape = std::optional<th::Tape>();
  tape.emplace();
  const Tensor x = tape->watch(f64(2));
  bool refused = false;
  std::thread other([&] {
    try {
      (void)tape->watch(f64(1));
    } catch (const th::TapeError&) {
      refused = true;
    }
    tape.reset();
  });
  other.join();
  CHECK(refused);
  CHECK((x * 2.0).tape_id() == 0);
  th::Tape next;
  const Tensor z = next.watch(f64(5));
  CHECK(next.backward(z * z)[z].item() == 10);
}

TEST_CASE("gradients can be added to themselves, moved from and reused") {
  th::Tape tape;
  const Tensor x = tape.watch(f64({1, 2}));
  th::Gradients g = tape.backward(th::sum(x * x));
  g += g;
  CHECK(g[x].to_vector<double>() == std::vector<double>{4, 8});
  th::Gradients taken = std::move(g);
  CHECK(taken[x].to_vector<double>() == std::vector<double>{4, 8});
  CHECK_THROWS_AS(g[x], th::TapeError);  // empty now, not broken
  CHECK_FALSE(g.reached(x));
  g += taken;
  CHECK(g[x].to_vector<double>() == std::vector<double>{4, 8});
}

TEST_CASE("a tensor larger than memory is an error that says how large") {
  CHECK_THROWS_WITH(th::zeros({std::int64_t{1} << 50}),
                    ContainsSubstring("4503599627370496 bytes"));
}

// Tapes that check for finite numbers: what is a fault, what is none, and what the error says.
#include <cmath>
#include <limits>

#include <tapehead/catalog.hpp>
#include <tapehead/nn.hpp>
#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "autograd/finite.hpp"
#include "support/catch.hpp"

using namespace tapehead;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

TapeOptions checking(bool differentiable = false) {
  TapeOptions options;
  options.differentiable = differentiable;
  options.check_finite = true;
  return options;
}

// What the function says that is wrong when x is watched on a checking tape; "" when it is content.
template <class F>
std::string fault(const Tensor& x, F f) {
  Tape tape(checking());
  try {
    (void)f(tape.watch(x));
  } catch (const NonFiniteError& error) {
    return error.what();
  }
  return "";
}

template <class F>
bool faulty(const NestedList& x, F f) {
  return !fault(tensor(x, DType::f64), f).empty();
}

}  // namespace

TEST_CASE("a range counts what is not finite and bounds the rest") {
  // 20 elements: past one row of lanes.
  std::vector<double> values(20, 1);
  values[3] = -2.5;
  values[17] = 7;
  const auto range = [&] {
    return detail::range_of(tensor(std::span<const double>(values), {20}));
  };
  CHECK(to_string(range()) == "-2.5 .. 7");
  values[18] = kNan;
  values[0] = kInf;
  values[1] = -kInf;
  values[2] = -kInf;
  CHECK(to_string(range()) == "-2.5 .. 7, NaN at 1 of 20, +inf at 1 of 20, -inf at 2 of 20");
  CHECK(to_string(detail::range_of(full({3}, 4))) == "all 4");
  CHECK(to_string(detail::range_of(full({}, 4))) == "4");
  CHECK(to_string(detail::range_of(zeros({0, 3}))) == "empty");
  CHECK(to_string(detail::range_of(full({2}, kNan))) == "NaN at 2 of 2");
}

TEST_CASE("the error names the op, its place, its inputs and the ops before it") {
  Tape tape(checking());
  const Tensor x = tape.watch(tensor({{1, 2, 3}, {4, 5, 600}}));
  const Tensor y = x * tensor(2);
  std::string said;
  const int line = __LINE__ + 3;
  try {
    const InModule here("encoder.ffn");
    (void)exp(y);
  } catch (const NonFiniteError& error) {
    said = error.what();
  }
  // e^(2 x) is above the largest float, e^88.7, for x = 600 alone.
  CHECK_THAT(said, ContainsSubstring("exp: +inf at 1 of 6, the first at [1, 2], in its output "
                                     "f32[2, 3]"));
  CHECK_THAT(said, ContainsSubstring("\n  node 2, exp in encoder.ffn (") &&
                       ContainsSubstring("finite_test.cpp:" + std::to_string(line) + ")"));
  CHECK_THAT(said, ContainsSubstring("\n  input 0: f32[2, 3], node 1, mul: 2 .. 1200"));
  CHECK_THAT(said, ContainsSubstring("\n  recorded before it:\n       0  watched (") &&
                       ContainsSubstring("f32[2, 3]: 1 .. 600\n       1  mul ("));
}

TEST_CASE("without the option nothing is checked") {
  Tape tape;
  const Tensor x = tape.watch(tensor({0, 1}));
  CHECK(std::isinf((1.0 / x).at({0})));
  CHECK(std::isinf(tape.backward(sum(sqrt(x)))[x].at({0})));
}

TEST_CASE("NaN is a fault, whatever the inputs hold") {
  CHECK(faulty({-1, 1}, [](const Tensor& x) { return log(x); }));
  CHECK(faulty({kInf, 1}, [](const Tensor& x) { return x - x; }));
  CHECK(faulty({kNan, 1}, [](const Tensor& x) { return x + 1.0; }));
  CHECK(faulty({-kInf, 1}, [](const Tensor& x) { return x * 0.0; }));
  // What is not chosen does not come out.
  CHECK_FALSE(
      faulty({kNan, 1}, [](const Tensor& x) { return masked_fill(x, not_equal(x, x), 0); }));
}

TEST_CASE("+inf is a fault unless an input had it") {
  CHECK(faulty({800, 1}, [](const Tensor& x) { return exp(x); }));
  CHECK(faulty({0, 1}, [](const Tensor& x) { return 1.0 / x; }));
  CHECK(faulty({-kInf, 800}, [](const Tensor& x) { return exp(x); }));
  CHECK_FALSE(faulty({-kInf, 8}, [](const Tensor& x) { return exp(x); }));
  CHECK_FALSE(faulty({kInf, 1}, [](const Tensor& x) { return exp(x); }));
  CHECK_FALSE(faulty({1, 1}, [](const Tensor& x) { return x + tensor({kInf, 0}, DType::f64); }));
}

TEST_CASE("an infinity may turn its sign where the op does that") {
  const NestedList low{-kInf, 1};
  CHECK_FALSE(faulty(low, [](const Tensor& x) { return -x; }));
  CHECK_FALSE(faulty(low, [](const Tensor& x) { return -2.0 * x; }));
  CHECK_FALSE(faulty(low, [](const Tensor& x) { return abs(x); }));
  CHECK_FALSE(faulty(low, [](const Tensor& x) { return 1.0 - x; }));
  CHECK_FALSE(faulty(low, [](const Tensor& x) { return x / -1.0; }));
  CHECK_FALSE(faulty(low, [](const Tensor& x) { return pow(x, 2); }));
  CHECK_FALSE(faulty(low, [](const Tensor& x) { return x * x; }));
  CHECK_FALSE(faulty(low, [](const Tensor& x) { return norm(x); }));
  CHECK(faulty({-1e308, 1}, [](const Tensor& x) { return -2.0 * x; }));
}

TEST_CASE("-inf is none where an input was infinite or the op may give it") {
  CHECK_FALSE(faulty({0, 1}, [](const Tensor& x) { return log(x); }));
  CHECK_FALSE(faulty({0, 1}, [](const Tensor& x) { return masked_fill(x, equal(x, 0), -kInf); }));
  CHECK_FALSE(faulty({0, 1}, [](const Tensor& x) { return masked_fill(x, equal(x, 0), kInf); }));
  CHECK_FALSE(faulty({0, 1}, [](const Tensor& x) { return pad(x, 0, 1, 0, -kInf); }));
  CHECK_FALSE(faulty({0, 1}, [](const Tensor& x) { return logsumexp(slice(x, 0, 0, 0)); }));
  CHECK_FALSE(faulty({-kInf, 1}, [](const Tensor& x) { return log_softmax(x); }));
  CHECK(faulty({-1, 1}, [](const Tensor& x) { return div(x, tensor({0, 1}, DType::f64)); }));
  CHECK(faulty({-1e308, 1}, [](const Tensor& x) { return x * 2.0; }));
  // A fill that is finite allows nothing.
  CHECK(faulty({-1e308, 1},
               [](const Tensor& x) { return scale(masked_fill(x, equal(x, 1), 3), 2); }));
}

TEST_CASE("an op of one's own says what it may give") {
  const auto own = [](bool declared) {
    return fault(ones({2}), [&](const Tensor& x) {
      Recorder recorder = record("own", full({2}, -kInf));
      if (declared) std::move(recorder).may_give(-kInf);
      return Tensor(std::move(recorder).input(x, [](const Tensor& dy) { return dy; }));
    });
  };
  CHECK(own(true).empty());
  CHECK_THAT(own(false), ContainsSubstring("own: -inf at 2 of 2, the first at [0]"));
}

TEST_CASE("a masked softmax in plain ops runs forward and backward") {
  Tape tape(checking());
  const Tensor x = tape.watch(tensor({{1, 2}, {3, 4}}));
  const Tensor y = softmax(masked_fill(x, greater(x, 3), -kInf));
  // Row 1 keeps one element: weight 1, whose gradient is 0.
  CHECK(tape.backward(y, tensor({{1, 0}, {1, 0}}))[x].at({1, 0}) == 0);
}

TEST_CASE("a gradient that is infinite is named with its op and ranges") {
  Tape tape(checking());
  const Tensor x = tape.watch(tensor({4, 0}));
  const int line = __LINE__ + 1;
  const Tensor root = sqrt(x);
  const Tensor y = sum(root * 3.0);
  std::string said;
  try {
    (void)tape.backward(y);
  } catch (const NonFiniteError& error) {
    said = error.what();
  }
  CHECK_THAT(said,
             ContainsSubstring("sqrt: +inf at 1 of 2, the first at [1], in the gradient of its "
                               "input 0, f32[2]"));
  CHECK_THAT(said, ContainsSubstring("finite_test.cpp:" + std::to_string(line) + ")"));
  CHECK_THAT(said, ContainsSubstring("\n  input 0: f32[2], node 0, watched: 0 .. 4"));
  CHECK_THAT(said, ContainsSubstring("\n  output: 0 .. 2\n  gradient of the output: all 3"));
  CHECK_THAT(said, ContainsSubstring("walked back before it, with the gradients of their outputs:\n"
                                     "       3  sum (") &&
                       ContainsSubstring("f32[]: 1\n       2  scale ("));
}

TEST_CASE("gradients that are finite one by one may be too large together") {
  // 2e38 fits a float, twice 2e38 does not.
  Tape tape(checking());
  const Tensor x = tape.watch(tensor({1e-30}));
  const Tensor y = x * 2e38 + x * 2e38;
  CHECK_THROWS_WITH(tape.backward(y),
                    ContainsSubstring("watched: +inf at 1 of 1, the first at [0], "
                                      "in the gradient of its output f32[1], "
                                      "summed over all that reached it"));
}

TEST_CASE("the same for parameters, which are checked themselves when first used") {
  Params params;
  const Param w = (params / "head").param("weight", {1}, init::constant(1e-30));
  const Param bad = (params / "tail").param("bias", {2, 2}, init::constant(0));
  bad.set(tensor({{0, 0}, {kNan, 0}}));
  {
    Tape tape(checking());
    const Tensor y = Tensor(w) * 2e38 + Tensor(w) * 2e38;
    CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("parameter: +inf at 1 of 1") &&
                                            ContainsSubstring("parameter head.weight"));
  }
  Tape tape(checking());
  CHECK_THROWS_WITH(Tensor(bad), ContainsSubstring("parameter: NaN at 1 of 4, the first at [1, 0], "
                                                   "in its values f32[2, 2]") &&
                                     ContainsSubstring("parameter tail.bias"));
}

TEST_CASE("a cotangent that is not finite is refused where it arrives") {
  Tape tape(checking());
  const Tensor x = tape.watch(ones({2}));
  CHECK_THROWS_WITH(tape.backward(exp(x), tensor({1, kNan})),
                    ContainsSubstring("exp: NaN at 1 of 2, the first at [1]"));
}

TEST_CASE("a differentiable tape names the op whose gradient it was recording") {
  Tape tape(checking(true));
  const Tensor x = tape.watch(tensor({4, 0}));
  const Tensor y = sum(sqrt(x));
  CHECK_THROWS_WITH(tape.backward(y),
                    ContainsSubstring("chain_over: +inf at 1 of 2") &&
                        ContainsSubstring("\n  in the gradient of node 1, sqrt ("));
  // The walk is over: what comes next belongs to no gradient.
  CHECK_THROWS_WITH(1.0 / x, !ContainsSubstring("in the gradient of"));
}

TEST_CASE("the catalog is content: no sample of an op or module is a fault, forward or backward") {
  const auto walk = [](const std::vector<Tensor>& inputs, const auto& call, bool differentiable) {
    Tape tape(checking(differentiable));
    std::vector<Tensor> watched;
    for (const Tensor& x : inputs) {
      watched.push_back(is_floating(x.dtype()) ? tape.watch(x) : x);
    }
    std::vector<Tensor> ys;
    std::vector<Tensor> cotangents;
    for (const Tensor& y : call(watched)) {
      if (y.tape_id() == 0) continue;
      ys.push_back(y);
      // Infinite outputs have no gradient worth the name.
      const Tensor infinite = equal(abs(detach(y)), kInf);
      cotangents.push_back(masked_fill(ones(y.shape(), y.dtype()), infinite, 0));
    }
    if (!ys.empty()) (void)tape.backward(ys, cotangents);
  };
  int walked = 0;
  for (const OpEntry& entry : op_catalog()) {
    if (!entry.differentiable) continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const OpSample& sample : entry.samples(dtype)) {
        for (const bool differentiable : {false, true}) {
          INFO(entry.name << ": " << sample.name << (differentiable ? ", differentiable" : ""));
          CHECK_NOTHROW(walk(sample.inputs, sample.call, differentiable));
          ++walked;
        }
      }
    }
  }
  for (const ModuleEntry& entry : module_catalog()) {
    for (const ModuleCase& c : entry.cases) {
      for (const bool differentiable : {false, true}) {
        INFO(entry.name << ": " << c.name << (differentiable ? ", differentiable" : ""));
        Params params(/*seed=*/1, DType::f64);
        const ModuleSample sample = c.build(params);
        CHECK_NOTHROW(walk(sample.inputs, sample.call, differentiable));
        ++walked;
      }
    }
  }
  CHECK(walked > 1000);
}

TEST_CASE("a checking tape gives the same bits") {
  Params params(3);
  const MultiHeadAttention attention(params / "attention", {.width = 8, .heads = 2});
  Rng rng(5);
  const Tensor x = randn({2, 5, 8}, rng);
  const auto gradients = [&](bool check) {
    TapeOptions options;
    options.check_finite = check;
    Tape tape(options);
    return tape.backward(sum(attention(x, Mask::causal(5)))).flat(params);
  };
  CHECK(same_bits(gradients(false), gradients(true)));
}

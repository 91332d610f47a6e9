// f32 against f64 node by node: errors known by hand, verdicts, names, and everything that the
// program holds.
#include <tapehead/float32.hpp>

#include <cmath>

#include <fmt/format.h>

#include <tapehead/models.hpp>
#include <tapehead/ops.hpp>

#include "gradcheck/float32.hpp"
#include "gradcheck/float32_error.hpp"
#include "support/catch.hpp"

using namespace tapehead;

namespace {

using Tensors = std::vector<Tensor>;

Tensor f64(const NestedList& values) { return tensor(values, DType::f64); }

const Float32Op& op_of(const Float32Report& report, const std::string& name, bool backward) {
  for (const Float32Op& op : report.ops) {
    if (op.op == name && op.backward == backward) return op;
  }
  FAIL("no op " << name << " in\n" << to_string(report));
  return report.ops.front();
}

// The variance of each row, by a kernel of its own in the dtype of x; the gradient is right.
//   two passes:  mean (x - mean x)^2         naive:  mean x^2 - (mean x)^2
template <class T>
Tensor variance_in(const Tensor& x, bool naive) {
  const std::int64_t rows = x.dim(0);
  const std::int64_t n = x.dim(1);
  const std::span<const T> v = x.data<T>();
  std::vector<T> y;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::span<const T> row =
        v.subspan(static_cast<std::size_t>(r * n), static_cast<std::size_t>(n));
    T total = 0;
    T squares = 0;
    for (const T e : row) {
      total += e;
      squares += e * e;
    }
    const T mean = total / static_cast<T>(n);
    T centred = 0;
    for (const T e : row) centred += (e - mean) * (e - mean);
    y.push_back(naive ? squares / static_cast<T>(n) - mean * mean : centred / static_cast<T>(n));
  }
  return tensor(std::span<const T>(y), {rows});
}

Tensor variance(const Tensor& x, bool naive) {
  const Tensor y =
      x.dtype() == DType::f32 ? variance_in<float>(x, naive) : variance_in<double>(x, naive);
  return record("variance", y).input(x, [x](const Tensor& dy) {
    const Tensor centred = x - mean(x, 1, keep);
    return centred * reshape(dy, {x.dim(0), 1}) * (2.0 / static_cast<double>(x.dim(1)));
  });
}

Float32Report compare_one(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                          const Float32Options& options = {}) {
  const TensorFunction wrapped = [&](const Tensors& in) { return Tensors{f(in[0])}; };
  return compare_float32(wrapped, {x}, options);
}

}  // namespace

TEST_CASE("errors are counted in ulps of the largest element and of each element", "[float32]") {
  // 1.0f has the ulp 2^-23, 4 has 2^-21; 2^-24 of the largest is the smallest scale of an element.
  const Tensor full = f64({4, 1, 0, -3});
  const auto error = [&](const NestedList& single) {
    return detail::float32_error(tensor(single), full, 4);
  };
  CHECK(error({4, 1, 0, -3}).ulps == 0);
  CHECK(error({4, 1 + 0x1p-23, 0, -3}).ulps == 0.25);
  CHECK(error({4, 1 + 0x1p-23, 0, -3}).element_ulps == 1);
  CHECK(error({4, 1 + 0x1p-23, 0, -3}).at == 1);
  // 2^-24 * 4 = 2^-22, whose ulp is 2^-45.
  CHECK(error({4, 1, 0x1p-45, -3}).element_ulps == 1);
  CHECK(error({4, 1, 0, -3 - 0x1p-22}).element_ulps == 1);
  CHECK(error({4, 1, 0, -3 - 0x1p-22}).ulps == 0.5);
  CHECK_FALSE(error({4, 1, 0, -3 - 0x1p-22}).overflow);
  CHECK(error({HUGE_VAL, 1, 0, -3}).overflow);
  CHECK(detail::float32_error(tensor({HUGE_VAL}), f64({HUGE_VAL}), 1).ulps == 0);
  CHECK(detail::float32_error(tensor({NAN}), f64({NAN}), 1).ulps == 0);
  // Nothing but rounding in f32 where f64 comes to nothing: the truth is 0.
  CHECK(detail::float32_scale(tensor({1e-9}), f64({1e-17}), 2).zero);
  CHECK(detail::float32_scale(tensor({1e-9}), f64({1e-17}), 2).value == 2);
  CHECK_FALSE(detail::float32_scale(tensor({1e-9}), f64({1e-10}), 2).zero);
}

TEST_CASE("one rounding is half an ulp at most, and the own error of the op that rounds",
          "[float32]") {
  // 1 + 2^-24 is a tie, which rounds to 1: off by half an ulp of 1.
  const Tensor x = f64({1});
  const Float32Report r = compare_one([](const Tensor& v) { return v + 0x1p-24; }, x);
  INFO(to_string(r));
  CHECK(r.status == GradcheckStatus::pass);
  const Float32Op& shifted = op_of(r, "shift", false);
  CHECK(shifted.own == 0.5);
  CHECK(shifted.leaving == 0.5);
  CHECK(shifted.arriving == 0);
  CHECK(shifted.own_name == "shift[0]");
  CHECK(op_of(r, "shift", true).own == 0);
  CHECK(r.compared == 2);  // one element forward, one back
  REQUIRE(r.outputs.size() == 1);
  CHECK(r.outputs[0].ulps == 0.5);
  CHECK(r.outputs[0].digits() == Approx(7.2247).epsilon(1e-4));  // log10(2^24)
}

TEST_CASE("the inputs are rounded first, so both sides see the same numbers", "[float32]") {
  const Float32Report r = compare_one([](const Tensor& v) { return v * 2.0; }, f64({0.1, 1.0 / 3}));
  CHECK(op_of(r, "scale", false).leaving == 0);  // a power of two rounds nothing
}

TEST_CASE("cancellation is lost by the subtraction, which itself is exact", "[float32]") {
  // (1 + 2^-24) - 1 is 2^-24 in f64 and 0 in f32: 2^23 ulps of 2^-24 (which is 2^-47) go missing,
  // although a - b of f32 numbers this close is exact (Sterbenz).
  const Float32Report r =
      compare_one([](const Tensor& v) { return (v + 0x1p-24) - 1.0; }, f64({1}));
  INFO(to_string(r));
  CHECK(r.status == GradcheckStatus::pass);
  // Both ops are a shift: the row stands for the worst, the list has them one by one.
  CHECK(r.ops.front().op == "shift");
  CHECK(r.ops.front().nodes == 2);
  REQUIRE(r.worst.size() == 4);
  CHECK(r.worst[0].leaving_name == "shift#2[0]");
  CHECK(r.worst[0].own == 0);
  CHECK(r.worst[0].arriving == 0.5);
  CHECK(r.worst[0].leaving == 0x1p23);
  CHECK(r.worst[0].lost == 0x1p23 - 0.5);
  CHECK(r.worst[1].own == 0.5);
  CHECK(r.outputs[0].digits() == 0);
}

TEST_CASE("gradients that meet at a node are added by an op of its own", "[float32]") {
  // dx = c (1 + 2^-24) for x used twice; c (1 + 2^-24) is c in f32, off by at most half an ulp.
  const Float32Report r = compare_one([](const Tensor& v) { return v + v * 0x1p-24; }, f64({1}));
  INFO(to_string(r));
  const Float32Op& sum = op_of(r, "accumulate", true);
  CHECK(sum.nodes == 1);
  CHECK(sum.own > 0);
  CHECK(sum.own <= 0.5);
  CHECK(sum.own_name == "input0[0]");
  REQUIRE(r.gradients.size() == 1);
  CHECK(r.gradients[0].name == "input0");
  CHECK(r.gradients[0].ulps == sum.own);
  // The same for a parameter, whose gradient the engine adds up in place.
  const FunctionBuilder build = [](Params& params) -> TensorFunction {
    const Param w = Scope(params).param("w", {1}, init::constant(1));
    return [w](const Tensors&) { return Tensors{Tensor(w) + Tensor(w) * 0x1p-24}; };
  };
  const Float32Report p = compare_float32(build, {});
  CHECK(op_of(p, "accumulate", true).own == sum.own);
  CHECK(op_of(p, "accumulate", true).own_name == "w[0]");
}

TEST_CASE("a kernel that throws digits away is a mismatch, one that rounds is not", "[float32]") {
  // Mean 100, deviation 1: the squares' mean is 10^4 times the variance, so f32 keeps 3 of 7
  // digits.
  Rng rng(3);
  const Tensor x = randn({4, 50}, rng, DType::f64) + 100.0;
  const Float32Report good = compare_one([](const Tensor& v) { return variance(v, false); }, x);
  INFO(to_string(good));
  CHECK(good.status == GradcheckStatus::pass);
  const Float32Report bad = compare_one([](const Tensor& v) { return variance(v, true); }, x);
  INFO(to_string(bad));
  CHECK(bad.status == GradcheckStatus::mismatch);
  CHECK(bad.ops.front().op == "variance");
  CHECK(bad.ops.front().used > 1);
  CHECK_THAT(bad.message, ContainsSubstring("variance is off by") &&
                              ContainsSubstring("variance[") && ContainsSubstring("allowed"));
  Float32Options loose;
  loose.bound = 1e6;
  CHECK(compare_one([](const Tensor& v) { return variance(v, true); }, x, loose).passed());
}

TEST_CASE("a gradient function that loses digits is told from its op", "[float32]") {
  const auto f = [](const Tensor& x) {
    return record("sloppy", x * 1.0).input(x, [](const Tensor& dy) {
      return (dy + 1e5) - 1e5;  // loses 5 digits in f32 and none in f64
    });
  };
  const Float32Report r = compare_one(f, f64({1, 2, 3}));
  INFO(to_string(r));
  CHECK(r.status == GradcheckStatus::mismatch);
  CHECK(op_of(r, "sloppy", true).used > 1);
  CHECK(op_of(r, "sloppy", false).own == 0);
  CHECK_THAT(r.message, ContainsSubstring("sloppy backward"));
}

TEST_CASE("every verdict of the comparison", "[float32]") {
  const Tensor x = f64({1, 2});
  CHECK(compare_float32(TensorFunction(), {x}).status == GradcheckStatus::misused);
  CHECK(compare_float32(FunctionBuilder(), {x}).status == GradcheckStatus::misused);
  CHECK(compare_one([](const Tensor& v) { return v; }, Tensor()).status ==
        GradcheckStatus::misused);
  const auto in_f64 = compare_one([](const Tensor& v) { return cast(v, DType::f64) * 2.0; }, x);
  CHECK(in_f64.status == GradcheckStatus::misused);
  CHECK_THAT(in_f64.message, ContainsSubstring("output 0 is f64"));
  const auto branches =
      compare_one([](const Tensor& v) { return v.dtype() == DType::f32 ? v * 2.0 : exp(v); }, x);
  CHECK(branches.status == GradcheckStatus::misused);
  CHECK_THAT(branches.message, ContainsSubstring("node 1 is scale [2] in f32 and exp [2] in f64"));
  CHECK(compare_one([](const Tensor& v) { return detach(v); }, x).status ==
        GradcheckStatus::nothing_checked);
  CHECK(compare_one([](const Tensor& v) { return v * 2.0; }, zeros({0}, DType::f64)).status ==
        GradcheckStatus::nothing_checked);
  const auto overflow = compare_one([](const Tensor& v) { return exp(v * 50.0); }, x);
  CHECK(overflow.status == GradcheckStatus::not_finite);
  CHECK_THAT(overflow.message, ContainsSubstring("first at exp exp[1]"));  // e^100 > 3.4e38
  Rng rng(1);
  CHECK(compare_one([&](const Tensor& v) { return dropout(v, 0.5, rng) + rng.uniform(); }, x)
            .status == GradcheckStatus::not_repeatable);
  CHECK_THROWS_WITH(compare_float32([](const Tensors&) { return Tensors{Tensor()}; }, {x}),
                    ContainsSubstring("output 0 of the function is no tensor"));
  Tape tape;
  CHECK(compare_one([](const Tensor& v) { return v * 2.0; }, x).status == GradcheckStatus::misused);
}

TEST_CASE("a model is compared with its parameters by name", "[float32]") {
  const FunctionBuilder build = [](Params& params) -> TensorFunction {
    const TransformerLayer layer(params / "layer", {.width = 8, .heads = 2, .hidden = 12});
    return [layer](const Tensors& in) { return Tensors{layer(in[0], Mask::causal(5))}; };
  };
  Rng rng(5);
  const Tensor x = randn({2, 5, 8}, rng, DType::f64);
  Float32Options options;
  options.input_names = {"x"};
  const Float32Report r = compare_float32(build, {x}, options);
  INFO(to_string(r));
  CHECK(r.passed());
  REQUIRE(r.gradients.size() == 1 + 16);
  CHECK(r.gradients[0].name == "x");
  CHECK(r.gradients[1].name == "layer.attention.query.weight");
  for (const Float32Tensor& g : r.gradients) {
    INFO(g.name);
    CHECK(g.zero == (g.name == "layer.attention.key.bias"));
    CHECK(g.digits() > 4);
  }
  CHECK(op_of(r, "attention", false).nodes == 1);
  CHECK(op_of(r, "linear", false).nodes == 6);
  for (std::size_t i = 1; i < r.ops.size(); ++i) CHECK(r.ops[i - 1].lost >= r.ops[i].lost);
  CHECK_THAT(op_of(r, "layer_norm", false).own_name,
             ContainsSubstring("layer.norm") && ContainsSubstring(" layer_norm["));
  CHECK_THAT(r.gradients[1].worst, ContainsSubstring("layer.attention.query.weight["));
  CHECK_THAT(to_string(r), ContainsSubstring("layer.attention.query.weight["));
  const FunctionBuilder differs = [](Params& params) -> TensorFunction {
    const Linear one(params / (params.dtype() == DType::f32 ? "a" : "b"), 8, 8);
    return [one](const Tensors& in) { return Tensors{one(in[0])}; };
  };
  CHECK_THAT(compare_float32(differs, {x}).message, ContainsSubstring("a.weight [8, 8]"));
}

TEST_CASE("every op, module and model rounds as it may", "[float32]") {
  const detail::Float32Suite suite = detail::float32_suite(op_catalog(), module_catalog());
  INFO(to_string(suite));
  CHECK(suite.status() == GradcheckStatus::pass);
  CHECK(suite.compared() > 100000);
  CHECK_THAT(to_string(suite), ContainsSubstring("worst element"));
  for (const detail::Float32Suite::Thing& thing : suite.things) {
    INFO(thing.name);
    CHECK((thing.compared > 0 || !thing.left_out.empty()));
  }
  for (const Float32Op& op : suite.ops) {
    INFO(op.op << (op.backward ? " backward" : ""));
    CHECK(op.used <= 1);
  }
}

TEST_CASE("arithmetic is rounded once: half an ulp of the element itself", "[float32]") {
  std::vector<OpEntry> once;
  for (const OpEntry& entry : op_catalog()) {
    for (const char* name : {"add", "sub", "mul", "div", "sqrt"}) {
      if (entry.name == name) once.push_back(entry);
    }
  }
  const detail::Float32Suite suite = detail::float32_suite(once, {});
  int forward = 0;
  for (const Float32Op& op : suite.ops) {
    INFO(op.op);
    if (op.backward) continue;
    ++forward;
    CHECK(op.own_element > 0.4);
    // The reference is itself rounded, to f64.
    CHECK(op.own_element <= 0.5 * (1 + 1e-6));
  }
  CHECK(forward == 5);
}

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <tapehead/catalog.hpp>

#include "nn/support.hpp"

namespace th = tapehead;
using th::DType;
using th::Tensor;

namespace {

double largest(const Tensor& x) { return x.size() == 0 ? 0 : th::max(th::abs(x)).item(); }

bool all_finite(const Tensor& x) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x.at_flat(i))) return false;
  }
  return true;
}

struct Run {
  th::Gradients gradients;
  std::vector<std::int64_t> blocked;  // which elements each ReLU of the backward walk shut off
};

// Backward of the sample's outputs against random cotangents.
Run backward(const th::ModuleSample& sample) {
  Run run;
  th::TapeOptions options;
  options.gradient_hook = [&](const th::GradientCall& call) {
    if (call.op == "relu") {
      for (std::int64_t i = 0; i < call.input_gradient.size(); ++i) {
        if (call.input_gradient.at_flat(i) == 0) run.blocked.push_back(i);
      }
    }
    return call.input_gradient;
  };
  th::Tape tape(options);
  std::vector<Tensor> inputs;
  for (const Tensor& x : sample.inputs) inputs.push_back(tape.watch(x));
  const std::vector<Tensor> outputs = sample.call(inputs);
  std::vector<Tensor> cotangents;
  for (const Tensor& y : outputs) {
    cotangents.push_back(test::random(y.shape(), 17 + cotangents.size(), y.dtype()));
  }
  run.gradients = tape.backward(outputs, cotangents);
  return run;
}

// Every parameter a step of `size` up or down.
void nudge(th::Params& params, std::uint64_t seed, double size) {
  th::Rng rng(seed, th::Stream::check);
  params.write("nudge", [&](std::span<double> values) {
    for (double& value : values) value += rng.bernoulli(0.5) ? size : -size;
  });
}

template <class F>
void for_each_case(const F& f) {
  for (const th::ModuleEntry& entry : th::module_catalog()) {
    for (const th::ModuleCase& c : entry.cases) {
      INFO(entry.name << ": " << c.name);
      f(c);
    }
  }
}

}  // namespace

TEST_CASE("the catalog of modules lists every module once") {
  std::set<std::string> names;
  for (const th::ModuleEntry& entry : th::module_catalog()) {
    CHECK(names.insert(entry.name).second);
    CHECK_FALSE(entry.formula.empty());
    CHECK_FALSE(entry.cases.empty());
    std::set<std::string> cases;
    for (const th::ModuleCase& c : entry.cases) CHECK(cases.insert(c.name).second);
  }
  CHECK(names == std::set<std::string>{
                     "Linear", "Embedding", "LayerNorm", "RMSNorm", "Norm", "FeedForward",
                     "MultiHeadAttention", "HeadwiseAttention", "LearnedPositions", "TokenHead",
                     "ClassifierHead", "TransformerLayer", "TransformerStack", "TokenInput",
                     "EncoderModel, pooled", "LanguageModel", "EncoderDecoder", "EncoderModel"});
}

TEST_CASE("catalog samples are pure functions, finite, and alike in both dtypes") {
  for_each_case([](const th::ModuleCase& c) {
    th::Params params(1, DType::f64), single(1, DType::f32);
    const th::ModuleSample sample = c.build(params), rounded = c.build(single);
    const std::vector<Tensor> outputs = sample.call(sample.inputs);
    const std::vector<Tensor> again = sample.call(sample.inputs);
    const std::vector<Tensor> f32 = rounded.call(rounded.inputs);
    REQUIRE_FALSE(outputs.empty());
    REQUIRE(outputs.size() == f32.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      CHECK(outputs[i].dtype() == DType::f64);
      CHECK(f32[i].dtype() == DType::f32);
      CHECK(all_finite(outputs[i]));
      CHECK(th::same_bits(outputs[i], again[i]));
      test::check_close(th::cast(f32[i], DType::f64), outputs[i], {1e-4, 1e-5});
    }
  });
}

TEST_CASE("catalog samples reach every parameter, and leave none at a special value") {
  for_each_case([](const th::ModuleCase& c) {
    th::Params params(1, DType::f64);
    const th::ModuleSample sample = c.build(params);
    const th::Gradients g = backward(sample).gradients;
    const double scale = largest(g.flat(params));
    const bool empty = scale == 0;
    for (const th::Param& param : params.all()) {
      INFO(param.name());
      CHECK(g.reached(param));
      const bool zero =
          std::count(sample.zero_gradient.begin(), sample.zero_gradient.end(), param.name()) > 0;
      if (zero) {
        CHECK(largest(g[param]) < 1e-13 * scale);
      } else if (!empty) {
        CHECK(largest(g[param]) > 1e-4 * scale);
      }
      if (param.shape().rank() == 1) {
        for (std::int64_t i = 0; i < param.shape().size(); ++i) {
          CHECK(param.value().at_flat(i) != 0);
          CHECK(param.value().at_flat(i) != 1);
        }
      }
    }
  });
}

TEST_CASE("no ReLU of a catalog sample stands near its kink") {
  // A central difference steps about 1e-5 along one parameter. Here all of them step at once, in
  // twenty random directions, and no ReLU may change sides.
  for_each_case([](const th::ModuleCase& c) {
    th::Params params(1, DType::f64);
    const th::ModuleSample sample = c.build(params);
    const std::vector<std::int64_t> blocked = backward(sample).blocked;
    for (std::uint64_t direction = 0; direction < 20; ++direction) {
      th::Params moved(1, DType::f64);
      const th::ModuleSample there = c.build(moved);
      nudge(moved, direction, 1e-5);
      CHECK(backward(there).blocked == blocked);
    }
  });
}

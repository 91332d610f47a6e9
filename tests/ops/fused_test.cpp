// What every softmax, norm, dropout and loss must satisfy, sample by sample of the catalog.
#include <string>

#include "ops/gradient_probe.hpp"
#include "support/catch.hpp"

namespace th = tapehead;
using th::DType;
using th::Tensor;

namespace {

const std::vector<std::string> kOps{
    "softmax", "log_softmax",        "layer_norm",          "rms_norm", "dropout", "cross_entropy",
    "mse",     "cross_entropy_sums", "binary_cross_entropy"};

// <gradient of <y, c>, second cotangents>, as a function to be differentiated once more.
Function gradient_of(const Function& f) {
  return [f](const std::vector<Tensor>& inputs) {
    th::Tape tape({.differentiable = true});
    std::vector<Tensor> watched;
    for (const Tensor& x : inputs) watched.push_back(tape.watch(th::detach(x)));
    const std::vector<Tensor> ys = f(watched);
    std::vector<Tensor> cotangents;
    for (std::size_t k = 0; k < ys.size(); ++k) cotangents.push_back(cotangent_for(ys[k], k));
    const th::Gradients first = tape.backward(ys, cotangents);
    std::vector<Tensor> result;
    for (const Tensor& x : watched) result.push_back(th::detach(first[x]));
    return result;
  };
}

// The gradient of <first gradient, cotangents>, by a second walk over a differentiable tape.
std::vector<Tensor> second_gradients(const Function& f, const std::vector<Tensor>& inputs) {
  th::Tape tape({.differentiable = true});
  std::vector<Tensor> watched;
  for (const Tensor& x : inputs) watched.push_back(tape.watch(x));
  const std::vector<Tensor> ys = f(watched);
  std::vector<Tensor> cotangents;
  for (std::size_t k = 0; k < ys.size(); ++k) cotangents.push_back(cotangent_for(ys[k], k));
  const th::Gradients first = tape.backward(ys, cotangents);
  std::vector<Tensor> firsts;
  std::vector<Tensor> first_cotangents;
  for (std::size_t k = 0; k < watched.size(); ++k) {
    firsts.push_back(first[watched[k]]);
    first_cotangents.push_back(cotangent_for(watched[k], k));
  }
  bool linear = true;  // then the first gradient is a constant, and backward would refuse it
  for (const Tensor& x : firsts) linear = linear && !th::is_recorded(x);
  std::vector<Tensor> result;
  if (linear) {
    for (const Tensor& x : watched) result.push_back(th::zeros(x.shape(), x.dtype()));
    return result;
  }
  const th::Gradients second = tape.backward(firsts, first_cotangents);
  for (const Tensor& x : watched) result.push_back(th::detach(second[x]));
  return result;
}

}  // namespace

TEST_CASE("the catalog lists these ops") {
  for (const std::string& name : kOps) {
    int samples = 0;
    for_samples(name, DType::f32, [&](const th::OpSample&) { ++samples; });
    INFO(name);
    CHECK(samples >= 4);
  }
}

TEST_CASE("gradients agree with central differences") {
  for (const std::string& name : kOps) {
    for_samples(name, DType::f64, [&](const th::OpSample& sample) {
      INFO(name << " " << sample.name);
      const std::vector<Tensor> wanted = numeric_gradients(sample.call, sample.inputs);
      CHECK(worst_error(tape_gradients(sample.call, sample.inputs), wanted) < 1e-7);
      CHECK(worst_error(tape_gradients(sample.call, sample.inputs, true), wanted) < 1e-7);
    });
  }
}

TEST_CASE("fused kernels agree with their compositions") {
  for (const std::string& name : kOps) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const double tolerance = dtype == DType::f64 ? 1e-13 : 2e-6;
      for_samples(name, dtype, [&](const th::OpSample& sample) {
        if (!sample.composition) return;
        INFO(name << " " << sample.name << " " << th::name_of(dtype));
        CHECK(worst_error(sample.call(sample.inputs), sample.composition(sample.inputs)) <
              tolerance);
        CHECK(worst_error(tape_gradients(sample.call, sample.inputs),
                          tape_gradients(sample.composition, sample.inputs)) < tolerance);
      });
    }
  }
}

TEST_CASE("second derivatives agree with differences of the first") {
  for (const std::string& name : kOps) {
    for_samples(name, DType::f64, [&](const th::OpSample& sample) {
      std::int64_t elements = 0;
      for (const Tensor& x : sample.inputs) elements += x.size();
      if (elements > 600) return;  // each costs a whole backward
      INFO(name << " " << sample.name);
      CHECK(worst_error(second_gradients(sample.call, sample.inputs),
                        numeric_gradients(gradient_of(sample.call), sample.inputs)) < 1e-7);
    });
  }
}

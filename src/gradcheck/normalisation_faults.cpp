#include <tapehead/ops.hpp>

#include "gradcheck/known_faults.hpp"

namespace tapehead::detail {

namespace {

using Tensors = std::vector<Tensor>;

constexpr double kEps = 1e-5;

Tensor sample(const Shape& shape, std::uint64_t salt) {
  Rng rng = Rng(37, Stream::check).fork(salt);
  return randn(shape, rng, DType::f64);
}

// The gradient that another function has under the same cotangent, by input `i`.
Tensor gradient_of(const TensorFunction& function, const Tensors& in, const Tensor& dy,
                   std::size_t i) {
  Tape tape;
  Tensors watched;
  for (const Tensor& x : in) watched.push_back(tape.watch(x));
  return tape.backward(function(watched)[0], dy)[watched[i]];
}

Tensor centred(const Tensor& x) { return x - mean(x, -1, keep); }
Tensor variance(const Tensor& x) {
  const Tensor c = centred(x);
  return mean(c * c, -1, keep);
}
Tensor row(const Tensor& gain, const Tensor& like) { return broadcast_to(gain, like.shape()); }

void softmax_faults(std::vector<KnownFault>& faults) {
  const Tensors in{sample({3, 5, 7}, 1)};
  const TensorFunction function = [](const Tensors& x) { return Tensors{softmax(x[0])}; };
  const Tensor y = softmax(in[0]);
  faults.push_back(
      {"softmax", 0, "softmax over the wrong axis", function, in,
       [y](const Tensor& dy, const Tensor&) { return y * (dy - sum(y * dy, -2, keep)); }});
  faults.push_back({"softmax", 0, "not corrected by the row sum", function, in,
                    [y](const Tensor& dy, const Tensor&) { return y * dy; }});
  const TensorFunction logs = [](const Tensors& x) { return Tensors{log_softmax(x[0])}; };
  faults.push_back({"log_softmax", 0, "softmax over the wrong axis", logs, in,
                    [x = in[0]](const Tensor& dy, const Tensor&) {
                      return dy - softmax(x, -2) * sum(dy, -1, keep);
                    }});
  faults.push_back({"log_softmax", 0, "not corrected by the row sum", logs, in,
                    [](const Tensor& dy, const Tensor&) { return dy; }});
}

void masked_softmax_faults(std::vector<KnownFault>& faults) {
  const Mask mask = Mask::causal(5);
  const Tensors in{sample({2, 2, 5, 5}, 2)};
  const TensorFunction function = [mask](const Tensors& x) {
    return Tensors{masked_softmax(x[0], mask)};
  };
  const Tensor y = masked_softmax(in[0], mask);
  const Tensor unmasked = softmax(in[0]);
  faults.push_back({"masked_softmax", 0, "mask dropped in backward", function, in,
                    [unmasked](const Tensor& dy, const Tensor&) {
                      return unmasked * (dy - sum(unmasked * dy, -1, keep));
                    }});
  faults.push_back(
      {"masked_softmax", 0, "softmax over the wrong axis", function, in,
       [y](const Tensor& dy, const Tensor&) { return y * (dy - sum(y * dy, -2, keep)); }});
}

void layer_norm_faults(std::vector<KnownFault>& faults) {
  const Tensors in{sample({3, 5, 8}, 3), sample({8}, 4), sample({8}, 5)};
  const TensorFunction function = [](const Tensors& x) {
    return Tensors{layer_norm(x[0], x[1], x[2], kEps)};
  };
  const auto plant = [&](int i, const char* name, const TensorFunction& other) {
    faults.push_back({"layer_norm", i, name, function, in, [=](const Tensor& dy, const Tensor&) {
                        return gradient_of(other, in, dy, static_cast<std::size_t>(i));
                      }});
  };
  const TensorFunction outside = [](const Tensors& x) {
    const Tensor normal = centred(x[0]) / (sqrt(variance(x[0])) + kEps);
    return Tensors{normal * row(x[1], x[0]) + row(x[2], x[0])};
  };
  plant(0, "epsilon outside the root", outside);
  plant(1, "epsilon outside the root", outside);
  plant(0, "mean taken as a constant", [](const Tensors& x) {
    const Tensor normal = (x[0] - detach(mean(x[0], -1, keep))) / sqrt(variance(x[0]) + kEps);
    return Tensors{normal * row(x[1], x[0]) + row(x[2], x[0])};
  });
  plant(0, "variance taken as a constant", [](const Tensors& x) {
    const Tensor normal = centred(x[0]) / detach(sqrt(variance(x[0]) + kEps));
    return Tensors{normal * row(x[1], x[0]) + row(x[2], x[0])};
  });
  plant(0, "variance over one less", [](const Tensors& x) {
    const Tensor unbiased = variance(x[0]) * (8.0 / 7.0);
    return Tensors{centred(x[0]) / sqrt(unbiased + kEps) * row(x[1], x[0]) + row(x[2], x[0])};
  });
}

void rms_norm_faults(std::vector<KnownFault>& faults) {
  const Tensors in{sample({3, 5, 8}, 6), sample({8}, 7)};
  const TensorFunction function = [](const Tensors& x) {
    return Tensors{rms_norm(x[0], x[1], kEps)};
  };
  const TensorFunction outside = [](const Tensors& x) {
    return Tensors{x[0] / (sqrt(mean(x[0] * x[0], -1, keep)) + kEps) * row(x[1], x[0])};
  };
  for (const int i : {0, 1}) {
    faults.push_back({"rms_norm", i, "epsilon outside the root", function, in,
                      [=](const Tensor& dy, const Tensor&) {
                        return gradient_of(outside, in, dy, static_cast<std::size_t>(i));
                      }});
  }
}

}  // namespace

std::vector<KnownFault> normalisation_faults() {
  std::vector<KnownFault> faults;
  softmax_faults(faults);
  masked_softmax_faults(faults);
  layer_norm_faults(faults);
  rms_norm_faults(faults);
  return faults;
}

}  // namespace tapehead::detail

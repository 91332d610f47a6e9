// Gradients of samples of the op catalog, by the tape and by central differences.
#pragma once

#include <cmath>
#include <vector>

#include <tapehead/catalog.hpp>
#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

using Function = std::function<std::vector<tapehead::Tensor>(const std::vector<tapehead::Tensor>&)>;

// Not constant, so that outputs which sum to a constant cannot hide a fault.
inline tapehead::Tensor cotangent_for(const tapehead::Tensor& y, std::uint64_t salt) {
  tapehead::Rng rng = tapehead::Rng(5, tapehead::Stream::check).fork(salt);
  return tapehead::uniform(y.shape(), rng, -1, 1, y.dtype());
}

inline double contract(const std::vector<tapehead::Tensor>& ys) {
  double total = 0;
  for (std::size_t k = 0; k < ys.size(); ++k) {
    total += tapehead::sum(tapehead::detach(ys[k]) * cotangent_for(ys[k], k)).item();
  }
  return total;
}

// The gradients of sum_k <y_k, cotangent_k> by all inputs.
inline std::vector<tapehead::Tensor> tape_gradients(const Function& f,
                                                    const std::vector<tapehead::Tensor>& inputs,
                                                    bool differentiable = false) {
  tapehead::Tape tape({differentiable});
  std::vector<tapehead::Tensor> watched;
  for (const tapehead::Tensor& x : inputs) watched.push_back(tape.watch(x));
  const std::vector<tapehead::Tensor> ys = f(watched);
  std::vector<tapehead::Tensor> cotangents;
  for (std::size_t k = 0; k < ys.size(); ++k) cotangents.push_back(cotangent_for(ys[k], k));
  const tapehead::Gradients gradients = tape.backward(ys, cotangents);
  std::vector<tapehead::Tensor> result;
  for (const tapehead::Tensor& x : watched) result.push_back(tapehead::detach(gradients[x]));
  return result;
}

// The same by central differences; inputs are f64.
inline std::vector<tapehead::Tensor> numeric_gradients(
    const Function& f, const std::vector<tapehead::Tensor>& inputs) {
  constexpr double kStep = 1e-5;
  std::vector<tapehead::Tensor> result;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    std::vector<double> values = inputs[k].to_vector<double>();
    std::vector<double> slopes;
    std::vector<tapehead::Tensor> moved = inputs;
    const auto at = [&](double& value, double to) {
      value = to;
      moved[k] = tapehead::tensor(std::span<const double>(values), inputs[k].shape());
      return contract(f(moved));
    };
    for (double& value : values) {
      const double x = value;
      const double right = at(value, x + kStep);
      const double left = at(value, x - kStep);
      value = x;
      slopes.push_back((right - left) / (2 * kStep));
    }
    result.push_back(tapehead::tensor(std::span<const double>(slopes), inputs[k].shape()));
  }
  return result;
}

// The largest difference of two lists of gradients, relative to the largest element of the second.
inline double worst_error(const std::vector<tapehead::Tensor>& found,
                          const std::vector<tapehead::Tensor>& wanted) {
  double worst = 0;
  double largest = 1e-3;
  for (std::size_t k = 0; k < found.size(); ++k) {
    for (std::int64_t i = 0; i < wanted[k].size(); ++i) {
      const double difference = std::abs(found[k].at_flat(i) - wanted[k].at_flat(i));
      if (!(difference <= worst)) worst = difference;
      largest = std::max(largest, std::abs(wanted[k].at_flat(i)));
    }
  }
  return worst / largest;
}

// The named entry's samples, one after the other.
template <class F>
void for_samples(const std::string& name, tapehead::DType dtype, F f) {
  for (const tapehead::OpEntry& entry : tapehead::op_catalog()) {
    if (entry.name != name) continue;
    for (const tapehead::OpSample& sample : entry.samples(dtype)) f(sample);
  }
}

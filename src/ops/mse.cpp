// mse: the mean squared error, y = (1/n) sum_i (p_i - t_i)^2
//   dp_i = (2/n) (p_i - t_i) dy,   dt_i = -dp_i
// Shapes must be equal: [n, 1] against [n] would otherwise compare everything with everything. Over
// no elements the loss is 0.
#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "ops/catalog.hpp"
#include "ops/loss.hpp"

namespace tapehead {
namespace {

template <class T>
Tensor mean_squared(const Tensor& prediction, const Tensor& target) {
  const T* p = detail::in<T>(prediction);
  const T* t = detail::in<T>(target);
  return detail::mean_of<T>(prediction.size(), [=](std::int64_t i) {
    const double d = static_cast<double>(p[i]) - static_cast<double>(t[i]);
    return d * d;
  });
}

}  // namespace

Tensor mse(const Tensor& prediction, const Tensor& target, CallSite at) {
  const OpCall call(at);
  detail::check_floating("mse", prediction, "prediction");
  detail::check_same_dtype("mse", prediction, target);
  detail::check_same_shape("mse", prediction, target, "prediction", "target");
  Tensor y = detail::with_float("mse", prediction.dtype(), [&](auto zero) {
    return mean_squared<decltype(zero)>(prediction, target);
  });
  const double factor = 2 / detail::loss_count(prediction);
  return record("mse", y)
      .input(prediction, [=](const Tensor& dy) { return (prediction - target) * (factor * dy); })
      .input(target, [=](const Tensor& dy) { return (target - prediction) * (factor * dy); });
}

namespace detail {

OpEntry mse_entry() {
  return {"mse",
          "loss",
          "y = (1/n) sum_i (p_i - t_i)^2",
          "dp_i = (2/n) (p_i - t_i) dy; dt_i = -dp_i",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            for (const Shape& shape : awkward_shapes()) {
              OpSample sample{to_string(shape),
                              {sample_values(shape, dtype, 1), sample_values(shape, dtype, 2)}};
              sample.call = [](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{mse(x[0], x[1])};
              };
              sample.composition = [](const std::vector<Tensor>& x) {
                const Tensor d = x[0] - x[1];
                return std::vector<Tensor>{scale(sum(d * d), 1 / loss_count(d))};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

// binary_cross_entropy of logits x with targets t in 0..1, averaged over all n elements
//   y    = (1/n) sum_i l_i,   l = t softplus(-x) + (1 - t) softplus(x) = softplus(x) - x t
//   dx_i = (sigmoid(x_i) - t_i) dy / n,   dt_i = -x_i dy / n
// Computed as l = w |x| + ln(1 + e^-|x|) with w the weight of the wrong side (1 - t for x > 0, else
// t): both terms are >= 0, so nothing cancels, and a sure logit of +-inf that is right (w = 0)
// costs 0 by selection. Over no elements the loss is 0.
#include <cmath>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "ops/catalog.hpp"
#include "ops/loss.hpp"

namespace tapehead {
namespace {

template <class T>
void check_targets(const Tensor& targets) {
  const T* t = detail::in<T>(targets);
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    if (!(t[i] >= 0 && t[i] <= 1)) {
      detail::fail<ValueError>(fmt::format(
          "binary_cross_entropy: targets are probabilities in 0..1, but target {} of {} is {}", i,
          to_string(targets.shape()), t[i]));
    }
  }
}

template <class T>
Tensor mean_loss(const Tensor& logits, const Tensor& targets) {
  const T* px = detail::in<T>(logits);
  const T* pt = detail::in<T>(targets);
  return detail::mean_of<T>(logits.size(), [=](std::int64_t i) {
    const auto x = static_cast<double>(px[i]);
    const auto t = static_cast<double>(pt[i]);
    const double wrong = x > 0 ? 1 - t : t;
    return (wrong == 0 ? 0.0 : wrong * std::abs(x)) + std::log1p(std::exp(-std::abs(x)));
  });
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets, CallSite at) {
  const OpCall call(at);
  detail::check_floating("binary_cross_entropy", logits, "logits");
  detail::check_same_dtype("binary_cross_entropy", logits, targets);
  detail::check_same_shape("binary_cross_entropy", logits, targets, "logits", "targets");
  Tensor y = detail::with_float("binary_cross_entropy", logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    check_targets<T>(targets);
    return mean_loss<T>(logits, targets);
  });
  const double factor = 1 / detail::loss_count(logits);
  return record("binary_cross_entropy", y)
      .input(logits, [=](const Tensor& dy) { return (sigmoid(logits) - targets) * (factor * dy); })
      .input(targets, [=](const Tensor& dy) { return logits * (-factor * dy); });
}

namespace detail {

OpEntry binary_cross_entropy_entry() {
  return {"binary_cross_entropy",
          "loss",
          "y = (1/n) sum_i (softplus(x_i) - x_i t_i)",
          "dx_i = (sigmoid(x_i) - t_i) dy / n; dt_i = -x_i dy / n",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            // Targets far enough from 0 and 1 to be moved for differences.
            for (const Shape& shape : awkward_shapes()) {
              OpSample sample{to_string(shape),
                              {sample_values(shape, dtype, 1, -6, 6),
                               sample_values(shape, dtype, 2, 0.3, 0.7)}};
              sample.call = [](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{binary_cross_entropy(x[0], x[1])};
              };
              sample.composition = [](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{
                    scale(sum(softplus(x[0]) - x[0] * x[1]), 1 / loss_count(x[0]))};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

#include "ops/catalog.hpp"

#include <fmt/format.h>

namespace tapehead {

const std::vector<OpEntry>& op_catalog() {
  using namespace detail;
  static const std::vector<OpEntry> entries{
      // A line for each section of ops.hpp.
      // clang-format off
      tensor_entry(), zeros_entry(), ones_entry(), full_entry(), arange_entry(), randn_entry(),
      uniform_entry(),
      cast_entry(), detach_entry(),
      add_entry(), sub_entry(), mul_entry(), div_entry(), maximum_entry(), neg_entry(),
      scale_entry(), shift_entry(),
      equal_entry(), not_equal_entry(), less_entry(), less_equal_entry(), greater_entry(),
      greater_equal_entry(),
      logical_not_entry(), logical_and_entry(), logical_or_entry(),
      exp_entry(), log_entry(), sqrt_entry(), pow_entry(), abs_entry(), sign_entry(), tanh_entry(),
      sigmoid_entry(), erf_entry(), softplus_entry(),
      relu_entry(), gelu_entry(), gelu_tanh_entry(), silu_entry(), clamp_entry(),
      where_entry(), masked_fill_entry(),
      sum_entry(), mean_entry(), max_entry(), min_entry(), norm_entry(), logsumexp_entry(),
      argmax_entry(),
      broadcast_to_entry(), reshape_entry(), permute_entry(), transpose_entry(), concat_entry(),
      stack_entry(), slice_entry(), split_entry(), pad_entry(),
      one_hot_entry(), embedding_entry(), gather_entry(), scatter_add_entry(),
      matmul_entry(), linear_entry(), einsum_entry(),
      softmax_entry(), masked_softmax_entry(), log_softmax_entry(), layer_norm_entry(),
      rms_norm_entry(), dropout_entry(),
      cross_entropy_entry(), cross_entropy_sums_entry(), mse_entry(), binary_cross_entropy_entry(),
      attention_entry(), attention_with_weights_entry(), attention_steps_entry(), rotate_entry(),
      split_heads_entry(), merge_heads_entry(),
      // clang-format on
  };
  return entries;
}

namespace detail {

Tensor sample_values(const Shape& shape, DType dtype, std::uint64_t salt, double low, double high) {
  Rng rng = Rng(20, Stream::check).fork(to_string(shape)).fork(salt);
  return uniform(shape, rng, low, high, dtype);
}

// A walk through 0..n-1 in steps of 97, which no size in use is a multiple of, centred on 0.
Tensor apart_values(const Shape& shape, DType dtype, std::int64_t salt) {
  const std::int64_t n = shape.size();
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t place = (97 * i + 31 * salt) % n - n / 2;
    values.push_back((static_cast<double>(place) + 0.5) * 0.013);
  }
  return cast(tensor(std::span<const double>(values), shape), dtype);
}

const std::vector<Shape>& awkward_shapes() {
  static const std::vector<Shape> shapes{
      {}, {1}, {0}, {2, 0, 3}, {3, 5, 17}, {2, 67}, {2, 1, 3, 1, 1, 2, 1, 2}};
  return shapes;
}

std::vector<OpSample> unary_samples(DType dtype, const std::function<Tensor(const Tensor&)>& op,
                                    double low, double high) {
  std::vector<OpSample> samples;
  for (const Shape& shape : awkward_shapes()) {
    OpSample sample{to_string(shape), {sample_values(shape, dtype, 1, low, high)}};
    sample.call = [op](const std::vector<Tensor>& x) { return std::vector<Tensor>{op(x[0])}; };
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::vector<OpSample> apart_samples(DType dtype, const std::function<Tensor(const Tensor&)>& op) {
  std::vector<OpSample> samples = unary_samples(dtype, op);
  for (OpSample& sample : samples) {
    sample.inputs = {apart_values(sample.inputs[0].shape(), dtype, 1)};
  }
  return samples;
}

OpSample point_sample(DType dtype, const std::function<Tensor(const Tensor&)>& op,
                      const std::vector<double>& points, std::string name, bool kink) {
  const Shape shape{static_cast<std::int64_t>(points.size())};
  OpSample sample{std::move(name), {cast(tensor(std::span<const double>(points), shape), dtype)}};
  sample.call = [op](const std::vector<Tensor>& x) { return std::vector<Tensor>{op(x[0])}; };
  sample.kink = kink;
  return sample;
}

std::vector<OpSample> binary_samples(DType dtype,
                                     const std::function<Tensor(const Tensor&, const Tensor&)>& op,
                                     double low_a, double high_a, double low_b, double high_b) {
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{}, {}},
      {{1}, {1}},
      {{3, 5, 17}, {3, 5, 17}},
      {{2, 67}, {2, 67}},
      {{3, 1}, {1, 3}},
      {{3, 4}, {1, 4}},
      {{1}, {5}},
      {{5, 4}, {5, 1}},
      {{}, {2, 3}},
      {{2, 3}, {}},
      {{2, 1, 5, 1}, {1, 3, 5, 7}},
      {{0, 3}, {1, 3}},
      {{1, 0}, {4, 1}},
      {{2, 1, 3, 1, 1, 2, 1, 2}, {1, 2, 3, 1, 2, 1, 1, 2}},
  };
  std::vector<OpSample> samples;
  for (const auto& pair : shapes) {
    OpSample sample{fmt::format("{} with {}", to_string(pair.first), to_string(pair.second)),
                    {sample_values(pair.first, dtype, 1, low_a, high_a),
                     sample_values(pair.second, dtype, 2, low_b, high_b)}};
    sample.call = [op](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{op(x[0], x[1])};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::vector<OpSample> reduction_samples(DType dtype,
                                        Tensor (*op)(const Tensor&, const Axes&, Reduced, CallSite),
                                        bool of_nothing) {
  struct Case {
    Shape shape;
    Axes axes;
    Reduced reduced;
    const char* name;
  };
  std::vector<Case> cases{
      {{}, {}, Reduced::drop, "scalar"},
      {{1}, {}, Reduced::drop, "one element"},
      {{3, 5, 17}, {}, Reduced::drop, "[3,5,17], all axes"},
      {{3, 5, 17}, 1, Reduced::keep, "[3,5,17], axis 1, kept"},
      {{3, 5, 17}, {0, -1}, Reduced::drop, "[3,5,17], axes 0 and 2"},
      {{2, 67}, -1, Reduced::drop, "[2,67], last axis"},
      {{67, 2}, 0, Reduced::drop, "[67,2], first axis"},
      {{2, 1, 3, 1, 1, 2, 1, 2}, {0, 3, 5}, Reduced::drop, "rank 8, axes 0, 3 and 5"},
      {{0, 3}, 1, Reduced::drop, "[0,3], axis 1"},
  };
  if (of_nothing) cases.push_back({{0, 3}, 0, Reduced::drop, "[0,3], axis 0"});
  std::vector<OpSample> samples;
  for (const Case& c : cases) {
    OpSample sample{c.name, {apart_values(c.shape, dtype, 1)}};
    sample.call = [op, axes = c.axes, reduced = c.reduced](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{op(x[0], axes, reduced, {})};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace detail
}  // namespace tapehead

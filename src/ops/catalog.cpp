#include "ops/catalog.hpp"

#include <fmt/format.h>

namespace tapehead {

const std::vector<OpEntry>& op_catalog() {
  using namespace detail;
  static const std::vector<OpEntry> entries{
      cast_entry(),    detach_entry(),    add_entry(),       sub_entry(),
      mul_entry(),     div_entry(),       neg_entry(),       scale_entry(),
      shift_entry(),   sum_entry(),       mean_entry(),      broadcast_to_entry(),
      reshape_entry(), permute_entry(),   transpose_entry(), concat_entry(),
      stack_entry(),   slice_entry(),     split_entry(),     pad_entry(),
      one_hot_entry(), embedding_entry(), gather_entry(),    scatter_add_entry(),
      matmul_entry(),  linear_entry(),    einsum_entry(),
  };
  return entries;
}

namespace detail {

Tensor sample_values(const Shape& shape, DType dtype, std::uint64_t salt, double low, double high) {
  Rng rng = Rng(20, Stream::check).fork(to_string(shape)).fork(salt);
  return uniform(shape, rng, low, high, dtype);
}

const std::vector<Shape>& awkward_shapes() {
  static const std::vector<Shape> shapes{{}, {1}, {0}, {2, 0, 3}, {3, 5, 17}, {2, 67}};
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

}  // namespace detail
}  // namespace tapehead

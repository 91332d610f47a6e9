// What catalog entries are made of. Each op file ends with the functions that give its entries; the
// list of them all is in catalog.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <tapehead/catalog.hpp>
#include <tapehead/ops.hpp>

namespace tapehead::detail {

// Numbers for a sample: uniform in [low, high), a pure function of shape and salt.
[[nodiscard]] Tensor sample_values(const Shape& shape, DType dtype, std::uint64_t salt,
                                   double low = -2, double high = 2);

// Numbers that all differ by at least 0.013 and lie at least 0.0065 from 0 and from every multiple
// of 0.013: for functions with kinks or ties, which a sample must not come near to.
[[nodiscard]] Tensor apart_values(const Shape& shape, DType dtype, std::int64_t salt);

// The shapes that find faults: scalar, unit, empty, prime sides, past a vector width, rank 8.
[[nodiscard]] const std::vector<Shape>& awkward_shapes();

// One sample of a function of one tensor for each awkward shape.
[[nodiscard]] std::vector<OpSample> unary_samples(DType dtype,
                                                  const std::function<Tensor(const Tensor&)>& op,
                                                  double low = -2, double high = 2);
// The same with apart_values.
[[nodiscard]] std::vector<OpSample> apart_samples(DType dtype,
                                                  const std::function<Tensor(const Tensor&)>& op);
// A sample at hand-picked points (kinks, ends of the domain).
[[nodiscard]] OpSample point_sample(DType dtype, const std::function<Tensor(const Tensor&)>& op,
                                    const std::vector<double>& points, std::string name,
                                    bool kink = false);
// Equal shapes, every kind of stretching, and a scalar on either side.
[[nodiscard]] std::vector<OpSample> binary_samples(
    DType dtype, const std::function<Tensor(const Tensor&, const Tensor&)>& op, double low_a = -2,
    double high_a = 2, double low_b = -2, double high_b = 2);

// Over all axes, one, several, and axes of size 0; of_nothing: also over an axis of size 0.
[[nodiscard]] std::vector<OpSample> reduction_samples(
    DType dtype, Tensor (*op)(const Tensor&, const Axes&, Reduced, CallSite), bool of_nothing);

// factories.cpp
OpEntry tensor_entry();
OpEntry zeros_entry();
OpEntry ones_entry();
OpEntry full_entry();
OpEntry arange_entry();
OpEntry randn_entry();
OpEntry uniform_entry();
// conversion.cpp
OpEntry cast_entry();
OpEntry detach_entry();
// arithmetic.cpp
OpEntry add_entry();
OpEntry sub_entry();
OpEntry mul_entry();
OpEntry div_entry();
OpEntry neg_entry();
OpEntry scale_entry();
OpEntry shift_entry();
// comparison.cpp
OpEntry equal_entry();
OpEntry not_equal_entry();
OpEntry less_entry();
OpEntry less_equal_entry();
OpEntry greater_entry();
OpEntry greater_equal_entry();
OpEntry logical_not_entry();
OpEntry logical_and_entry();
OpEntry logical_or_entry();
// power.cpp
OpEntry exp_entry();
OpEntry log_entry();
OpEntry sqrt_entry();
OpEntry pow_entry();
// sigmoid.cpp
OpEntry tanh_entry();
OpEntry sigmoid_entry();
OpEntry softplus_entry();
OpEntry silu_entry();
// gelu.cpp
OpEntry erf_entry();
OpEntry gelu_entry();
OpEntry gelu_tanh_entry();
// rectify.cpp
OpEntry maximum_entry();
OpEntry abs_entry();
OpEntry sign_entry();
OpEntry relu_entry();
OpEntry clamp_entry();
// select.cpp
OpEntry where_entry();
OpEntry masked_fill_entry();
// sum.cpp
OpEntry sum_entry();
OpEntry mean_entry();
// extremum.cpp
OpEntry max_entry();
OpEntry min_entry();
OpEntry argmax_entry();
// norm.cpp
OpEntry norm_entry();
OpEntry logsumexp_entry();
// reshape.cpp
OpEntry broadcast_to_entry();
OpEntry reshape_entry();
// permute.cpp
OpEntry permute_entry();
OpEntry transpose_entry();
// concat.cpp
OpEntry concat_entry();
OpEntry stack_entry();
// slice.cpp
OpEntry slice_entry();
OpEntry split_entry();
OpEntry pad_entry();
// one_hot.cpp
OpEntry one_hot_entry();
// embedding.cpp
OpEntry embedding_entry();
// gather.cpp
OpEntry gather_entry();
OpEntry scatter_add_entry();
// matmul.cpp
OpEntry matmul_entry();
// linear.cpp
OpEntry linear_entry();
// einsum.cpp
OpEntry einsum_entry();
// softmax.cpp
OpEntry softmax_entry();
OpEntry log_softmax_entry();
// layer_norm.cpp
OpEntry layer_norm_entry();
OpEntry rms_norm_entry();
// dropout.cpp
OpEntry dropout_entry();
// cross_entropy.cpp
OpEntry cross_entropy_entry();
OpEntry cross_entropy_sums_entry();
// mse.cpp
OpEntry mse_entry();
// binary_cross_entropy.cpp
OpEntry binary_cross_entropy_entry();
// masked_softmax.cpp
OpEntry masked_softmax_entry();
// attention_catalog.cpp
OpEntry attention_entry();
OpEntry attention_with_weights_entry();
OpEntry attention_steps_entry();
// rotate.cpp
OpEntry rotate_entry();
// heads.cpp
OpEntry split_heads_entry();
OpEntry merge_heads_entry();

}  // namespace tapehead::detail

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

// The shapes that find faults: scalar, unit, empty, prime sides, past a vector width.
[[nodiscard]] const std::vector<Shape>& awkward_shapes();

// One sample of a function of one tensor for each awkward shape.
[[nodiscard]] std::vector<OpSample> unary_samples(DType dtype,
                                                  const std::function<Tensor(const Tensor&)>& op,
                                                  double low = -2, double high = 2);
// A sample at hand-picked points (kinks, ends of the domain).
[[nodiscard]] OpSample point_sample(DType dtype, const std::function<Tensor(const Tensor&)>& op,
                                    const std::vector<double>& points, std::string name,
                                    bool kink = false);
// Equal shapes, every kind of stretching, and a scalar on either side.
[[nodiscard]] std::vector<OpSample> binary_samples(
    DType dtype, const std::function<Tensor(const Tensor&, const Tensor&)>& op, double low_a = -2,
    double high_a = 2, double low_b = -2, double high_b = 2);

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
// sum.cpp
OpEntry sum_entry();
OpEntry mean_entry();
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

}  // namespace tapehead::detail

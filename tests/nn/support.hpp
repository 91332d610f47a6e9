// What the tests of modules share: weights from fixtures, random inputs, readable comparisons.
#pragma once

#include <string>
#include <vector>

#include <tapehead/models.hpp>

#include "support/catch.hpp"
#include "support/fixture.hpp"

namespace test {

inline tapehead::Tensor random(const tapehead::Shape& shape, std::uint64_t seed,
                               tapehead::DType dtype = tapehead::DType::f32) {
  tapehead::Rng rng(seed, tapehead::Stream::check);
  return tapehead::randn(shape, rng, dtype);
}

inline tapehead::Tensor ids(const std::vector<std::int64_t>& values, const tapehead::Shape& shape) {
  return tapehead::tensor(std::span<const std::int64_t>(values), shape);
}

inline void check_close(const tapehead::Tensor& found, const tapehead::Tensor& wanted,
                        tapehead::Tolerance tolerance) {
  const tapehead::Comparison same = tapehead::compare(found, wanted, tolerance);
  INFO(same.message);
  CHECK(same.equal);
}

// 1e-12 relative in f64; 1e-5 in f32 with 1e-6 absolute, for numbers that cancel.
inline tapehead::Tolerance reference_tolerance(tapehead::DType dtype) {
  return dtype == tapehead::DType::f64 ? tapehead::Tolerance{1e-12, 1e-13}
                                       : tapehead::Tolerance{1e-5, 2e-6};
}

// Every parameter gets the fixture's tensor of the same name.
inline void load(tapehead::Params& params, const Fixture& fixture) {
  for (tapehead::Param param : params.all()) param.set(fixture.get(param.name(), params.dtype()));
}

// Compares the gradient of every parameter with the fixture's "<prefix>grad.<name>".
inline void check_gradients(const tapehead::Params& params, const tapehead::Gradients& gradients,
                            const Fixture& fixture, const std::string& prefix) {
  for (const tapehead::Param& param : params.all()) {
    INFO(param.name());
    CHECK(gradients.reached(param));
    check_close(gradients[param], fixture.get(prefix + "grad." + param.name(), params.dtype()),
                reference_tolerance(params.dtype()));
  }
}

// The rows [batch, from..to) of a sequence.
inline tapehead::Tensor rows(const tapehead::Tensor& x, std::int64_t batch, std::int64_t from,
                             std::int64_t to) {
  return tapehead::slice(tapehead::slice(x, 0, batch, batch + 1), 1, from, to);
}

}  // namespace test

// Catalog entries of the factories, which are declared with Tensor and live in core/.
#include <cmath>

#include "ops/catalog.hpp"

namespace tapehead::detail {
namespace {

// One sample without inputs for each awkward shape.
OpEntry factory(const char* name, const char* formula,
                const std::function<Tensor(const Shape&, DType)>& make) {
  return {name, "factory", formula, "none", false, true, [make](DType dtype) {
            std::vector<OpSample> samples;
            for (const Shape& shape : awkward_shapes()) {
              OpSample sample{to_string(shape), {}};
              sample.call = [=](const std::vector<Tensor>&) {
                return std::vector<Tensor>{make(shape, dtype)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace

OpEntry tensor_entry() {
  return factory("tensor", "y = the given numbers", [](const Shape& shape, DType dtype) {
    const std::vector<double> values(static_cast<std::size_t>(shape.size()), 0.25);
    return cast(tensor(std::span<const double>(values), shape), dtype);
  });
}
OpEntry zeros_entry() {
  return factory("zeros", "y = 0",
                 [](const Shape& shape, DType dtype) { return zeros(shape, dtype); });
}
OpEntry ones_entry() {
  return factory("ones", "y = 1",
                 [](const Shape& shape, DType dtype) { return ones(shape, dtype); });
}
OpEntry full_entry() {
  return factory("full", "y = c",
                 [](const Shape& shape, DType dtype) { return full(shape, -1.5, dtype); });
}
OpEntry arange_entry() {
  return factory("arange", "y_i = start + i step, before end", [](const Shape& shape, DType dtype) {
    return arange(0.5, 0.5 + static_cast<double>(shape.size()) / 4, 0.25, dtype);
  });
}
OpEntry randn_entry() {
  return factory("randn", "y = normal draws, mean 0, deviation 1",
                 [](const Shape& shape, DType dtype) {
                   Rng rng(5, Stream::check);
                   return randn(shape, rng, dtype);
                 });
}
OpEntry uniform_entry() {
  return factory("uniform", "y = draws from [low, high)", [](const Shape& shape, DType dtype) {
    Rng rng(6, Stream::check);
    return uniform(shape, rng, -1, 3, dtype);
  });
}

}  // namespace tapehead::detail

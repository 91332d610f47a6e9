// Whether a fused op is its composition of plain ops.
#pragma once

#include <tapehead/catalog.hpp>

namespace tapehead::detail {

// Largest difference over the largest magnitude, of the values and of the gradients under random
// cotangents; infinite when shapes differ.
struct Agreement {
  double value = 0;
  double gradient = 0;
};

// Of an f64 sample with a composition.
[[nodiscard]] Agreement compare_with_composition(const OpSample& sample);

}  // namespace tapehead::detail

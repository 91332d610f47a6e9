// The middle of a sample.
#pragma once

#include <algorithm>
#include <vector>

namespace tapehead::detail {

// Half way between the two middle ones of an even number; 0 of none.
[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace tapehead::detail

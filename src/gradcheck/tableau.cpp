#include "gradcheck/tableau.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapehead::detail {

void Tableau::add(double h, double g, double deviation) {
  const int k = rows_++;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  h_[at(k)] = h;
  variance_[at(k)] = deviation * deviation;
  const std::array<double, kMaxRows> above = row_;
  const std::array<Weights, kMaxRows> weights_above = weights_;
  if (k == 0) {
    best_ = {g, std::numeric_limits<double>::infinity(), deviation,
             std::numeric_limits<double>::infinity(), h};
  }
  row_[0] = g;
  weights_[0] = {};
  weights_[0][at(k)] = 1;
  const auto consider = [&](int m, double truncation) {
    double variance = 0;
    for (int l = 0; l <= k; ++l)
      variance += weights_[at(m)][at(l)] * weights_[at(m)][at(l)] * variance_[at(l)];
    // A double cannot hold the value more exactly than this.
    const double rounding =
        std::sqrt(variance) + std::numeric_limits<double>::epsilon() * std::abs(row_[at(m)]);
    if (truncation + rounding < best_.bar)
      best_ = {row_[at(m)], truncation, rounding, truncation + rounding, h};
  };
  if (k > 0) consider(0, std::abs(g - above[0]));
  for (int m = 1; m <= std::min(k, max_order_); ++m) {
    const double gain = 1 / (std::pow(h_[at(k - m)] / h, power_) - 1);
    row_[at(m)] = row_[at(m - 1)] + (row_[at(m - 1)] - above[at(m - 1)]) * gain;
    for (int l = 0; l <= k; ++l) {
      weights_[at(m)][at(l)] =
          weights_[at(m - 1)][at(l)] +
          (weights_[at(m - 1)][at(l)] - weights_above[at(m - 1)][at(l)]) * gain;
    }
    consider(m, std::max(std::abs(row_[at(m)] - row_[at(m - 1)]),
                         std::abs(row_[at(m)] - above[at(m - 1)])));
  }
}

}  // namespace tapehead::detail

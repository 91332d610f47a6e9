// Richardson extrapolation of a quantity g(h) to h = 0, with an error bar.
//
//   g(h) = g0 + a1 h^p + a2 h^2p + ...        p = 2 for central differences, 1 for one-sided ones
//   T[k][0] = g(h_k)
//   T[k][m] = T[k][m-1] + (T[k][m-1] - T[k-1][m-1]) / ((h_(k-m) / h_k)^p - 1)
//
// The textbook bar (Ridders 1982; Press et al., Numerical Recipes, "dfridr") is the larger
// difference between T[k][m] and its two parents. It measures truncation alone: at small steps two
// parents can agree by chance while both are off by rounding. So every entry also carries the
// rounding error that its weights w propagate, sqrt(sum_l w_l^2 s_l^2), where s_l is the standard
// deviation of g(h_l). The entry with the smallest sum of both is the answer.
#pragma once

#include <array>

namespace tapehead::detail {

struct Estimate {
  double value = 0;
  double truncation = 0;
  double rounding = 0;
  double bar = 0;   // truncation + rounding
  double step = 0;  // the smallest h behind it
};

class Tableau {
 public:
  static constexpr int kMaxRows = 12;

  explicit Tableau(int power, int max_order = kMaxRows) : power_(power), max_order_(max_order) {}

  void clear() { rows_ = 0; }
  // Steps must shrink from row to row. `deviation` is that of g.
  void add(double h, double g, double deviation);
  [[nodiscard]] int rows() const { return rows_; }
  // Of rows() >= 2.
  [[nodiscard]] const Estimate& best() const { return best_; }

 private:
  using Weights = std::array<double, kMaxRows>;

  int power_;
  int max_order_;
  int rows_ = 0;
  std::array<double, kMaxRows> h_{};
  std::array<double, kMaxRows> variance_{};
  std::array<double, kMaxRows> row_{};       // T[k][.]
  std::array<Weights, kMaxRows> weights_{};  // of T[k][.] over g(h_0 .. h_k)
  Estimate best_;
};

}  // namespace tapehead::detail

// The slope of a subject along one element or one direction, per cotangent, with an error bar.
#pragma once

#include <vector>

#include "gradcheck/subject.hpp"
#include "gradcheck/tableau.hpp"

namespace tapehead::detail {

struct Slope {
  Estimate estimate;
  double left = 0;
  double right = 0;
  bool kink = false;   // left and right differ at every scale that was tried
  bool known = false;  // finite values on both sides at some step
};

// Moves the subject: t = 0 is the base point.
class Probe {
 public:
  virtual ~Probe() = default;
  // Moves by t as nearly as doubles allow, and returns the displacement that was reached.
  virtual double go(double t) = 0;
  [[nodiscard]] virtual double scale()
      const = 0;  // t of the order at which the inputs themselves vary
};

class ElementProbe final : public Probe {
 public:
  ElementProbe(Subject& subject, std::size_t variable, std::int64_t index)
      : subject_(subject), variable_(variable), index_(index) {}
  double go(double t) override;
  [[nodiscard]] double scale() const override;

 private:
  Subject& subject_;
  std::size_t variable_;
  std::int64_t index_;
};

class DirectionProbe final : public Probe {
 public:
  DirectionProbe(Subject& subject, std::size_t variable, const std::vector<double>& direction)
      : subject_(subject), variable_(variable), direction_(direction) {}
  double go(double t) override;
  [[nodiscard]] double scale() const override { return 1; }

 private:
  Subject& subject_;
  std::size_t variable_;
  const std::vector<double>& direction_;
  std::vector<double> moved_;
};

// What the tape says, by which the search decides when it is exact enough; it never enters a value.
struct Claim {
  double slope = 0;
  double scale = 0;      // largest gradient in the tensor
  double tolerance = 0;  // relative to scale
  double bars = 5;
};

// Within the tolerance and the error bars.
[[nodiscard]] bool agrees(const Slope& slope, const Claim& claim);

// Several series of halving steps, from steps of the order of the inputs down, until every
// cotangent has a slope that is exact enough and agrees with its claim, or smaller steps can only
// add rounding error. `confirm`: look again at smaller steps before a disagreement is believed.
[[nodiscard]] std::vector<Slope> measure(Subject& subject, Probe& probe,
                                         const std::vector<Claim>& claims, bool confirm);

}  // namespace tapehead::detail

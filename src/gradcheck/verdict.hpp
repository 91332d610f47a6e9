// From slopes and the tape's gradients to a report.
#pragma once

#include <span>
#include <vector>

#include "gradcheck/slope.hpp"
#include "gradcheck/subject.hpp"

namespace tapehead::detail {

// Slopes of the elements (or directions) that were measured, of one variable.
struct Measured {
  std::vector<std::int64_t> elements;      // flat indices, or numbers of directions
  std::vector<std::vector<Slope>> slopes;  // [i][cotangent], in step with `elements`
};

// What the tape says for one variable and cotangent: by element, or by direction.
struct Claims {
  std::vector<double> slopes;  // in step with Measured::elements
  double largest = 0;          // in the whole tensor; along directions, what is typical
};

using AllClaims = std::vector<std::vector<Claims>>;  // [variable][cotangent]

// Gradients at the measured elements; or, given directions [variable][i], along those.
[[nodiscard]] AllClaims claims_of(const TapeSide& side, const std::vector<Measured>& measured,
                                  const std::vector<std::vector<std::vector<double>>>& directions);

[[nodiscard]] double along(std::span<const double> gradient, const std::vector<double>& direction);
[[nodiscard]] double largest_of(std::span<const double> gradient);  // of the finite ones
// "input0[3]: the tape says ..., differences say ..."
[[nodiscard]] std::string describe(const GradcheckElement& element);

// Words in lines of at most 100 columns.
[[nodiscard]] std::string folded(const std::vector<std::string>& words);

// Fills status, message, tensors, worst, histogram and counts.
void judge(GradcheckReport& report, const std::vector<Variable>& variables,
           const std::vector<Measured>& measured, const AllClaims& claims, bool depends,
           const GradcheckOptions& options);

// Which of two verdicts says more about the whole.
[[nodiscard]] GradcheckStatus graver(GradcheckStatus a, GradcheckStatus b);

}  // namespace tapehead::detail

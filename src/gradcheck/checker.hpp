// One check in its steps, so that the slopes can be measured once and compared with the gradients
// of several tapes: the right one and any number of planted faults.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gradcheck/subject.hpp"
#include "gradcheck/verdict.hpp"

namespace tapehead::detail {

class Checker {
 public:
  Checker(CheckedFunction function, const std::vector<Tensor>& inputs, Params* params,
          GradcheckOptions options);

  [[nodiscard]] GradcheckReport run();
  // After a run that got as far as comparing: the same slopes against other gradients. Nothing is
  // evaluated again.
  [[nodiscard]] GradcheckReport judged(const TapeSide& side) const;

  [[nodiscard]] const TapeSide& tape() const { return side_; }
  [[nodiscard]] const Subject& subject() const { return subject_; }

 private:
  void measure_all();
  [[nodiscard]] std::vector<Claim> claims_at(std::size_t variable, std::size_t i) const;
  [[nodiscard]] GradcheckReport judged(const TapeSide& side, const AllClaims& claims) const;
  // Fast mode: the element behind a direction that disagrees, by halving the direction. It is put
  // in front of the report's list.
  void name_element(GradcheckReport& report);
  [[nodiscard]] double disagreement(std::size_t variable, std::size_t cotangent,
                                    const std::vector<double>& direction);

  GradcheckOptions options_;
  Subject subject_;
  std::vector<std::vector<std::vector<double>>> directions_;  // [variable][i]; empty: elements
  TapeSide side_;
  std::vector<Measured> measured_;
  AllClaims claims_;
};

// "" when the call is sound, else what is wrong with it.
[[nodiscard]] std::string misuse(const TensorFunction& function, const std::vector<Tensor>& inputs,
                                 const Params* params, const GradcheckOptions& options);

}  // namespace tapehead::detail

// What is being checked: a function of f64 tensors and parameters that can be moved element by
// element, evaluated without a tape, and contracted with cotangents.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <tapehead/gradcheck.hpp>

namespace tapehead::detail {

// The function as the differences see it, and as the tape does: a vector-Jacobian product opens a
// plain tape of its own for the one, and is recorded on a differentiable tape for the other.
struct CheckedFunction {
  TensorFunction plain;
  std::function<std::vector<Tensor>(Tape&, const std::vector<Tensor>&)> recorded = {};  // or plain
};

struct Variable {
  std::string name;
  Shape shape;
  std::vector<double> base;  // its values, row-major
  double scale = 1;          // root mean square of them; 1 when all are 0
  int input = -1;            // index among the inputs, or -1
  Param param = {};
  std::int64_t moved = 0;  // of a parameter: the element that `move` moved last
};

// Gradients of the contraction of the outputs with each cotangent, as the tape sees them.
struct TapeSide {
  std::vector<std::vector<Tensor>> gradients;  // [cotangent][variable]
  std::vector<std::string> coverage;
  bool depends = true;    // false: no output was recorded
  double difference = 0;  // of recorded outputs from plain ones, relative to the largest
};

// Sum of c * (y(moved) - y(base)) per cotangent. Differencing each output before summing cancels
// exactly what did not change, so that rounding is that of the outputs that moved.
struct Contraction {
  std::vector<double> sums;
  // Rounding of one evaluation of the outputs that have moved since begin_search(): one that a
  // small step leaves where it is may be held there by rounding.
  std::vector<double> variances;
  bool finite = true;
};

class Subject {
 public:
  Subject(CheckedFunction function, std::vector<Tensor> inputs, Params* params,
          const GradcheckOptions& options);
  ~Subject();  // puts every parameter back
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  [[nodiscard]] const std::vector<Variable>& variables() const { return variables_; }
  [[nodiscard]] std::int64_t evaluations() const { return evaluations_; }
  [[nodiscard]] int cotangents() const { return cotangents_; }

  // Evaluates at the base point, draws the cotangents. "" or why the check must stop here.
  struct Stop {
    GradcheckStatus status = GradcheckStatus::pass;
    std::string message;
  };
  [[nodiscard]] Stop prepare();
  // Floating outputs at the base point, one after the other.
  [[nodiscard]] const std::vector<double>& outputs() const { return base_; }
  // Rounding error of each output, from 8 evaluations a few thousand ulps apart.
  void measure_noise();
  static constexpr std::size_t kNoisePoints = 9;
  [[nodiscard]] std::vector<std::vector<double>> along_line(double length);
  // Whether the base point still gives the same bits.
  [[nodiscard]] bool same_as_before();

  void move(std::size_t variable, std::int64_t index, double value);
  void move_all(std::size_t variable, std::span<const double> values);
  void restore(std::size_t variable);
  // The next calls of contract() belong to one element or direction.
  void begin_search();
  // Evaluates where the variables stand now.
  void contract(Contraction& result);

  // The hooks are those of TapeOptions.
  [[nodiscard]] TapeSide tape_side(const GradientHook& gradient,
                                   const GradientHook& arrival = nullptr) const;

 private:
  [[nodiscard]] std::vector<Tensor> evaluate();
  [[nodiscard]] std::vector<double> flatten(const std::vector<Tensor>& outputs) const;

  CheckedFunction function_;
  std::vector<Tensor> inputs_;  // as given
  std::vector<Tensor> moved_;   // what the function is called with
  Params* params_;
  bool infinite_outputs_;
  int cotangents_;
  std::uint64_t seed_;
  bool whole_;  // all elements of a tensor move together
  std::vector<Variable> variables_;
  std::vector<double> base_;                    // floating outputs at the base point
  std::vector<double> epsilon_;                 // unit of rounding of each output
  std::vector<std::vector<double>> cotangent_;  // [cotangent][output]; 0 where y is infinite
  std::vector<std::vector<double>> variance_;   // [cotangent][output]: (c * noise)^2
  std::vector<bool> reached_;                   // outputs that moved since begin_search()
  std::vector<long double> sums_;
  std::int64_t evaluations_ = 0;
};

// Largest |a - b| over the largest |b|; infinite for other sizes. Equal infinities differ by 0.
[[nodiscard]] double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

// "name[3,17]", or the name alone for a scalar.
[[nodiscard]] std::string element_name(const std::string& name, const Shape& shape,
                                       std::int64_t index);
[[nodiscard]] inline std::string element_name(const Variable& variable, std::int64_t index) {
  return element_name(variable.name, variable.shape, index);
}

}  // namespace tapehead::detail

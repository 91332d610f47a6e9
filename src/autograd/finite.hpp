// What a tape with check_finite remembers: the range of every output and input.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <tapehead/tensor.hpp>

namespace tapehead::detail {

struct Range {
  std::int64_t size = 0;
  std::int64_t nans = 0;
  std::int64_t above = 0;                                  // +inf
  std::int64_t below = 0;                                  // -inf
  double least = std::numeric_limits<double>::infinity();  // of the finite ones
  double most = -std::numeric_limits<double>::infinity();

  [[nodiscard]] bool finite() const { return nans + above + below == 0; }
};

// Of a floating tensor; other dtypes have no numbers that are not finite.
[[nodiscard]] Range range_of(const Tensor& x);
// "-1.5 .. 2", "all 3", "-1 .. 2, 4 of 12 NaN, 1 of 12 -inf", "empty"
[[nodiscard]] std::string to_string(const Range& range);

struct Finite {
  struct Input {
    std::int32_t node;  // -1: a constant
    Shape shape;
    DType dtype;
    Range range;
  };
  // What an op may rightly do: see Recorder.
  struct Allowed {
    double infinity;
    bool turns_signs;
  };

  // One node, as far as it was recorded with numbers in sight.
  struct Seen {
    Range output;
    std::int32_t first = 0;  // of its inputs in `inputs`
    std::int32_t count = 0;
  };

  std::vector<Seen> nodes;
  std::vector<Input> inputs;
  std::vector<Input> open;    // of ops that are being recorded, the newest last
  std::int32_t walking = -1;  // node whose gradient functions are running

  // Puts the last `count` open inputs and the output on record.
  void close(std::int32_t node, int count, const Range& output);
  [[nodiscard]] std::vector<Input> inputs_of(std::int32_t node) const;
  [[nodiscard]] Range output_of(std::int32_t node) const;
};

// Which numbers are a fault.
struct Fault {
  bool nan = false;
  bool above = false;
  bool below = false;
  [[nodiscard]] bool any() const { return nan || above || below; }
};
[[nodiscard]] Fault output_fault(const Range& output, const std::vector<Finite::Input>& inputs,
                                 Finite::Allowed allowed);
[[nodiscard]] Fault gradient_fault(const Range& gradient);
// "NaN at 2 of 6 elements, the first at [0, 1]"
[[nodiscard]] std::string describe(const Fault& fault, const Tensor& x);

}  // namespace tapehead::detail

// gradcheck: are the gradients right? Every element against central differences with an error bar.
//
//   th::GradcheckReport report = th::gradcheck(
//       [](const std::vector<th::Tensor>& in) { return std::vector{th::softmax(in[0])}; }, {x});
//   if (!report.passed()) std::puts(to_string(report).c_str());
//
// The function is evaluated in f64 at shrinking steps around each element; Richardson extrapolation
// gives the slope and an estimate of its own error, of truncation and of rounding both. Outputs are
// contracted with fixed random cotangents, never with a plain sum.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tapehead/params.hpp>
#include <tapehead/tape.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead {

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// The numbers are also the exit statuses of `tapehead gradcheck`.
enum class GradcheckStatus : std::uint8_t {
  pass = 0,
  mismatch = 1,         // an element of the tape's gradient is wrong
  misused = 2,          // f32 inputs, no inputs, a tape alive: nothing was checked
  kink = 3,             // left and right slopes differ and the tape's gradient lies between
  not_repeatable = 4,   // two evaluations at the same point gave different numbers
  nothing_checked = 5,  // the function depends on none of its inputs, or nothing was compared
  not_finite = 6,       // NaN or infinity in an output or a gradient
};
[[nodiscard]] const char* name_of(GradcheckStatus status);  // "pass", "mismatch", ...

struct GradcheckOptions {
  std::string name = "function";
  std::vector<std::string> input_names = {};  // default: input0, input1, ...
  // Allowed error, relative to the largest gradient in the same tensor (in the whole function where
  // that tensor's gradient is 0), on top of `bars` error bars.
  double tolerance = 1e-9;
  double bars = 5;
  // Random directions in place of single elements: the cost does not grow with the sizes.
  bool fast = false;
  int directions = 4;  // per tensor, in fast mode
  int cotangents = 2;  // at least 2
  std::uint64_t seed = 0;
  bool kinks_expected = false;         // then kinks pass
  bool infinite_outputs = false;       // outputs may be infinite; those are left out
  std::vector<std::string> only = {};  // paths of inputs and parameters; empty: all
  std::int64_t stripe = 0;             // checks elements i with i % stripes == stripe
  std::int64_t stripes = 1;
  int worst = 10;                        // elements listed in the report
  GradientHook gradient_hook = nullptr;  // handed to the tape: plants faults
};

enum class ElementVerdict : std::uint8_t {
  pass,
  mismatch,
  kink,
  unresolved,  // the error bar is too wide to compare anything
  not_finite,
};
[[nodiscard]] const char* name_of(ElementVerdict verdict);

// One compared element (or, in fast mode, one direction).
struct GradcheckElement {
  std::string name;  // "encoder.layers.0.attention.query.weight[3,17]"
  int cotangent = 0;
  ElementVerdict verdict = ElementVerdict::pass;
  double tape = 0;      // what the tape says
  double numeric = 0;   // what the differences say
  double bar = 0;       // estimated error of `numeric`
  double error = 0;     // |tape - numeric|
  double relative = 0;  // error over the largest gradient; see GradcheckOptions::tolerance
  double ratio = 0;     // error / bar
  double step = 0;      // smallest step behind `numeric`
  double left = 0;      // slopes on either side
  double right = 0;
};

// The order of GradcheckReport::worst: by verdict, then by relative error.
[[nodiscard]] bool worse(const GradcheckElement& a, const GradcheckElement& b);

// One input or parameter. Counts are over elements and cotangents.
struct GradcheckTensor {
  std::string name;
  Shape shape;
  std::int64_t compared = 0;
  std::int64_t mismatches = 0;
  std::int64_t kinks = 0;
  std::int64_t unresolved = 0;
  std::int64_t zeros = 0;                    // true gradient 0: compared absolutely
  std::int64_t wide = 0;                     // compared, but the bar is wider than the tolerance
  double largest = 0;                        // largest gradient
  double worst_relative = 0;                 // worst error over the largest gradient
  double widest_relative = 0;                // widest bar over the largest gradient
  std::vector<std::string> zero_names = {};  // the first ten of `zeros`
};

// Errors by decade: [0] exactly 0, [i] below 10^(i - 18), the last everything above.
using GradcheckHistogram = std::array<std::int64_t, 20>;

struct GradcheckReport {
  std::string name;
  GradcheckStatus status = GradcheckStatus::nothing_checked;
  std::string message;  // one or two sentences: what was found and what to do
  bool fast = false;
  double tolerance = 0;
  std::vector<GradcheckTensor> tensors;
  std::vector<GradcheckElement> worst;  // verdict first, then by relative error
  GradcheckHistogram histogram{};       // of relative errors
  std::int64_t compared = 0;
  std::int64_t within_one_bar = 0;
  std::int64_t within_three_bars = 0;
  std::vector<std::string> coverage;  // names of the ops on the tape, sorted
  std::int64_t evaluations = 0;
  double seconds = 0;

  [[nodiscard]] bool passed() const { return status == GradcheckStatus::pass; }
  [[nodiscard]] double worst_relative() const;
};

// Text for people: verdict, table of tensors, worst elements, histogram, coverage.
[[nodiscard]] std::string to_string(const GradcheckReport& report);
// Stripes of one check put together.
[[nodiscard]] GradcheckReport merged(const std::vector<GradcheckReport>& stripes);

// Checks the gradients of `function` by its floating inputs, which must be f64; others (ids, masks)
// stay as they are. The function must be pure. What it throws passes through.
[[nodiscard]] GradcheckReport gradcheck(const TensorFunction& function,
                                        const std::vector<Tensor>& inputs,
                                        const GradcheckOptions& options = {});
// The same by inputs and by the parameters of a store, which `function` uses through its modules.
// Parameters are moved and put back bit by bit.
[[nodiscard]] GradcheckReport gradcheck(const TensorFunction& function,
                                        const std::vector<Tensor>& inputs, Params& params,
                                        const GradcheckOptions& options = {});
// The same for a function of one tensor.
[[nodiscard]] GradcheckReport gradcheck(const std::function<Tensor(const Tensor&)>& function,
                                        const Tensor& input, const GradcheckOptions& options = {});

// The same for second derivatives: checks the gradients of (x, c) -> (gradients of sum c * f(x) by
// x and by the parameters, and f(x) itself), where c is a random cotangent. The differences use
// plain tapes and fused kernels, the tape side a differentiable tape and compositions of plain ops:
// so it also shows that both agree in value and gradient. Not for functions with kinks.
[[nodiscard]] GradcheckReport gradgradcheck(const TensorFunction& function,
                                            const std::vector<Tensor>& inputs,
                                            const GradcheckOptions& options = {});
[[nodiscard]] GradcheckReport gradgradcheck(const TensorFunction& function,
                                            const std::vector<Tensor>& inputs, Params& params,
                                            const GradcheckOptions& options = {});

// Derivatives of a function of one tensor, by its tape. Indices run over elements in row-major
// order. The function may not be called while a tape of the caller's is alive.
using UnaryFunction = std::function<Tensor(const Tensor&)>;

// J[i, j] = dy_i / dx_j: [y.size(), x.size()], one walk back per output element.
[[nodiscard]] Tensor jacobian(const UnaryFunction& f, const Tensor& x);
// H[i, j] = d^2 y / dx_i dx_j of a scalar y: [x.size(), x.size()], one walk back per row.
[[nodiscard]] Tensor hessian(const UnaryFunction& f, const Tensor& x);
// H v of a scalar y, without H; v and the result have the shape of x.
[[nodiscard]] Tensor hvp(const UnaryFunction& f, const Tensor& x, const Tensor& v);
// J v, in the shape of y: the vector-Jacobian product c J is linear in c, and its own
// vector-Jacobian product by v is J v.
[[nodiscard]] Tensor jvp(const UnaryFunction& f, const Tensor& x, const Tensor& v);

// Who influences whom: an f64 matrix [x.dim(x_axis), y.dim(y_axis)] whose element [i, j] is exactly
// 0 when what stands at position i of x's axis does not reach position j of y's. With both axes the
// batch, all but the diagonal has to be 0; with both the time of a causal model, all below it.
//   floating x: the largest gradient, by x at i, of a fixed random mix of y at j. One walk back for
//               each j, by the kernels that training uses.
//   ids (i64):  the largest change of y at j when every id at i is exchanged for the next one that
//               occurs in x. One call for each i, compared bit by bit: sees what no gradient does.
// The function must be pure and, for floating x, depend on x (TapeError).
[[nodiscard]] Tensor influence(const UnaryFunction& f, const Tensor& x, int x_axis, int y_axis);

}  // namespace tapehead

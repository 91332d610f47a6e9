#include <fmt/format.h>

#include <tapehead/gradcheck.hpp>
#include <tapehead/ops.hpp>

#include "gradcheck/checker.hpp"

namespace tapehead {

namespace {

using Tensors = std::vector<Tensor>;

// (x, c) -> gradients of sum c * f(x) by the floating ones of x and by the parameters, and the
// floating outputs of f.
class Pullback {
 public:
  Pullback(TensorFunction function, std::size_t inputs, std::vector<Param> params)
      : function_(std::move(function)), inputs_(inputs), params_(std::move(params)) {}

  // On a tape where the inputs are watched already.
  Tensors on(Tape& tape, const Tensors& in) const {
    const Tensors xs(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(inputs_));
    Tensors ys;
    bool recorded = false;
    for (const Tensor& y : function_(xs)) {
      if (!is_floating(y.dtype())) continue;
      recorded = recorded || y.tape_id() == tape.id();
      ys.push_back(y);
    }
    const Tensors cs(in.begin() + static_cast<std::ptrdiff_t>(inputs_), in.end());
    Tensors results;
    const Gradients gradients = recorded ? tape.backward(ys, cs) : Gradients();
    for (const Tensor& x : xs) {
      if (!is_floating(x.dtype())) continue;
      results.push_back(recorded ? gradients[x] : zeros(x.shape(), x.dtype()));
    }
    for (const Param& p : params_)
      results.push_back(recorded ? gradients[p] : zeros(p.shape(), p.dtype()));
    results.insert(results.end(), ys.begin(), ys.end());
    return results;
  }

  // On a plain tape of its own, by constants: fused kernels and their gradient kernels.
  Tensors plain(const Tensors& in) const {
    Tape tape;
    Tensors watched = in;
    for (std::size_t i = 0; i < inputs_; ++i) {
      if (is_floating(watched[i].dtype())) watched[i] = tape.watch(watched[i]);
    }
    Tensors results = on(tape, watched);
    for (Tensor& r : results) r = detach(r);
    return results;
  }

 private:
  TensorFunction function_;
  std::size_t inputs_;
  std::vector<Param> params_;
};

GradcheckReport check(const TensorFunction& function, const Tensors& inputs, Params* params,
                      GradcheckOptions options) {
  GradcheckReport report;
  report.name = options.name;
  report.status = GradcheckStatus::misused;
  report.message = detail::misuse(function, inputs, params, options);
  if (!report.message.empty()) return report;
  Tensors in;
  for (const Tensor& x : inputs) in.push_back(detach(x));
  const std::size_t count = in.size();
  options.input_names.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (options.input_names[i].empty()) options.input_names[i] = fmt::format("input{}", i);
  }
  int number = 0;
  for (const Tensor& y : function(in)) {
    if (!is_floating(y.dtype())) continue;
    if (y.dtype() != DType::f64) {
      report.message =
          fmt::format("output {} is f32: second derivatives are checked in f64", number);
      return report;
    }
    Rng rng =
        Rng(options.seed, Stream::check).fork("output").fork(static_cast<std::uint64_t>(number));
    in.push_back(uniform(y.shape(), rng, -1.5, 1.5, DType::f64));
    options.input_names.push_back(fmt::format("cotangent{}", number++));
  }
  std::vector<Param> trained;
  for (int p = 0; params != nullptr && p < params->count(); ++p) {
    if (!(*params)[p].frozen()) trained.push_back((*params)[p]);
  }
  const Pullback pullback(function, count, std::move(trained));
  detail::CheckedFunction checked;
  checked.plain = [&](const Tensors& x) { return pullback.plain(x); };
  checked.recorded = [&](Tape& tape, const Tensors& x) { return pullback.on(tape, x); };
  return detail::Checker(std::move(checked), in, params, std::move(options)).run();
}

}  // namespace

GradcheckReport gradgradcheck(const TensorFunction& function, const Tensors& inputs,
                              const GradcheckOptions& options) {
  return check(function, inputs, nullptr, options);
}

GradcheckReport gradgradcheck(const TensorFunction& function, const Tensors& inputs, Params& params,
                              const GradcheckOptions& options) {
  return check(function, inputs, &params, options);
}

}  // namespace tapehead

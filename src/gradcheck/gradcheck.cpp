#include <tapehead/gradcheck.hpp>

#include "gradcheck/checker.hpp"

namespace tapehead {

namespace {

GradcheckReport check(const TensorFunction& function, const std::vector<Tensor>& inputs,
                      Params* params, const GradcheckOptions& options) {
  if (std::string wrong = detail::misuse(function, inputs, params, options); !wrong.empty()) {
    GradcheckReport report;
    report.name = options.name;
    report.status = GradcheckStatus::misused;
    report.message = std::move(wrong);
    return report;
  }
  return detail::Checker({function}, inputs, params, options).run();
}

}  // namespace

GradcheckReport gradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  return check(function, inputs, nullptr, options);
}

GradcheckReport gradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                          Params& params, const GradcheckOptions& options) {
  return check(function, inputs, &params, options);
}

GradcheckReport gradcheck(const std::function<Tensor(const Tensor&)>& function, const Tensor& input,
                          const GradcheckOptions& options) {
  TensorFunction wrapped;
  if (function) {
    wrapped = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{function(in[0])}; };
  }
  return check(wrapped, {input}, nullptr, options);
}

}  // namespace tapehead

#include "gradcheck/verdict.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/access.hpp"

namespace tapehead {

const char* name_of(GradcheckStatus status) {
  switch (status) {
    case GradcheckStatus::pass: return "pass";
    case GradcheckStatus::mismatch: return "mismatch";
    case GradcheckStatus::misused: return "misused";
    case GradcheckStatus::kink: return "kink";
    case GradcheckStatus::not_repeatable: return "not repeatable";
    case GradcheckStatus::nothing_checked: return "nothing checked";
    case GradcheckStatus::not_finite: break;
  }
  return "not finite";
}

const char* name_of(ElementVerdict verdict) {
  switch (verdict) {
    case ElementVerdict::pass: return "pass";
    case ElementVerdict::mismatch: return "mismatch";
    case ElementVerdict::kink: return "kink";
    case ElementVerdict::unresolved: return "unresolved";
    case ElementVerdict::not_finite: break;
  }
  return "not finite";
}

bool worse(const GradcheckElement& a, const GradcheckElement& b) {
  const auto rank = [](ElementVerdict verdict) {
    switch (verdict) {
      case ElementVerdict::not_finite: return 4;
      case ElementVerdict::mismatch: return 3;
      case ElementVerdict::kink: return 2;
      case ElementVerdict::unresolved: return 1;
      case ElementVerdict::pass: break;
    }
    return 0;
  };
  const int rank_a = rank(a.verdict);
  const int rank_b = rank(b.verdict);
  return rank_a != rank_b ? rank_a > rank_b : a.relative > b.relative;
}

double GradcheckReport::worst_relative() const {
  double worst_error = 0;
  for (const GradcheckTensor& tensor : tensors)
    worst_error = std::max(worst_error, tensor.worst_relative);
  return worst_error;
}

namespace detail {

namespace {

// A bar wider than this part of the largest gradient compares nothing.
constexpr double kWidestBar = 1e-3;
constexpr std::size_t kZeroNames = 10;

std::string name_in(const Variable& variable, std::int64_t index, bool fast) {
  return fast ? fmt::format("{} (direction {})", variable.name, index)
              : element_name(variable, index);
}

struct Scales {
  std::vector<std::vector<double>> tensor;  // [variable][cotangent]
};

bool looks_zero(const Slope& s) {
  return s.known && std::abs(s.estimate.value) <= 3 * s.estimate.bar;
}

// The largest gradient of each tensor; of the whole function where the tensor's true one is 0.
Scales scales_of(const std::vector<Measured>& measured, const AllClaims& claims) {
  Scales scales;
  const std::size_t cotangents = claims.empty() ? 0 : claims[0].size();
  std::vector<double> whole(cotangents, 0);
  std::vector<std::vector<bool>> zero;
  for (std::size_t v = 0; v < measured.size(); ++v) {
    scales.tensor.emplace_back(cotangents, 0.0);
    zero.emplace_back(cotangents, true);
    for (std::size_t k = 0; k < cotangents; ++k) {
      double& largest = scales.tensor[v][k];
      largest = claims[v][k].largest;
      for (const std::vector<Slope>& slopes : measured[v].slopes) {
        const Slope& s = slopes[k];
        if (!s.known) continue;
        if (!looks_zero(s)) zero[v][k] = false;
        if (s.estimate.bar < 0.1 * std::abs(s.estimate.value))
          largest = std::max(largest, std::abs(s.estimate.value));
      }
      whole[k] = std::max(whole[k], largest);
    }
  }
  for (std::size_t v = 0; v < measured.size(); ++v) {
    for (std::size_t k = 0; k < cotangents; ++k) {
      if (zero[v][k] || scales.tensor[v][k] == 0) scales.tensor[v][k] = whole[k];
    }
  }
  return scales;
}

class Judge {
 public:
  Judge(GradcheckReport& report, const GradcheckOptions& options)
      : report_(report), options_(options) {}

  // `name` makes the element's name, which most elements never need.
  template <class Name>
  void element(GradcheckTensor& tensor, const Name& name, int cotangent, const Slope& slope,
               double tape, double scale) {
    GradcheckElement e;
    e.cotangent = cotangent;
    e.tape = tape;
    e.numeric = slope.estimate.value;
    e.bar = slope.estimate.bar;
    e.step = slope.estimate.step;
    e.left = slope.left;
    e.right = slope.right;
    e.error = std::abs(e.tape - e.numeric);
    // Without any gradient there is nothing to be relative to: rounding is 0, anything else is not.
    const bool rounding = e.error <= options_.bars * e.bar;
    e.relative = scale > 0 ? e.error / scale : rounding ? 0 : HUGE_VAL;
    e.ratio = e.bar > 0 ? e.error / e.bar : e.error > 0 ? HUGE_VAL : 0;
    e.verdict = verdict(slope, e, scale);
    count(tensor, e, slope, scale, name);
    keep(std::move(e), name);
  }

  [[nodiscard]] std::int64_t not_finite() const { return not_finite_; }
  [[nodiscard]] bool any_slope() const { return any_slope_; }  // some slope is different from 0

 private:
  ElementVerdict verdict(const Slope& slope, const GradcheckElement& e, double scale) const {
    if (!std::isfinite(e.tape)) return ElementVerdict::not_finite;
    if (!slope.known) return ElementVerdict::unresolved;
    const double allowed = options_.tolerance * scale + options_.bars * e.bar;
    if (slope.kink) {
      // A direction crosses the kinks of many elements, of which some may lean left and some right:
      // between says nothing there.
      const bool between = options_.fast || (e.tape >= std::min(e.left, e.right) - allowed &&
                                             e.tape <= std::max(e.left, e.right) + allowed);
      return between ? ElementVerdict::kink : ElementVerdict::mismatch;
    }
    if (e.error > allowed) return ElementVerdict::mismatch;
    if (scale > 0 && e.bar > kWidestBar * scale) return ElementVerdict::unresolved;
    return ElementVerdict::pass;
  }

  template <class Name>
  void count(GradcheckTensor& tensor, const GradcheckElement& e, const Slope& slope, double scale,
             const Name& name) {
    switch (e.verdict) {
      case ElementVerdict::kink: ++tensor.kinks; return;
      case ElementVerdict::unresolved: ++tensor.unresolved; return;
      case ElementVerdict::not_finite: ++not_finite_; return;
      case ElementVerdict::mismatch: ++tensor.mismatches; break;
      case ElementVerdict::pass: break;
    }
    ++tensor.compared;
    ++report_.compared;
    tensor.worst_relative = std::max(tensor.worst_relative, e.relative);
    if (scale > 0) tensor.widest_relative = std::max(tensor.widest_relative, e.bar / scale);
    if (scale > 0 && e.bar > options_.tolerance * scale) ++tensor.wide;
    if (looks_zero(slope)) {
      any_slope_ = any_slope_ || e.numeric != 0 || e.tape != 0;
      ++tensor.zeros;
      if (e.cotangent == 0 && tensor.zero_names.size() < kZeroNames)
        tensor.zero_names.push_back(name());
    } else {
      any_slope_ = true;
    }
    if (e.ratio <= 1) ++report_.within_one_bar;
    if (e.ratio <= 3) ++report_.within_three_bars;
    ++report_.histogram[bucket(e.relative)];
  }

  static std::size_t bucket(double relative) {
    if (relative == 0) return 0;
    const double decade = std::floor(std::log10(relative)) + 1;  // relative < 10^decade
    return static_cast<std::size_t>(std::clamp(decade + 18, 1.0, 19.0));
  }

  template <class Name>
  void keep(GradcheckElement e, const Name& name) {
    std::vector<GradcheckElement>& worst = report_.worst;
    const auto wanted = static_cast<std::size_t>(std::max(options_.worst, 1));
    if (worst.size() >= wanted && !worse(e, worst.back())) return;
    e.name = name();
    worst.insert(std::upper_bound(worst.begin(), worst.end(), e, worse), std::move(e));
    if (worst.size() > wanted) worst.pop_back();
  }

  GradcheckReport& report_;
  const GradcheckOptions& options_;
  std::int64_t not_finite_ = 0;
  bool any_slope_ = false;
};

// Along random signs the slope is of the order of the root of the summed squares.
double typical(std::span<const double> g, const std::vector<std::vector<double>>& directions) {
  double largest = 0;
  for (const std::vector<double>& direction : directions) {
    double sum = 0;
    for (std::size_t i = 0; i < g.size(); ++i) sum += g[i] * direction[i] * (g[i] * direction[i]);
    if (std::isfinite(sum)) largest = std::max(largest, std::sqrt(sum));
  }
  return largest;
}

}  // namespace

std::string describe(const GradcheckElement& e) {
  return fmt::format(
      "{}: the tape says {:.17g}, differences say {:.17g} +- {:.1e} (step {:.1e}, cotangent {})",
      e.name, e.tape, e.numeric, e.bar, e.step, e.cotangent);
}

double along(std::span<const double> g, const std::vector<double>& direction) {
  long double sum = 0;
  for (std::size_t i = 0; i < g.size(); ++i)
    sum += static_cast<long double>(g[i]) * static_cast<long double>(direction[i]);
  return static_cast<double>(sum);
}

double largest_of(std::span<const double> g) {
  double largest = 0;
  for (const double v : g) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  return largest;
}

AllClaims claims_of(const TapeSide& side, const std::vector<Measured>& measured,
                    const std::vector<std::vector<std::vector<double>>>& directions) {
  AllClaims all;
  for (std::size_t v = 0; v < measured.size(); ++v) {
    std::vector<Claims> of_variable;
    for (const std::vector<Tensor>& gradients : side.gradients) {
      const std::span<const double> g = gradients[v].data<double>();
      Claims claims;
      for (const std::int64_t i : measured[v].elements) {
        const auto at = static_cast<std::size_t>(i);
        claims.slopes.push_back(directions.empty() ? g[at] : along(g, directions[v][at]));
      }
      claims.largest = directions.empty() ? largest_of(g) : typical(g, directions[v]);
      of_variable.push_back(std::move(claims));
    }
    all.push_back(std::move(of_variable));
  }
  return all;
}

void judge(GradcheckReport& report, const std::vector<Variable>& variables,
           const std::vector<Measured>& measured, const AllClaims& claims, bool depends,
           const GradcheckOptions& options) {
  Judge judge(report, options);
  const Scales scales = scales_of(measured, claims);
  std::int64_t kinks = 0;
  std::int64_t mismatches = 0;
  std::string uncompared;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    GradcheckTensor tensor;
    tensor.name = variables[v].name;
    tensor.shape = variables[v].shape;
    for (std::size_t k = 0; k < claims[v].size(); ++k) {
      tensor.largest = std::max(tensor.largest, claims[v][k].largest);
      for (std::size_t i = 0; i < measured[v].elements.size(); ++i) {
        const auto name = [&] {
          return name_in(variables[v], measured[v].elements[i], options.fast);
        };
        judge.element(tensor, name, static_cast<int>(k), measured[v].slopes[i][k],
                      claims[v][k].slopes[i], scales.tensor[v][k]);
      }
    }
    kinks += tensor.kinks;
    mismatches += tensor.mismatches;
    if (tensor.compared + tensor.kinks == 0 && !measured[v].elements.empty() && uncompared.empty())
      uncompared = tensor.name;
    report.tensors.push_back(std::move(tensor));
  }
  const auto set = [&](GradcheckStatus status, std::string message) {
    report.status = status;
    report.message = std::move(message);
  };
  const std::string worst = report.worst.empty() ? "" : describe(report.worst.front());
  if (judge.not_finite() > 0) {
    set(GradcheckStatus::not_finite,
        fmt::format("{} gradients are NaN or infinite; first {}", judge.not_finite(), worst));
  } else if (mismatches > 0) {
    set(GradcheckStatus::mismatch,
        fmt::format("{} of {} gradients differ; worst {}", mismatches, report.compared, worst));
  } else if (kinks > 0 && !options.kinks_expected) {
    const GradcheckElement& e = report.worst.front();
    set(GradcheckStatus::kink,
        fmt::format("not differentiable at {}: the slope is {:.6g} on the left and {:.6g} on the "
                    "right, the tape's {:.6g} {} ({} such {}); move the input off the kink, or "
                    "declare it as expected",
                    e.name, e.left, e.right, e.tape,
                    options.fast ? "cannot be judged along a direction" : "lies between", kinks,
                    options.fast ? "directions" : "elements"));
  } else if (report.compared == 0) {
    set(GradcheckStatus::nothing_checked,
        kinks == 0 ? "nothing was compared: no input has an element whose slope could be measured"
                   : fmt::format("nothing was compared: all slopes that could be measured are at a "
                                 "kink ({})",
                                 kinks));
  } else if (!uncompared.empty()) {
    set(GradcheckStatus::nothing_checked,
        fmt::format("nothing was compared in {}: its error bars are wider than its gradients",
                    uncompared));
  } else if (!judge.any_slope() && kinks == 0) {
    set(GradcheckStatus::nothing_checked,
        depends ? "the function depends on none of its inputs: every slope is 0"
                : "the function depends on none of its inputs: nothing was recorded on the tape "
                  "and every slope is 0");
  } else {
    set(GradcheckStatus::pass,
        fmt::format("{} gradients agree; worst error {:.1e} of the largest in its tensor",
                    report.compared, report.worst_relative()));
  }
}

GradcheckStatus graver(GradcheckStatus a, GradcheckStatus b) {
  const auto gravity = [](GradcheckStatus status) {
    switch (status) {
      case GradcheckStatus::misused: return 6;
      case GradcheckStatus::not_finite: return 5;
      case GradcheckStatus::not_repeatable: return 4;
      case GradcheckStatus::mismatch: return 3;
      case GradcheckStatus::kink: return 2;
      case GradcheckStatus::nothing_checked: return 1;
      case GradcheckStatus::pass: break;
    }
    return 0;
  };
  return gravity(b) > gravity(a) ? b : a;
}

}  // namespace detail
}  // namespace tapehead

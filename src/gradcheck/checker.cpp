#include "gradcheck/checker.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/ops.hpp>

#include "autograd/tape_state.hpp"

namespace tapehead::detail {

namespace {

// A disagreement costs ten times an agreement to confirm; past this many, the case is clear.
constexpr int kConfirmations = 50;

// What is recorded may be computed in another order, but it is the same function.
constexpr double kSameFunction = 1e-11;

std::vector<Tensor> off_tape(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> detached;
  for (const Tensor& x : inputs) detached.push_back(x.defined() ? detach(x) : x);
  return detached;
}

// Directions that move every element by something of the order of its tensor: magnitudes in
// [0.5, 1.5) of the scale with random signs.
std::vector<std::vector<double>> random_directions(const Variable& variable, int count,
                                                   std::uint64_t seed) {
  std::vector<std::vector<double>> directions;
  for (int d = 0; d < count && !variable.base.empty(); ++d) {
    Rng rng = Rng(seed, Stream::check).fork(variable.name).fork(static_cast<std::uint64_t>(d));
    std::vector<double> direction;
    for (std::size_t i = 0; i < variable.base.size(); ++i)
      direction.push_back(variable.scale * rng.uniform(0.5, 1.5) * (rng.bernoulli(0.5) ? 1 : -1));
    directions.push_back(std::move(direction));
  }
  return directions;
}

}  // namespace

std::string misuse(const TensorFunction& function, const std::vector<Tensor>& inputs,
                   const Params* params, const GradcheckOptions& options) {
  if (!function) return "the function is empty";
  if (recording_tape() != nullptr)
    return "a tape is alive on this thread, so every evaluation would be recorded; call gradcheck "
           "outside of its scope";
  if (options.cotangents < 2)
    return fmt::format("cotangents is {}: at least 2 are needed, as one alone can be blind",
                       options.cotangents);
  if (options.directions < 1) return "directions must be at least 1";
  if (options.stripes < 1 || options.stripe < 0 || options.stripe >= options.stripes)
    return fmt::format("stripe {} of {}: it must be 0 or more and below the number of stripes",
                       options.stripe, options.stripes);
  if (!(options.tolerance >= 0) || !(options.bars >= 0))
    return "tolerance and bars must not be negative";
  bool any = params != nullptr && params->count() > 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) return fmt::format("input {} is no tensor", i);
    if (inputs[i].dtype() == DType::f32) {
      return fmt::format(
          "input {} is f32{}: differences of single-precision values are off by 1e-3 even when the "
          "gradient is right; pass cast(x, DType::f64)",
          i, to_string(inputs[i].shape()));
    }
    any = any || inputs[i].dtype() == DType::f64;
  }
  if (params != nullptr && params->dtype() != DType::f64) {
    return "the parameters are f32: differences of single-precision values are off by 1e-3 even "
           "when the gradient is right; build the model on Params(seed, DType::f64)";
  }
  if (!any) return "there is no f64 input and no parameter to differentiate by";
  return "";
}

Checker::Checker(CheckedFunction function, const std::vector<Tensor>& inputs, Params* params,
                 GradcheckOptions options)
    : options_(std::move(options)),
      subject_(std::move(function), off_tape(inputs), params, options_) {
  if (!options_.fast) return;
  for (const Variable& v : subject_.variables())
    directions_.push_back(random_directions(v, options_.directions, options_.seed));
}

GradcheckReport Checker::run() {
  const auto start = std::chrono::steady_clock::now();
  GradcheckReport report;
  report.name = options_.name;
  const Subject::Stop stop = subject_.prepare();
  if (stop.status != GradcheckStatus::pass) {
    report.status = stop.status;
    report.message = stop.message;
  } else {
    subject_.measure_noise();
    side_ = subject_.tape_side(options_.gradient_hook);
    measure_all();
    report = judged(side_, claims_);
    if (options_.fast && report.status == GradcheckStatus::mismatch) name_element(report);
    if (side_.difference > kSameFunction) {
      report.status = GradcheckStatus::mismatch;
      report.message = fmt::format(
          "on a tape the function gives other values than without: they differ by {:.1e} of the "
          "largest",
          side_.difference);
    }
    if (!subject_.same_as_before()) {
      report.status = GradcheckStatus::not_repeatable;
      report.message =
          "the function gives other numbers at the same point after the check than before it: it "
          "keeps state between calls";
    }
  }
  report.evaluations = subject_.evaluations();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

GradcheckReport Checker::judged(const TapeSide& side) const {
  return judged(side, claims_of(side, measured_, directions_));
}

GradcheckReport Checker::judged(const TapeSide& side, const AllClaims& claims) const {
  GradcheckReport report;
  report.name = options_.name;
  report.fast = options_.fast;
  report.tolerance = options_.tolerance;
  report.coverage = side.coverage;
  judge(report, subject_.variables(), measured_, claims, side.depends, options_);
  return report;
}

double Checker::disagreement(std::size_t variable, std::size_t cotangent,
                             const std::vector<double>& direction) {
  std::vector<Claim> at;
  for (const std::vector<Tensor>& gradients : side_.gradients) {
    const std::span<const double> g = gradients[variable].data<double>();
    at.push_back({along(g, direction), largest_of(g), options_.tolerance, options_.bars});
  }
  DirectionProbe probe(subject_, variable, direction);
  const Slope slope = measure(subject_, probe, at, false)[cotangent];
  return std::abs(slope.estimate.value - at[cotangent].slope);
}

void Checker::name_element(GradcheckReport& report) {
  std::size_t variable = 0;
  std::size_t cotangent = 0;
  std::size_t number = 0;
  double most = 0;
  for (std::size_t v = 0; v < measured_.size(); ++v) {
    for (std::size_t i = 0; i < measured_[v].elements.size(); ++i) {
      const std::vector<Claim> at = claims_at(v, i);
      for (std::size_t k = 0; k < at.size(); ++k) {
        const Slope& slope = measured_[v].slopes[i][k];
        const double error = std::abs(slope.estimate.value - at[k].slope) / at[k].scale;
        if (slope.kink || agrees(slope, at[k]) || error <= most) continue;
        variable = v;
        cotangent = k;
        number = i;
        most = error;
      }
    }
  }
  if (!(most > 0)) return;
  const auto chosen = static_cast<std::size_t>(measured_[variable].elements[number]);
  const std::vector<double>& whole = directions_[variable][chosen];
  std::size_t begin = 0;
  std::size_t end = whole.size();
  const auto part = [&](std::size_t from, std::size_t to) {
    std::vector<double> direction(whole.size(), 0.0);
    std::copy(whole.begin() + static_cast<std::ptrdiff_t>(from),
              whole.begin() + static_cast<std::ptrdiff_t>(to),
              direction.begin() + static_cast<std::ptrdiff_t>(from));
    return direction;
  };
  while (end - begin > 1) {
    const std::size_t middle = begin + (end - begin) / 2;
    const double low = disagreement(variable, cotangent, part(begin, middle));
    const double high = disagreement(variable, cotangent, part(middle, end));
    (low >= high ? end : begin) = middle;
  }
  GradcheckOptions options = options_;
  options.fast = false;
  options.worst = 1;
  Measured one;
  one.elements.push_back(static_cast<std::int64_t>(begin));
  AllClaims claims(1);
  std::vector<Claim> at;
  for (const std::vector<Tensor>& gradients : side_.gradients) {
    const std::span<const double> g = gradients[variable].data<double>();
    claims[0].push_back({{g[begin]}, largest_of(g)});
    at.push_back({g[begin], largest_of(g), options.tolerance, options.bars});
  }
  ElementProbe probe(subject_, variable, one.elements[0]);
  one.slopes.push_back(measure(subject_, probe, at, true));
  subject_.restore(variable);
  GradcheckReport found;
  judge(found, {subject_.variables()[variable]}, {one}, claims, true, options);
  if (found.status != GradcheckStatus::mismatch) return;
  report.worst.insert(report.worst.begin(), found.worst.front());
  report.message = fmt::format("{}; halving the direction leads to {}", report.message,
                               describe(found.worst.front()));
}

std::vector<Claim> Checker::claims_at(std::size_t variable, std::size_t i) const {
  std::vector<Claim> at;
  for (std::size_t k = 0; k < claims_[variable].size(); ++k) {
    double scale = claims_[variable][k].largest;
    for (std::size_t v = 0; scale == 0 && v < claims_.size(); ++v)
      scale = std::max(scale, claims_[v][k].largest);
    at.push_back({claims_[variable][k].slopes[i], scale, options_.tolerance, options_.bars});
  }
  return at;
}

void Checker::measure_all() {
  measured_.resize(subject_.variables().size());
  for (std::size_t v = 0; v < measured_.size(); ++v) {
    const std::int64_t size = options_.fast ? static_cast<std::int64_t>(directions_[v].size())
                                            : subject_.variables()[v].shape.size();
    for (std::int64_t i = options_.stripe; i < size; i += options_.stripes)
      measured_[v].elements.push_back(i);
  }
  claims_ = claims_of(side_, measured_, directions_);
  int confirmations = kConfirmations;
  for (std::size_t v = 0; v < measured_.size(); ++v) {
    for (std::size_t i = 0; i < measured_[v].elements.size(); ++i) {
      const std::vector<Claim> at = claims_at(v, i);
      const auto element = static_cast<std::size_t>(measured_[v].elements[i]);
      std::vector<Slope> slopes;
      if (options_.fast) {
        DirectionProbe probe(subject_, v, directions_[v][element]);
        slopes = measure(subject_, probe, at, confirmations > 0);
      } else {
        ElementProbe probe(subject_, v, measured_[v].elements[i]);
        slopes = measure(subject_, probe, at, confirmations > 0);
      }
      bool agreed = true;
      for (std::size_t k = 0; k < at.size(); ++k) agreed = agreed && agrees(slopes[k], at[k]);
      if (!agreed) --confirmations;
      measured_[v].slopes.push_back(std::move(slopes));
    }
    subject_.restore(v);
  }
}

}  // namespace tapehead::detail

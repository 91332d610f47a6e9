#include "gradcheck/subject.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <tapehead/ops.hpp>

#include "core/access.hpp"

namespace tapehead::detail {

namespace {

template <class F>
void for_each_value(const Tensor& x, F f) {
  if (x.dtype() == DType::f64) {
    const double* values = in<double>(x);
    for (std::int64_t i = 0; i < x.size(); ++i) f(values[i]);
  } else if (x.dtype() == DType::f32) {
    const float* values = in<float>(x);
    for (std::int64_t i = 0; i < x.size(); ++i) f(static_cast<double>(values[i]));
  }
}

std::vector<double> values_of(const Tensor& x) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(x.size()));
  for_each_value(x, [&](double v) { values.push_back(v); });
  return values;
}

double root_mean_square(const std::vector<double>& values) {
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  double sum = 0;
  for (const double v : values) sum += v / largest * (v / largest);
  return largest * std::sqrt(sum / static_cast<double>(values.size()));
}

bool selected(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& path) {
           return name == path ||
                  (name.size() > path.size() && name.starts_with(path) && name[path.size()] == '.');
         });
}

bool same_double_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_all_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_double_bits);
}

}  // namespace

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  double scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) most = std::max(most, std::abs(a[i] - b[i]));
    if (std::isfinite(b[i])) scale = std::max(scale, std::abs(b[i]));
  }
  if (most == 0) return 0;
  return scale > 0 ? most / scale : std::numeric_limits<double>::infinity();
}

std::string element_name(const std::string& name, const Shape& shape, std::int64_t index) {
  if (shape.rank() == 0) return name;
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const std::int64_t size = shape[axis];
    text = fmt::format("{}{}{}", index % size, text.empty() ? "" : ",", text);
    index /= size;
  }
  return fmt::format("{}[{}]", name, text);
}

Subject::Subject(CheckedFunction function, std::vector<Tensor> inputs, Params* params,
                 const GradcheckOptions& options)
    : function_(std::move(function)),
      inputs_(std::move(inputs)),
      moved_(inputs_),
      params_(params),
      infinite_outputs_(options.infinite_outputs),
      cotangents_(options.cotangents),
      seed_(options.seed),
      whole_(options.fast) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!is_floating(inputs_[i].dtype())) continue;
    Variable variable;
    variable.name =
        i < options.input_names.size() ? options.input_names[i] : fmt::format("input{}", i);
    variable.shape = inputs_[i].shape();
    variable.base = values_of(inputs_[i]);
    variable.input = static_cast<int>(i);
    if (selected(variable.name, options.only)) variables_.push_back(std::move(variable));
  }
  for (int p = 0; params_ != nullptr && p < params_->count(); ++p) {
    const Param param = (*params_)[p];
    if (param.frozen() || !selected(param.name(), options.only)) continue;
    variables_.push_back({param.name(), param.shape(), values_of(param.value()), 1, -1, param});
  }
  for (Variable& variable : variables_) variable.scale = root_mean_square(variable.base);
}

Subject::~Subject() {
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    if (variables_[v].param.defined()) restore(v);
  }
}

void Subject::move(std::size_t variable, std::int64_t index, double value) {
  Variable& v = variables_[variable];
  if (v.param.defined()) {
    // The element that was moved before this one goes back to its place.
    const std::int64_t begin = params_->offset(v.param.index());
    const auto put = [&](std::span<double> flat) {
      const auto before = static_cast<std::size_t>(std::exchange(v.moved, index));
      flat[static_cast<std::size_t>(begin) + before] = v.base[before];
      flat[static_cast<std::size_t>(begin + index)] = value;
    };
    params_->write("gradcheck", [&put](std::span<double> flat) { put(flat); });
    return;
  }
  Tensor moved = empty(v.shape, DType::f64);
  std::copy(v.base.begin(), v.base.end(), out<double>(moved));
  out<double>(moved)[index] = value;
  moved_[static_cast<std::size_t>(v.input)] = std::move(moved);
}

void Subject::move_all(std::size_t variable, std::span<const double> values) {
  const Variable& v = variables_[variable];
  if (v.param.defined()) {
    const std::int64_t at = params_->offset(v.param.index());
    params_->write("gradcheck", [at, values](std::span<double> flat) {
      std::copy(values.begin(), values.end(), flat.begin() + at);
    });
    return;
  }
  Tensor moved = empty(v.shape, DType::f64);
  std::copy(values.begin(), values.end(), out<double>(moved));
  moved_[static_cast<std::size_t>(v.input)] = std::move(moved);
}

void Subject::restore(std::size_t variable) {
  const Variable& v = variables_[variable];
  if (v.param.defined()) {
    move_all(variable, v.base);
  } else {
    moved_[static_cast<std::size_t>(v.input)] = inputs_[static_cast<std::size_t>(v.input)];
  }
}

std::vector<Tensor> Subject::evaluate() {
  ++evaluations_;
  std::vector<Tensor> outputs = function_.plain(moved_);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o].defined())
      fail<ValueError>(fmt::format("gradcheck: output {} of the function is no tensor", o));
  }
  return outputs;
}

std::vector<double> Subject::flatten(const std::vector<Tensor>& outputs) const {
  std::vector<double> flat;
  for (const Tensor& y : outputs) for_each_value(y, [&](double v) { flat.push_back(v); });
  return flat;
}

Subject::Stop Subject::prepare() {
  const std::vector<Tensor> outputs = evaluate();
  base_ = flatten(outputs);
  if (!same_as_before()) {
    return {GradcheckStatus::not_repeatable,
            "two evaluations at the same point differ: the function draws random numbers or keeps "
            "state between calls; give it a stream that it copies, or a fixed seed"};
  }
  epsilon_.clear();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const double epsilon = outputs[o].dtype() == DType::f32
                               ? static_cast<double>(std::numeric_limits<float>::epsilon())
                               : std::numeric_limits<double>::epsilon();
    std::int64_t i = 0;
    std::string bad;
    for_each_value(outputs[o], [&](double v) {
      epsilon_.push_back(epsilon);
      if (bad.empty() && (std::isnan(v) || (std::isinf(v) && !infinite_outputs_)))
        bad = fmt::format("output {} holds {} at flat index {} of {}", o, v, i,
                          to_string(outputs[o].shape()));
      ++i;
    });
    if (!bad.empty()) {
      return {GradcheckStatus::not_finite, bad + ": there is no slope to compare with"};
    }
  }
  // Magnitudes in [0.5, 1.5) with random signs: no output is nearly ignored, none dominates.
  cotangent_.assign(static_cast<std::size_t>(cotangents_), std::vector<double>(base_.size(), 0.0));
  for (int k = 0; k < cotangents_; ++k) {
    Rng rng = Rng(seed_, Stream::check).fork("cotangent").fork(static_cast<std::uint64_t>(k));
    for (std::size_t i = 0; i < base_.size(); ++i) {
      const double magnitude = rng.uniform(0.5, 1.5);
      const double c = rng.bernoulli(0.5) ? magnitude : -magnitude;
      if (std::isfinite(base_[i])) cotangent_[static_cast<std::size_t>(k)][i] = c;
    }
  }
  return {};
}

bool Subject::same_as_before() { return same_all_bits(flatten(evaluate()), base_); }

// Second differences of y along a short line, of which the smooth part is far below one ulp, are
// rounding alone: their variance is 6 times that of y.  After Hamming's difference table; More &
// Wild, "Estimating computational noise" (SIAM J. Sci. Comput. 2011).
void Subject::measure_noise() {
  // In ulps of the inputs. Where y hardly changes over the shorter line, its noise has not been
  // seen: e^x - 1 near 0 moves in steps of an ulp of 1. Over the longest one the smooth part's
  // second difference is still about an ulp.
  constexpr double kLengths[] = {0x1p10, 0x1p18, 0x1p25};
  constexpr int kChanges = kNoisePoints / 2;
  std::vector<double> measured(base_.size(), 0);
  std::vector<bool> seen(base_.size(), false);
  for (const double length : kLengths) {
    const std::vector<std::vector<double>> y = along_line(length);
    for (std::size_t i = 0; i < base_.size(); ++i) {
      if (seen[i]) continue;
      double sum = 0;
      int changes = 0;
      for (std::size_t k = 0; k + 1 < kNoisePoints; ++k) {
        if (y[k][i] != y[k + 1][i]) ++changes;
        if (k + 2 == kNoisePoints) break;
        const double second = y[k][i] - 2 * y[k + 1][i] + y[k + 2][i];
        sum += second * second;
      }
      measured[i] = sum / (6.0 * (kNoisePoints - 2));
      seen[i] = changes >= kChanges;
    }
    if (std::find(seen.begin(), seen.end(), false) == seen.end()) break;
  }
  variance_.assign(cotangent_.size(), std::vector<double>(base_.size()));
  for (std::size_t i = 0; i < base_.size(); ++i) {
    // A correctly rounded result is off by up to half a unit; a good library function by one.
    const double floor = 0.5 * epsilon_[i] * std::abs(base_[i]);
    const double variance = std::isfinite(base_[i]) && std::isfinite(measured[i])
                                ? std::max(measured[i], floor * floor)
                                : floor * floor;
    for (std::size_t k = 0; k < cotangent_.size(); ++k) {
      const double c = cotangent_[k][i];
      variance_[k][i] = c == 0 ? 0 : c * c * variance;
    }
  }
}

// y at equal steps of `length` to 2 `length` ulps of every input, from the base point on.
std::vector<std::vector<double>> Subject::along_line(double length) {
  std::vector<std::vector<double>> y{base_};
  Rng rng = Rng(seed_, Stream::check).fork("noise");
  std::vector<std::vector<double>> direction;
  for (const Variable& v : variables_) {
    std::vector<double> d;
    for (const double x : v.base) {
      // Single elements are moved by exact amounts, so the inputs must add no rounding here either;
      // along a direction they do.
      const double ulps = length + static_cast<double>(rng.below(1024)) * (length / 1024) +
                          (whole_ ? rng.uniform() : 0);
      const double ulp = std::ldexp(1.0, std::ilogb(x == 0 ? v.scale : x) - 52);
      d.push_back(ulps * ulp * (rng.bernoulli(0.5) ? 1 : -1));
    }
    direction.push_back(std::move(d));
  }
  std::vector<double> moved;
  for (std::size_t k = 1; k < kNoisePoints; ++k) {
    for (std::size_t v = 0; v < variables_.size(); ++v) {
      moved = variables_[v].base;
      for (std::size_t i = 0; i < moved.size(); ++i)
        moved[i] += static_cast<double>(k) * direction[v][i];
      move_all(v, moved);
    }
    y.push_back(flatten(evaluate()));
    y.back().resize(base_.size());
  }
  for (std::size_t v = 0; v < variables_.size(); ++v) restore(v);
  return y;
}

void Subject::begin_search() { reached_.assign(base_.size(), false); }

void Subject::contract(Contraction& result) {
  const std::vector<Tensor> outputs = evaluate();
  const std::size_t count = cotangent_.size();
  sums_.assign(count, 0);
  result.variances.assign(count, 0);
  result.finite = true;
  std::size_t i = 0;
  for (const Tensor& y : outputs) {
    for_each_value(y, [&](double v) {
      if (i >= base_.size()) {
        ++i;
        return;
      }
      if (v != base_[i]) {
        reached_[i] = true;
        const double moved = v - base_[i];
        if (!std::isfinite(moved)) result.finite = false;
        for (std::size_t k = 0; k < count; ++k) {
          sums_[k] += static_cast<long double>(cotangent_[k][i]) * static_cast<long double>(moved);
        }
      }
      if (reached_[i]) {
        for (std::size_t k = 0; k < count; ++k) result.variances[k] += variance_[k][i];
      }
      ++i;
    });
  }
  if (i != base_.size()) {
    throw ShapeError(
        "gradcheck: the outputs changed their shape when an input moved; the function must return "
        "the same shapes for all values");
  }
  result.sums.resize(count);
  for (std::size_t k = 0; k < count; ++k) result.sums[k] = static_cast<double>(sums_[k]);
}

TapeSide Subject::tape_side(const GradientHook& gradient, const GradientHook& arrival) const {
  TapeSide side;
  std::set<std::string> ops;
  for (const std::vector<double>& cotangent : cotangent_) {
    TapeOptions tape_options;
    tape_options.gradient_hook = gradient;
    tape_options.arrival_hook = arrival;
    tape_options.differentiable = static_cast<bool>(function_.recorded);
    Tape tape(std::move(tape_options));
    std::vector<Tensor> in = inputs_;
    for (const Variable& v : variables_) {
      if (v.input >= 0)
        in[static_cast<std::size_t>(v.input)] = tape.watch(in[static_cast<std::size_t>(v.input)]);
    }
    std::vector<Tensor> ys;
    std::vector<Tensor> cs;
    std::size_t at = 0;
    bool recorded = false;
    const std::vector<Tensor> outputs =
        function_.recorded ? function_.recorded(tape, in) : function_.plain(in);
    side.difference = std::max(side.difference, largest_difference(flatten(outputs), base_));
    for (const Tensor& y : outputs) {
      if (!is_floating(y.dtype())) continue;
      Tensor c = empty(y.shape(), DType::f64);
      std::copy_n(cotangent.begin() + static_cast<std::ptrdiff_t>(at), y.size(), out<double>(c));
      at += static_cast<std::size_t>(y.size());
      recorded = recorded || y.tape_id() == tape.id();
      ys.push_back(y);
      cs.push_back(cast(c, y.dtype()));
    }
    for (int n = 0; n < tape.size(); ++n) {
      const std::string_view op = tape.node(n).op;
      if (op != "watched" && op != "parameter") ops.emplace(op);
    }
    std::vector<Tensor> gradients;
    if (!recorded) {
      side.depends = false;
      for (const Variable& v : variables_) gradients.push_back(zeros(v.shape, DType::f64));
    } else {
      const Gradients all = tape.backward(ys, cs);
      for (const Variable& v : variables_) {
        gradients.push_back(v.input >= 0 ? all[in[static_cast<std::size_t>(v.input)]]
                                         : all[v.param]);
      }
    }
    side.gradients.push_back(std::move(gradients));
  }
  side.coverage.assign(ops.begin(), ops.end());
  return side;
}

}  // namespace tapehead::detail

#include "gradcheck/float32.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/ops.hpp>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"

namespace tapehead {

namespace detail {

namespace {

// Magnitudes in [0.5, 1.5) with random signs, in f32.
std::vector<Tensor> cotangents_of(const std::vector<Tensor>& outputs, std::uint64_t seed) {
  std::vector<Tensor> cotangents;
  for (const Tensor& y : outputs) {
    if (!is_floating(y.dtype())) continue;
    Rng rng = Rng(seed, Stream::check).fork("cotangent").fork(cotangents.size());
    std::vector<float> values;
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const auto magnitude = static_cast<float>(rng.uniform(0.5, 1.5));
      values.push_back(rng.bernoulli(0.5) ? magnitude : -magnitude);
    }
    cotangents.push_back(tensor(std::span<const float>(values), y.shape()));
  }
  return cotangents;
}

bool same_outputs(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bits);
}

}  // namespace

Float32Report compare_sides(const Float32Side& single, const Float32Side& full,
                            const Float32Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Float32Report report;
  report.name = options.name;
  report.bound = options.bound;
  report.status = GradcheckStatus::misused;
  const std::vector<Tensor> outputs = single.function(single.inputs);
  bool f32 = false;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o].defined())
      fail<ValueError>(fmt::format("compare_float32: output {} of the function is no tensor", o));
    f32 = f32 || outputs[o].dtype() == DType::f32;
    if (outputs[o].dtype() == DType::f64)
      report.message = fmt::format("output {} is f64 although the inputs are f32", o);
  }
  if (!report.message.empty()) return report;
  if (!same_outputs(single.function(single.inputs), outputs)) {
    report.status = GradcheckStatus::not_repeatable;
    report.message =
        "two evaluations at the same point differ: the function draws random numbers or keeps "
        "state between calls; give it a stream that it copies, or a fixed seed";
    return report;
  }
  if (!f32) {
    report.status = GradcheckStatus::nothing_checked;
    report.message = "the function has no floating output";
    return report;
  }
  compare_walks(single, full, options, cotangents_of(outputs, options.seed), report);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace detail

double Float32Tensor::digits() const { return std::log10(0x1p23 / std::max(ulps, 0.5)); }

namespace {

std::string misuse(bool empty, const std::vector<Tensor>& inputs, const Float32Options& options) {
  if (empty) return "the function is empty";
  if (recording_tape() != nullptr)
    return "a tape is alive on this thread; call compare_float32 outside of its scope";
  if (!(options.bound >= 0)) return "bound must not be negative";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) return fmt::format("input {} is no tensor", i);
  }
  return "";
}

Float32Report misused(const Float32Options& options, std::string why) {
  Float32Report report;
  report.name = options.name;
  report.bound = options.bound;
  report.status = GradcheckStatus::misused;
  report.message = std::move(why);
  return report;
}

// Rounded to f32, in f32 and in f64.
std::vector<Tensor> in_dtype(const std::vector<Tensor>& inputs, DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& x : inputs)
    result.push_back(is_floating(x.dtype()) ? cast(cast(detach(x), DType::f32), dtype) : x);
  return result;
}

}  // namespace

Float32Report compare_float32(const TensorFunction& function, const std::vector<Tensor>& inputs,
                              const Float32Options& options) {
  if (std::string wrong = misuse(!function, inputs, options); !wrong.empty())
    return misused(options, std::move(wrong));
  return detail::compare_sides({function, in_dtype(inputs, DType::f32)},
                               {function, in_dtype(inputs, DType::f64)}, options);
}

Float32Report compare_float32(const FunctionBuilder& build, const std::vector<Tensor>& inputs,
                              const Float32Options& options) {
  if (std::string wrong = misuse(!build, inputs, options); !wrong.empty())
    return misused(options, std::move(wrong));
  Params single(options.seed, DType::f32);
  Params full(options.seed, DType::f64);
  const TensorFunction in_single = build(single);
  const TensorFunction in_full = build(full);
  if (!in_single || !in_full) return misused(options, "`build` returned an empty function");
  if (std::string wrong = detail::copy_values(single, full); !wrong.empty())
    return misused(options, std::move(wrong));
  return detail::compare_sides({in_single, in_dtype(inputs, DType::f32), &single},
                               {in_full, in_dtype(inputs, DType::f64), &full}, options);
}

}  // namespace tapehead

#include <cmath>

#include <fmt/format.h>

#include <tapehead/params.hpp>

#include "core/message.hpp"

namespace tapehead::init {
namespace {

// A weight matrix is [fan_in, fan_out]; a vector counts as one row.
double fan_in(const Shape& shape) {
  return shape.rank() < 2 ? 1.0 : static_cast<double>(shape[-2]);
}
double fan_out(const Shape& shape) {
  return shape.rank() < 1 ? 1.0 : static_cast<double>(shape[-1]);
}

Init symmetric_uniform(double (*bound)(const Shape&), double gain) {
  return [bound, gain](const Shape& shape, Rng& rng, DType dtype) {
    const double a = shape.size() == 0 ? 0.0 : gain * bound(shape);
    return tapehead::uniform(shape, rng, -a, a, dtype);
  };
}

void check_deviation(double deviation) {
  if (!(deviation >= 0 && std::isfinite(deviation))) {
    detail::fail<ValueError>(
        fmt::format("init: the standard deviation must be finite and >= 0, got {}", deviation));
  }
}

// deviation * N(0, 1) + mean, rounded to the dtype once.
Tensor gaussian(const Shape& shape, Rng& rng, DType dtype, double deviation, double mean) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (double& v : values) v = mean + deviation * rng.normal();
  if (dtype == DType::f64) return tensor(std::span<const double>(values), shape);
  const std::vector<float> rounded(values.begin(), values.end());
  return tensor(std::span<const float>(rounded), shape);
}

}  // namespace

Init constant(double value) {
  return [value](const Shape& shape, Rng&, DType dtype) { return full(shape, value, dtype); };
}

Init normal(double deviation, double mean) {
  check_deviation(deviation);
  return [=](const Shape& shape, Rng& rng, DType dtype) {
    return gaussian(shape, rng, dtype, deviation, mean);
  };
}

Init uniform(double low, double high) {
  return [=](const Shape& shape, Rng& rng, DType dtype) {
    return tapehead::uniform(shape, rng, low, high, dtype);
  };
}

Init xavier_uniform(double gain) {
  return symmetric_uniform([](const Shape& s) { return std::sqrt(6.0 / (fan_in(s) + fan_out(s))); },
                           gain);
}

Init xavier_normal(double gain) {
  check_deviation(gain);
  return [gain](const Shape& shape, Rng& rng, DType dtype) {
    return gaussian(shape, rng, dtype, gain * std::sqrt(2.0 / (fan_in(shape) + fan_out(shape))), 0);
  };
}

Init kaiming_uniform() {
  return symmetric_uniform([](const Shape& s) { return std::sqrt(6.0 / fan_in(s)); }, 1);
}

Init kaiming_normal() {
  return [](const Shape& shape, Rng& rng, DType dtype) {
    return gaussian(shape, rng, dtype, std::sqrt(2.0 / fan_in(shape)), 0);
  };
}

Init fan_in_uniform(std::int64_t given) {
  return [given](const Shape& shape, Rng& rng, DType dtype) {
    const double a = 1 / std::sqrt(given > 0 ? static_cast<double>(given) : fan_in(shape));
    return tapehead::uniform(shape, rng, -a, a, dtype);
  };
}

}  // namespace tapehead::init

#include "autograd/finite.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/access.hpp"

namespace tapehead::detail {
namespace {

// Lanes side by side, so that the compiler can use whole registers: the comparisons are false for
// NaN, and 0 * v is not 0 for NaN and infinity.
template <class T>
bool finite_range(const T* values, std::int64_t size, Range& range) {
  constexpr std::int64_t kLanes = 16;
  std::array<T, kLanes> least;
  std::array<T, kLanes> most;
  std::array<T, kLanes> zero{};
  least.fill(std::numeric_limits<T>::infinity());
  most.fill(-std::numeric_limits<T>::infinity());
  const auto take = [&](std::size_t lane, T v) {
    least[lane] = v < least[lane] ? v : least[lane];
    most[lane] = v > most[lane] ? v : most[lane];
    zero[lane] += 0 * v;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      take(lane, values[i + static_cast<std::int64_t>(lane)]);
  }
  for (; i < size; ++i) take(0, values[i]);
  range.least = static_cast<double>(*std::min_element(least.begin(), least.end()));
  range.most = static_cast<double>(*std::max_element(most.begin(), most.end()));
  return std::all_of(zero.begin(), zero.end(), [](T v) { return v == 0; });
}

template <class T>
void count_each(const T* values, std::int64_t size, Range& range) {
  range.least = std::numeric_limits<double>::infinity();
  range.most = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < size; ++i) {
    const auto v = static_cast<double>(values[i]);
    if (std::isnan(v)) {
      ++range.nans;
    } else if (std::isinf(v)) {
      ++(v > 0 ? range.above : range.below);
    } else {
      range.least = std::min(range.least, v);
      range.most = std::max(range.most, v);
    }
  }
}

std::string some(std::int64_t count, std::int64_t size, const char* what) {
  return fmt::format("{} at {} of {}", what, count, size);
}

}  // namespace

Range range_of(const Tensor& x) {
  Range range;
  range.size = x.size();
  if (!is_floating(x.dtype())) return range;
  with_float("range", x.dtype(), [&](auto zero) {
    const auto* values = in<decltype(zero)>(x);
    if (!finite_range(values, x.size(), range)) count_each(values, x.size(), range);
  });
  return range;
}

std::string to_string(const Range& range) {
  if (range.size == 0) return "empty";
  std::string text;
  if (range.least == range.most) {
    const bool all = range.finite() && range.size > 1;
    text = fmt::format("{}{:.6g}", all ? "all " : "", range.least);
  } else if (range.least < range.most) {
    text = fmt::format("{:.6g} .. {:.6g}", range.least, range.most);
  }
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + some(count, range.size, what);
  };
  add(range.nans, "NaN");
  add(range.above, "+inf");
  add(range.below, "-inf");
  return text;
}

void Finite::close(std::int32_t node, int count, const Range& output) {
  if (static_cast<std::size_t>(node) >= nodes.size())
    nodes.resize(static_cast<std::size_t>(node) + 1);
  nodes[static_cast<std::size_t>(node)] = {output, static_cast<std::int32_t>(inputs.size()), count};
  inputs.insert(inputs.end(), open.end() - count, open.end());
  open.resize(open.size() - static_cast<std::size_t>(count));
}

std::vector<Finite::Input> Finite::inputs_of(std::int32_t node) const {
  if (static_cast<std::size_t>(node) >= nodes.size()) return {};
  const Seen& seen = nodes[static_cast<std::size_t>(node)];
  return {inputs.begin() + seen.first, inputs.begin() + seen.first + seen.count};
}

Range Finite::output_of(std::int32_t node) const {
  return static_cast<std::size_t>(node) < nodes.size()
             ? nodes[static_cast<std::size_t>(node)].output
             : Range();
}

Fault output_fault(const Range& output, const std::vector<Finite::Input>& inputs,
                   Finite::Allowed allowed) {
  bool above = allowed.infinity == std::numeric_limits<double>::infinity();
  bool below = allowed.infinity == -std::numeric_limits<double>::infinity();
  for (const Finite::Input& input : inputs) {
    above = above || input.range.above > 0 || (allowed.turns_signs && input.range.below > 0);
    below = below || input.range.above + input.range.below > 0;
  }
  return {output.nans > 0, output.above > 0 && !above, output.below > 0 && !below};
}

Fault gradient_fault(const Range& gradient) {
  return {gradient.nans > 0, gradient.above > 0, gradient.below > 0};
}

std::string describe(const Fault& fault, const Tensor& x) {
  const Range range = range_of(x);
  std::string text;
  const auto add = [&](bool is, std::int64_t count, const char* what) {
    if (is) text += (text.empty() ? "" : ", ") + some(count, range.size, what);
  };
  add(fault.nan, range.nans, "NaN");
  add(fault.above, range.above, "+inf");
  add(fault.below, range.below, "-inf");
  if (x.rank() == 0) return text;
  std::int64_t first = 0;
  for (; first < x.size(); ++first) {
    const double v = x.at_flat(first);
    if ((fault.nan && std::isnan(v)) || (std::isinf(v) && (v > 0 ? fault.above : fault.below)))
      break;
  }
  std::vector<std::int64_t> index(static_cast<std::size_t>(x.rank()));
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = first % x.dim(axis);
    first /= x.dim(axis);
  }
  return fmt::format("{}, the first at [{}]", text, fmt::join(index, ", "));
}

}  // namespace tapehead::detail

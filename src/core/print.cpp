// Readable printing and comparison of tensors.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/access.hpp"

namespace tapehead {
namespace {

constexpr std::int64_t kEdge = 3;       // elements shown at each end of a long axis
constexpr std::int64_t kShortAxis = 8;  // axes up to this size are shown whole

std::string format_element(const Tensor& x, std::int64_t index) {
  const double value = x.at_flat(index);
  switch (x.dtype()) {
    case DType::f32: return fmt::format("{:.6g}", value);
    case DType::f64: return fmt::format("{:.8g}", value);
    case DType::i64: return fmt::format("{}", static_cast<std::int64_t>(value));
    case DType::boolean: break;
  }
  return value != 0 ? "true" : "false";
}

class Printer {
 public:
  explicit Printer(const Tensor& x) : x_(x) {
    visit(0, 0, [this](std::int64_t index) {
      width_ = std::max(width_, format_element(x_, index).size());
    });
  }

  std::string text() {
    text_.clear();
    print(0, 0);
    return text_;
  }

 private:
  // The indices of one axis that are shown; -1 stands for the gap.
  [[nodiscard]] std::vector<std::int64_t> shown(int axis) const {
    const std::int64_t size = x_.dim(axis);
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < size; ++i) {
      if (size > kShortAxis && i == kEdge) {
        indices.push_back(-1);
        i = size - kEdge;
      }
      indices.push_back(i);
    }
    return indices;
  }

  template <class F>
  void visit(int axis, std::int64_t offset, const F& f) {
    if (axis == x_.rank()) return f(offset);
    for (std::int64_t i : shown(axis)) {
      if (i >= 0) visit(axis + 1, offset * x_.dim(axis) + i, f);
    }
  }

  void print(int axis, std::int64_t offset) {
    if (axis == x_.rank()) {
      text_ += fmt::format("{:>{}}", format_element(x_, offset), width_);
      return;
    }
    text_ += "[";
    bool first = true;
    for (std::int64_t i : shown(axis)) {
      if (!first) {
        text_ += axis + 1 == x_.rank()
                     ? ", "
                     : ",\n" + std::string(static_cast<std::size_t>(axis) + 1, ' ');
      }
      first = false;
      if (i < 0) {
        text_ += "...";
      } else {
        print(axis + 1, offset * x_.dim(axis) + i);
      }
    }
    text_ += "]";
  }

  const Tensor& x_;
  std::size_t width_ = 0;
  std::string text_;
};

std::string index_text(const Shape& shape, std::int64_t flat) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = flat % shape[axis];
    flat /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace

std::string to_string(const Tensor& x) {
  if (!x.defined()) return "no tensor";
  const std::string kind = fmt::format("{}{}", name_of(x.dtype()), to_string(x.shape()));
  if (x.size() == 0) return kind + " (empty)";
  if (x.rank() == 0) return format_element(x, 0) + " (" + kind + ")";
  return Printer(x).text() + " (" + kind + ")";
}

Comparison compare(const Tensor& a, const Tensor& b, Tolerance tolerance) {
  Comparison result;
  if (!a.defined() || !b.defined() || a.shape() != b.shape() || a.dtype() != b.dtype()) {
    const auto kind = [](const Tensor& x) {
      return x.defined() ? fmt::format("{}{}", name_of(x.dtype()), to_string(x.shape()))
                         : std::string("no tensor");
    };
    result.equal = false;
    result.message = fmt::format("{} against {}", kind(a), kind(b));
    return result;
  }
  std::int64_t where = -1;
  double worst_excess = -1;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double x = a.at_flat(i);
    const double y = b.at_flat(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double difference = std::abs(x - y);
    if (!(difference <= result.worst)) result.worst = difference;
    const double allowed =
        tolerance.absolute + tolerance.relative * std::max(std::abs(x), std::abs(y));
    if (difference <= allowed && std::isfinite(difference)) continue;
    ++result.mismatches;
    const double excess = std::isfinite(difference) ? difference - allowed : HUGE_VAL;
    if (excess > worst_excess) {
      worst_excess = excess;
      where = i;
    }
  }
  if (result.mismatches > 0) {
    result.equal = false;
    result.message = fmt::format(
        "{} of {} elements of {}{} differ; worst at {}: {:.17g} against {:.17g}, off by {:.3g}",
        result.mismatches, a.size(), name_of(a.dtype()), to_string(a.shape()),
        index_text(a.shape(), where), a.at_flat(where), b.at_flat(where),
        std::abs(a.at_flat(where) - b.at_flat(where)));
  }
  return result;
}

}  // namespace tapehead

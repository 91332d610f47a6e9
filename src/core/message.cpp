#include "core/message.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/place.hpp"

namespace tapehead::detail {
namespace {

// Number of single-character edits between two names (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replace}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::string in_module(std::string message) {
  const char* module = place().module;
  if (module != nullptr && *module != '\0') message += fmt::format("\n  in {}", module);
  return message;
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [&](const std::string& a, const std::string& b) {
                                       return distance(a, name) < distance(b, name);
                                     });
  return best == candidates.end() ? std::string() : *best;
}

std::string named(const Shape& shape, std::initializer_list<std::string_view> names) {
  std::string text = "[";
  const int unnamed = shape.rank() - static_cast<int>(names.size());
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    const int name = axis - unnamed;
    if (name >= 0) text += fmt::format("{} ", names.begin()[name]);
    text += fmt::format("{}", shape[axis]);
  }
  return text + "]";
}

void fail_not_floating(const char* op, DType dtype) {
  fail<DTypeError>(fmt::format("{}: needs f32 or f64, got {}; convert with cast(x, DType::f32)", op,
                               name_of(dtype)));
}

void check_defined(const char* op, const Tensor& x, std::string_view what) {
  if (!x.defined())
    fail<ValueError>(
        fmt::format("{}: {} is an empty Tensor handle; give it a value first", op, what));
}

void check_floating(const char* op, const Tensor& x, std::string_view what) {
  check_defined(op, x, what);
  if (!is_floating(x.dtype())) {
    fail<DTypeError>(
        fmt::format("{}: {} must be f32 or f64, but is {}; convert with cast({}, DType::f32)", op,
                    what, name_of(x.dtype()), what));
  }
}

void check_dtype(const char* op, const Tensor& x, DType wanted, std::string_view what) {
  check_defined(op, x, what);
  if (x.dtype() != wanted) {
    fail<DTypeError>(
        fmt::format("{}: {} must be {}, but is {}", op, what, name_of(wanted), name_of(x.dtype())));
  }
}

void check_boolean(const char* op, const Tensor& x, std::string_view what) {
  check_defined(op, x, what);
  if (x.dtype() != DType::boolean) {
    fail<DTypeError>(fmt::format(
        "{}: {} must be boolean, but is {}; make it one by a comparison, such as not_equal(m, 0)",
        op, what, name_of(x.dtype())));
  }
}

void check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  check_defined(op, a, "the first input");
  check_defined(op, b, "the second input");
  if (a.dtype() != b.dtype()) {
    fail<DTypeError>(
        fmt::format("{}: inputs must share a dtype, got {} and {}; convert one with cast", op,
                    name_of(a.dtype()), name_of(b.dtype())));
  }
}

void check_same_shape(const char* op, const Tensor& a, const Tensor& b, std::string_view a_name,
                      std::string_view b_name) {
  if (a.shape() != b.shape()) {
    fail<ShapeError>(fmt::format(
        "{}: shapes must be equal: {} {} and {} {}; reshape or broadcast_to one of them", op,
        a_name, to_string(a.shape()), b_name, to_string(b.shape())));
  }
}

}  // namespace tapehead::detail

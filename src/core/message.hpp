// How errors are worded and thrown: one place, so that every one names the op and the module.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <tapehead/error.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead::detail {

// message, then "\n  in encoder.layers.0.ffn" when a module is known.
[[nodiscard]] std::string in_module(std::string message);

template <class E>
[[noreturn]] void fail(std::string message) {
  throw E(in_module(std::move(message)));
}

// The candidate that is the fewest single-character edits away (the first of equals), for
// suggestions; "" without candidates.
[[nodiscard]] std::string nearest(std::string_view name, std::span<const std::string> candidates);

// "[batch 2, time 5, in 32]": the last sizes get the names; extra leading axes are unnamed.
[[nodiscard]] std::string named(const Shape& shape, std::initializer_list<std::string_view> names);

[[noreturn]] void fail_not_floating(const char* op, DType dtype);
// Checks that ops start with; each throws before anything is computed.
void check_defined(const char* op, const Tensor& x, std::string_view what = "x");
void check_floating(const char* op, const Tensor& x, std::string_view what = "x");
void check_dtype(const char* op, const Tensor& x, DType wanted, std::string_view what);
// A condition or mask: numbers are refused, with the comparison that makes a boolean of them.
void check_boolean(const char* op, const Tensor& x, std::string_view what);
void check_same_dtype(const char* op, const Tensor& a, const Tensor& b);
void check_same_shape(const char* op, const Tensor& a, const Tensor& b, std::string_view a_name,
                      std::string_view b_name);

}  // namespace tapehead::detail

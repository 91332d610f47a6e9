// A JSON value of our own: configs, results and file headers are made of it. The parser and the
// printer behind it are nlohmann's, which only json.cpp includes, as it is slow to compile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tapehead::detail {

// A template so that it is first completed where Json is complete, which Clang 14 insists on.
template <class Value>
struct JsonMember {
  std::string name;
  Value value;
};

class Json {
 public:
  using Member = JsonMember<Json>;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;  // in the order of writing

  Json() = default;  // null
  Json(bool value) : value_(value) {}
  template <class T>
  requires(std::is_integral_v<T>&& std::is_signed_v<T>) Json(T value)
      : value_(static_cast<std::int64_t>(value)) {}
  template <class T>
  requires(std::is_integral_v<T>&& std::is_unsigned_v<T> && !std::is_same_v<T, bool>) Json(T value)
      : value_(static_cast<std::uint64_t>(value)) {}
  Json(double value) : value_(value) {}  // printed as null when it is not finite
  Json(const char* text) : value_(std::string(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(Array items) : value_(std::move(items)) {}
  Json(Object members);

  [[nodiscard]] static Json object() { return Json(Object{}); }
  [[nodiscard]] static Json array() { return Json(Array{}); }

  // Building: null becomes an object or array by its first member or item.
  Json& set(std::string_view name, Json value);  // replaces a member of that name
  Json& push(Json value);

  // Reading: nullptr when the value is of another kind, or without that member.
  template <class T>
  [[nodiscard]] const T* get() const {
    return std::get_if<T>(&value_);
  }
  [[nodiscard]] const Json* find(std::string_view name) const;
  // A number 0 .. 2^63-1 written without fraction or exponent.
  [[nodiscard]] const std::int64_t* natural() const;
  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }

 private:
  // Whole numbers are std::int64_t when they fit.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;
};

// On one line, or indented. Text that is not UTF-8 gets U+FFFD in place of the bad bytes.
[[nodiscard]] std::string to_string(const Json& value, int indent = -1);

// Exactly one JSON value. ValueError saying where and why: bad syntax, bad UTF-8, a member given
// twice, or nesting deeper than 64.
[[nodiscard]] Json parse_json(std::string_view text);

}  // namespace tapehead::detail

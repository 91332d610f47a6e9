#include "io/json.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/message.hpp"

namespace tapehead::detail {

Json::Json(Object members) : value_(std::move(members)) {}

Json& Json::set(std::string_view name, Json value) {
  if (is_null()) value_ = Object{};
  auto& members = std::get<Object>(value_);
  for (Member& member : members) {
    if (member.name == name) {
      member.value = std::move(value);
      return *this;
    }
  }
  members.push_back(Member{std::string(name), std::move(value)});
  return *this;
}

Json& Json::push(Json value) {
  if (is_null()) value_ = Array{};
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

const Json* Json::find(std::string_view name) const {
  if (const auto* members = get<Object>()) {
    for (const Member& member : *members) {
      if (member.name == name) return &member.value;
    }
  }
  return nullptr;
}

const std::int64_t* Json::natural() const {
  const auto* number = get<std::int64_t>();
  return number != nullptr && *number >= 0 ? number : nullptr;
}

namespace {

using Printer = nlohmann::ordered_json;

Printer to_printer(const Json& value) {
  if (const auto* x = value.get<bool>()) return *x;
  if (const auto* x = value.get<std::int64_t>()) return *x;
  if (const auto* x = value.get<std::uint64_t>()) return *x;
  if (const auto* x = value.get<double>()) return *x;
  if (const auto* x = value.get<std::string>()) return *x;
  if (const auto* items = value.get<Json::Array>()) {
    Printer out = Printer::array();
    for (const Json& item : *items) out.push_back(to_printer(item));
    return out;
  }
  if (const auto* members = value.get<Json::Object>()) {
    Printer out = Printer::object();
    for (const Json::Member& member : *members) out[member.name] = to_printer(member.value);
    return out;
  }
  return nullptr;
}

// Builds a Json from the parser's events. The parser itself does not recurse, but values do when
// they are copied or destroyed, hence the limit on nesting.
class Builder {
 public:
  bool null() { return place(Json()); }
  bool boolean(bool value) { return place(value); }
  bool number_integer(std::int64_t value) { return place(value); }
  bool number_unsigned(std::uint64_t value) {
    if (std::in_range<std::int64_t>(value)) return place(static_cast<std::int64_t>(value));
    return place(value);
  }
  bool number_float(double value, const std::string&) { return place(value); }
  bool string(std::string& value) { return place(std::move(value)); }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool key(std::string& name) {
    levels_.back().names.push_back(std::move(name));
    return true;
  }
  bool end_array() {
    Level level = pop();
    return place(std::move(level.values));
  }
  bool end_object() {
    Level level = pop();
    std::vector<std::string> sorted = level.names;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
      error_ = fmt::format("member '{}' is given twice", *twice);
      return false;
    }
    Json::Object members;
    members.reserve(level.names.size());
    for (std::size_t i = 0; i < level.names.size(); ++i) {
      members.push_back(Json::Member{std::move(level.names[i]), std::move(level.values[i])});
    }
    return place(std::move(members));
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    error_ = fmt::format("it is not valid JSON at byte {}", position);
    return false;
  }

  [[nodiscard]] const std::string& error() const { return error_; }
  Json take() { return std::move(result_); }

 private:
  struct Level {
    bool object = false;
    std::vector<std::string> names;
    std::vector<Json> values;
  };
  static constexpr std::size_t kMaxDepth = 64;

  bool place(Json value) {
    if (levels_.empty()) {
      result_ = std::move(value);
    } else {
      levels_.back().values.push_back(std::move(value));
    }
    return true;
  }
  bool open(bool object) {
    if (levels_.size() == kMaxDepth) {
      error_ = fmt::format("it is nested deeper than {}", kMaxDepth);
      return false;
    }
    levels_.push_back(Level{object, {}, {}});
    return true;
  }
  Level pop() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    return level;
  }

  std::vector<Level> levels_;
  Json result_;
  std::string error_;
};

}  // namespace

std::string to_string(const Json& value, int indent) {
  return to_printer(value).dump(indent, ' ', false, Printer::error_handler_t::replace);
}

Json parse_json(std::string_view text) {
  Builder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    fail<ValueError>(fmt::format("JSON text: {}", builder.error()));
  }
  return builder.take();
}

}  // namespace tapehead::detail

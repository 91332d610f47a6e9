#include "core/place.hpp"

#include <chrono>
#include <string_view>

#include <fmt/format.h>

namespace tapehead {
namespace detail {
namespace {
thread_local Place t_place;
}  // namespace

Place& place() { return t_place; }

std::string to_string(CallSite at) {
  if (at.file() == nullptr) return "";
  const std::string_view path = at.file();
  return fmt::format("{}:{}", path.substr(path.find_last_of('/') + 1), at.line());  // npos + 1 is 0
}

Clock seconds_now = [] {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
};

}  // namespace detail

OpCall::OpCall(CallSite at) noexcept : outer_(detail::t_place.call) {
  if (outer_.file() == nullptr) detail::t_place.call = at;
  detail::OpClock* clock = detail::t_place.clock;
  if (clock != nullptr && clock->depth++ == 0) clock->since = detail::seconds_now();
}

OpCall::~OpCall() {
  detail::t_place.call = outer_;
  detail::OpClock* clock = detail::t_place.clock;
  if (clock != nullptr && clock->depth > 0) --clock->depth;
}

}  // namespace tapehead

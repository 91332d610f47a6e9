#include "core/place.hpp"

namespace tapehead {
namespace detail {
namespace {
thread_local Place t_place;
}  // namespace

Place& place() { return t_place; }

}  // namespace detail

OpCall::OpCall(CallSite at) noexcept : outer_(detail::t_place.call) {
  if (outer_.file() == nullptr) detail::t_place.call = at;
}

OpCall::~OpCall() { detail::t_place.call = outer_; }

}  // namespace tapehead

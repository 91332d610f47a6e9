// Where this thread is: the module and the call that are running.
#pragma once

#include <tapehead/call_site.hpp>

namespace tapehead::detail {

struct Place {
  const char* module = nullptr;              // path of the running module, or nullptr
  CallSite call = CallSite::at(nullptr, 0);  // outermost op or module that gave one, or no file
};

[[nodiscard]] Place& place();  // of this thread

}  // namespace tapehead::detail

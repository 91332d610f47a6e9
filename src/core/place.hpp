// Where this thread is: the module and the call that are running.
#pragma once

#include <string>

#include <tapehead/call_site.hpp>

namespace tapehead::detail {

// Seconds from some moment on. Tests put their own in.
using Clock = double (*)();
extern Clock seconds_now;

// Times the outermost op that is running; what is recorded inside of it splits the time.
struct OpClock {
  int depth = 0;     // of op calls
  double since = 0;  // when the outermost one began, or the last record in it ended
};

struct Place {
  const char* module = nullptr;              // path of the running module, or nullptr
  CallSite call = CallSite::at(nullptr, 0);  // outermost op or module that gave one, or no file
  OpClock* clock = nullptr;                  // of the recording tape, when it takes times
};

[[nodiscard]] Place& place();  // of this thread

// "demo.cpp:12"; "" for no place. The folder depends on how the compiler was called.
[[nodiscard]] std::string to_string(CallSite at);

}  // namespace tapehead::detail

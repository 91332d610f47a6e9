// Runs the program as a user would: arguments, environment, streams, signals.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

struct Result {
  int status = -1;  // exit status; -signal when a signal ended it
  std::string out;
  std::string err;
};

struct Launch {
  std::vector<std::string> arguments;
  std::filesystem::path folder = ".";  // to run in
  std::vector<std::pair<std::string, std::string>> environment = {};
  int terminal_columns = 0;   // above 0: stderr is a terminal of that width
  long file_size_limit = 0;   // above 0: writing beyond it fails, as on a full disk
  std::string out_file = {};  // stdout goes there, not to Result::out
};

// Whether this system gives out pseudo terminals: a bare chroot without /dev/pts does not.
[[nodiscard]] bool terminals_available();

// A program that is running.
class Process {
 public:
  explicit Process(const Launch& launch);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads until stdout or stderr holds `text`; false when the program ended before.
  [[nodiscard]] bool wait_for(const std::string& text);
  // Until it has a handler for the signal; false when there is none after a minute.
  [[nodiscard]] bool wait_for_handler(int signal) const;
  void send(int signal) const;
  [[nodiscard]] Result finish();

 private:
  bool read_some();  // false at the end of both streams

  pid_t child_ = -1;
  int streams_[2] = {-1, -1};
  Result result_;
};

[[nodiscard]] Result run(const Launch& launch);
[[nodiscard]] Result run(const std::vector<std::string>& arguments);

#include "cli/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <cstdlib>
#include <stdexcept>

namespace {

void check(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

struct Ends {
  int read = -1;
  int write = -1;
};

Ends make_pipe() {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  return {ends[0], ends[1]};
}

// A terminal that changes nothing of what is written to it.
Ends make_terminal(int columns) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  check(master >= 0 && ::grantpt(master) == 0 && ::unlockpt(master) == 0, "pseudo terminal");
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  check(slave >= 0, "pseudo terminal");
  termios mode = {};
  check(::tcgetattr(slave, &mode) == 0, "tcgetattr");
  ::cfmakeraw(&mode);
  check(::tcsetattr(slave, TCSANOW, &mode) == 0, "tcsetattr");
  winsize size = {};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  check(::ioctl(slave, TIOCSWINSZ, &size) == 0, "TIOCSWINSZ");
  return {master, slave};
}

[[noreturn]] void become(const Launch& launch, int out, int err) {
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (!launch.out_file.empty()) {
    ::dup2(::open(launch.out_file.c_str(), O_WRONLY | O_CREAT, 0644), STDOUT_FILENO);
  }
  for (const auto& entry : launch.environment) {
    ::setenv(entry.first.c_str(), entry.second.c_str(), 1);
  }
  if (launch.file_size_limit > 0) {
    const auto limit = static_cast<rlim_t>(launch.file_size_limit);
    const rlimit limits = {limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &limits);
    std::signal(SIGXFSZ, SIG_IGN);
  }
  std::vector<char*> arguments{const_cast<char*>("tapehead")};
  for (const std::string& argument : launch.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  if (::chdir(launch.folder.c_str()) == 0) ::execv(TAPEHEAD_PROGRAM, arguments.data());
  ::_exit(127);
}

}  // namespace

bool terminals_available() {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0) return false;
  const int slave = ::grantpt(master) == 0 && ::unlockpt(master) == 0
                        ? ::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC)
                        : -1;
  if (slave >= 0) ::close(slave);
  ::close(master);
  return slave >= 0;
}

Process::Process(const Launch& launch) {
  const Ends out = make_pipe();
  const Ends err =
      launch.terminal_columns > 0 ? make_terminal(launch.terminal_columns) : make_pipe();
  child_ = ::fork();
  check(child_ >= 0, "fork");
  if (child_ == 0) become(launch, out.write, err.write);
  ::close(out.write);
  ::close(err.write);
  streams_[0] = out.read;
  streams_[1] = err.read;
}

Process::~Process() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  for (const int stream : streams_) {
    if (stream >= 0) ::close(stream);
  }
}

bool Process::read_some() {
  std::array<pollfd, 2> ready = {pollfd{streams_[0], POLLIN, 0}, pollfd{streams_[1], POLLIN, 0}};
  check(::poll(ready.data(), ready.size(), 120'000) > 0,
        "the program says nothing for two minutes");
  for (std::size_t i = 0; i < 2; ++i) {
    if (ready[i].revents == 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(streams_[i], buffer.data(), buffer.size());
    if (count > 0) {
      (i == 0 ? result_.out : result_.err).append(buffer.data(), static_cast<std::size_t>(count));
    } else {  // the end; EIO on a terminal that nobody holds any more
      ::close(streams_[i]);
      streams_[i] = -1;
    }
  }
  return streams_[0] >= 0 || streams_[1] >= 0;
}

bool Process::wait_for(const std::string& text) {
  const auto seen = [&](const std::string& stream) {
    return stream.find(text) != std::string::npos;
  };
  while (!seen(result_.out) && !seen(result_.err)) {
    if (!read_some()) return false;
  }
  return true;
}

bool Process::wait_for_handler(int signal) const {
  for (int i = 0; i < 6000; ++i) {
    std::ifstream status("/proc/" + std::to_string(child_) + "/status");
    bool started = false;  // before that it is a copy of this program, with handlers of its own
    for (std::string line; std::getline(status, line);) {
      started = started || line == "Name:\ttapehead";
      if (!started || line.rfind("SigCgt:", 0) != 0) continue;
      if ((std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0) return true;
    }
    ::usleep(10'000);
  }
  return false;
}

void Process::send(int signal) const { ::kill(child_, signal); }

Result Process::finish() {
  while ((streams_[0] >= 0 || streams_[1] >= 0) && read_some()) {
  }
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_ = -1;
  result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return result_;
}

Result run(const Launch& launch) { return Process(launch).finish(); }

Result run(const std::vector<std::string>& arguments) {
  return run(Launch{.arguments = arguments});
}

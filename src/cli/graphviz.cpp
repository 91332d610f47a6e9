// Runs `dot -Tsvg` by its argument vector, without a shell: the graph goes in by a file without a
// name, the picture comes back by a pipe.
#include "cli/graphviz.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include <tapehead/error.hpp>

#include "io/file.hpp"

extern char** environ;

namespace tapehead::cli {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void set(int number) { number_ = number; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void fail(const std::string& what) {
  throw Error(
      fmt::format("drawing an SVG: {}; a file that ends in .dot needs no other program", what));
}

std::string read_all(int from) {
  std::string text;
  std::array<char, 65536> piece;
  while (true) {
    const ssize_t count = ::read(from, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(fmt::format("cannot read what dot draws: {}", std::strerror(errno)));
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

std::string svg_of(const std::string& dot) {
  const detail::FileHandle graph(std::tmpfile());
  if (!graph || std::fwrite(dot.data(), 1, dot.size(), graph.get()) != dot.size() ||
      std::fflush(graph.get()) != 0) {
    fail(fmt::format("cannot write a temporary file: {}", std::strerror(errno)));
  }
  std::rewind(graph.get());

  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(graph.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing.number(), STDOUT_FILENO);
  std::string program = "dot";
  std::string format = "-Tsvg";
  std::array<char*, 3> arguments{program.data(), format.data(), nullptr};
  pid_t child = -1;
  const int error =
      ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    fail("it needs the program dot of Graphviz, which is not installed: apt-get install graphviz");
  }
  if (error != 0) fail(fmt::format("cannot run dot: {}", std::strerror(error)));
  writing.close();
  std::string picture = read_all(reading.number());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail(fmt::format("lost sight of dot: {}", std::strerror(errno)));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || picture.empty())
    fail("dot of Graphviz failed");
  return picture;
}

}  // namespace tapehead::cli

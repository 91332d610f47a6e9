#include "io/file.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <unistd.h>

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead::detail {

namespace fs = std::filesystem;

void fail_file(const char* verb, const fs::path& path) {
  const int code = errno;
  fail<FileError>(fmt::format("cannot {} '{}': {}", verb, path.string(),
                              std::generic_category().message(code)));
}

void replace_file(const fs::path& path, std::span<const std::string_view> pieces) {
  fs::path temporary = path;
  temporary += fmt::format(".tmp{}", ::getpid());
  FileHandle file(std::fopen(temporary.c_str(), "wb"));
  if (!file) fail_file("write", path);

  // Removes the half-written file and reports the first error.
  const auto give_up = [&] {
    const int code = errno;
    file.reset();
    std::error_code ignored;
    fs::remove(temporary, ignored);
    errno = code;
    fail_file("write", path);
  };
  for (const std::string_view piece : pieces) {
    if (!piece.empty() && std::fwrite(piece.data(), 1, piece.size(), file.get()) != piece.size()) {
      give_up();
    }
  }
  // Without fsync a crash of the machine could leave the new name with the old, or no, contents.
  if (std::fflush(file.get()) != 0 || ::fsync(::fileno(file.get())) != 0) give_up();
  if (std::fclose(file.release()) != 0) give_up();
  if (std::rename(temporary.c_str(), path.c_str()) != 0) give_up();
}

void replace_file(const fs::path& path, std::string_view text) {
  replace_file(path, std::span<const std::string_view>(&text, 1));
}

OpenedFile open_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    fail<FileError>(fmt::format("cannot read '{}': it is not a regular file", path.string()));
  }
  OpenedFile opened{FileHandle(std::fopen(path.c_str(), "rb")), 0};
  if (!opened.handle) fail_file("read", path);
  opened.size = fs::file_size(path, error);
  if (error) {
    errno = error.value();
    fail_file("read", path);
  }
  return opened;
}

void read_exactly(std::FILE* file, const fs::path& path, void* to, std::size_t count) {
  errno = 0;
  if (count == 0 || std::fread(to, 1, count, file) == count) return;
  if (errno != 0) fail_file("read", path);
  fail<FileError>(
      fmt::format("cannot read '{}': it became shorter while being read", path.string()));
}

std::string read_file(const fs::path& path) {
  const OpenedFile file = open_file(path);
  std::string text(file.size, '\0');
  read_exactly(file.handle.get(), path, text.data(), text.size());
  return text;
}

std::string read_file_if_any(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) ? read_file(path) : "";
}

}  // namespace tapehead::detail

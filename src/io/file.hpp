// Whole files, always in binary mode; errors are FileErrors that name the file and the reason.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tapehead::detail {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FileHandle = std::unique_ptr<std::FILE, CloseFile>;

// "cannot write 'runs/a/model.safetensors': No space left on device", from errno.
[[noreturn]] void fail_file(const char* verb, const std::filesystem::path& path);

// Writes the pieces one after the other to a temporary file beside `path`, brings them to the disk
// and renames it over `path`. On an error the temporary file is removed and `path` is untouched.
void replace_file(const std::filesystem::path& path, std::span<const std::string_view> pieces);
void replace_file(const std::filesystem::path& path, std::string_view text);

struct OpenedFile {
  FileHandle handle;
  std::uint64_t size = 0;
};
// A regular file, for reading.
[[nodiscard]] OpenedFile open_file(const std::filesystem::path& path);
// Exactly `count` bytes or a FileError.
void read_exactly(std::FILE* file, const std::filesystem::path& path, void* to, std::size_t count);
// All of a regular file.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);
// The same, or "" when there is no such file.
[[nodiscard]] std::string read_file_if_any(const std::filesystem::path& path);

}  // namespace tapehead::detail

#include <tapehead/runs.hpp>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "core/message.hpp"
#include "io/file.hpp"

namespace tapehead {

namespace fs = std::filesystem;
using detail::fail;

namespace {

constexpr const char* kMetrics = "metrics.csv";
constexpr const char* kColumns =
    "step,loss,lr,grad_norm,tokens,seconds,validation_loss,validation_accuracy,"
    "validation_exact\n";

// False when something of that name is there already.
bool make_folder(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) {
    fail<FileError>(fmt::format("cannot make the folder '{}': {}", path.parent_path().string(),
                                error.message()));
  }
  const bool made = fs::create_directory(path, error);
  if (error && error != std::errc::file_exists) {
    fail<FileError>(fmt::format("cannot make the folder '{}': {}", path.string(), error.message()));
  }
  return made;
}

// "runs/a/" and "runs/a" are the same folder.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() || !path.has_parent_path() ? path : path.parent_path();
}

}  // namespace

RunFolder::RunFolder(fs::path path, std::string rows)
    : path_(std::move(path)), rows_(std::move(rows)) {
  flush_metrics();
}

RunFolder RunFolder::create(const fs::path& given) {
  const fs::path path = without_slash(given);
  if (path.empty()) fail<ValueError>("a run folder needs a name, got an empty one");
  std::error_code error;
  if (!make_folder(path) && (!fs::is_directory(path, error) || !fs::is_empty(path, error))) {
    fail<ValueError>(fmt::format(
        "'{}' is there already and not an empty folder; nothing is overwritten: name another one",
        path.string()));
  }
  return {path, kColumns};
}

RunFolder RunFolder::create_numbered(const fs::path& given) {
  const fs::path path = without_slash(given);
  fs::path candidate = path;
  for (int number = 2; !make_folder(candidate); ++number) {
    candidate = path;
    candidate += fmt::format("-{}", number);
  }
  return {candidate, kColumns};
}

RunFolder RunFolder::reopen(const fs::path& given, std::int64_t step) {
  const fs::path path = without_slash(given);
  const fs::path metrics = path / kMetrics;
  const std::string text = detail::read_file_if_any(metrics);
  // The heading and one row a step; a row without its end was never whole.
  std::size_t end = 0;
  for (std::int64_t row = 0; row <= step; ++row) {
    const std::size_t next = text.find('\n', end);
    if (next == std::string::npos) break;
    end = next + 1;
  }
  detail::replace_file(metrics, end > 0 ? std::string_view(text).substr(0, end) : kColumns);
  return {path, ""};
}

void RunFolder::write(const char* name, std::string_view text) const {
  detail::replace_file(file(name), text);
}

void RunFolder::add_metrics(const StepReport& report) {
  rows_ += fmt::format("{},{:.17g},{:.17g},{:.17g},{},{:.17g}", report.step, report.loss, report.lr,
                       report.grad_norm, report.tokens, report.seconds);
  if (report.validation != nullptr) {
    rows_ += fmt::format(",{:.17g},{:.17g},{:.17g}\n", report.validation->loss,
                         report.validation->accuracy(), report.validation->exact());
  } else {
    rows_ += ",,,\n";
  }
}

void RunFolder::flush_metrics() {
  const fs::path path = file(kMetrics);
  errno = 0;
  detail::FileHandle handle(std::fopen(path.c_str(), "ab"));
  if (!handle || std::fwrite(rows_.data(), 1, rows_.size(), handle.get()) != rows_.size() ||
      std::fflush(handle.get()) != 0) {
    detail::fail_file("write", path);
  }
  rows_.clear();
}

}  // namespace tapehead

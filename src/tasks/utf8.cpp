#include "tasks/utf8.hpp"

#include <fmt/format.h>

#include "core/message.hpp"

namespace tapehead::detail {

CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  if (first < 0x80) return {static_cast<char32_t>(first), 1};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + bytes > text.size()) return {};
  char32_t value = first & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0u) != 0x80) return {};
    value = value << 6 | (byte(at + i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[bytes] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    return {};
  }
  return {value, bytes};
}

std::vector<std::string_view> characters(std::string_view text, const std::string& name) {
  std::vector<std::string_view> list;
  std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (point.bytes == 0) {
      fail<FileError>(fmt::format(
          "'{}' is not UTF-8: the byte 0x{:02X} at offset {} starts no character; convert the file "
          "or read its bytes",
          name, static_cast<unsigned char>(text[at]), at));
    }
    list.push_back(text.substr(at, point.bytes));
    at += point.bytes;
  }
  return list;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const char end = text.find('\n') == std::string_view::npos ? '\r' : '\n';
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find(end), text.size());
    std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (end == '\n' && line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace tapehead::detail

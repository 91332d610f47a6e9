#include <algorithm>

#include <fmt/format.h>

#include "core/message.hpp"
#include "tasks/utf8.hpp"

namespace tapehead {

Vocabulary::Vocabulary(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {
  for (std::size_t id = 0; id < symbols_.size(); ++id) {
    if (symbols_[id].empty() || !ids_.emplace(symbols_[id], static_cast<std::int64_t>(id)).second) {
      detail::fail<ValueError>(
          fmt::format("vocabulary: symbol {}, '{}', is empty or there already", id, symbols_[id]));
    }
    longest_ = std::max(longest_, symbols_[id].size());
  }
}

std::string Vocabulary::symbol(std::int64_t id) const {
  if (id < 0 || id >= size()) return fmt::format("<{}>", id);
  return symbols_[static_cast<std::size_t>(id)];
}

std::optional<std::int64_t> Vocabulary::find(std::string_view symbol) const {
  const auto found = ids_.find(std::string(symbol));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::int64_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t taken = std::min(longest_, text.size() - at);
    std::optional<std::int64_t> id;
    for (; taken > 0 && !id; --taken) id = find(text.substr(at, taken));
    if (!id) {
      const detail::CodePoint bad = detail::code_point_at(text, at);
      const std::string what =
          bad.bytes == 0 ? fmt::format("the byte 0x{:02X}", static_cast<unsigned char>(text[at]))
                         : fmt::format("'{}' (U+{:04X})", text.substr(at, bad.bytes),
                                       static_cast<std::uint32_t>(bad.value));
      detail::fail<ValueError>(
          fmt::format("{} at byte {} of the text is none of the {} symbols the model knows; leave "
                      "it out or train on text that has it",
                      what, at, size()));
    }
    ids.push_back(*id);
    at += taken + 1;
  }
  return ids;
}

std::string Vocabulary::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const std::int64_t id : ids) text += symbol(id);
  return text;
}

}  // namespace tapehead

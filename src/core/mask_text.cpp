// Masks for people: pictures, and a second look at what is often got wrong.
#include <algorithm>

#include <fmt/format.h>

#include "core/message.hpp"

#include <tapehead/mask.hpp>

namespace tapehead {
namespace {

using Row = std::vector<unsigned char>;

void check_sizes(const char* what, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) {
    if (size < 0)
      detail::fail<ShapeError>(fmt::format("{}: sizes must be at least 0, got {}", what, size));
  }
}

std::string title(const Mask& mask, std::int64_t batch, std::int64_t head) {
  return fmt::format("{}: sample {}, head {}, # visible, . blocked\n", mask.name(), batch, head);
}

void append_row(std::string& text, const Mask& mask, std::int64_t batch, std::int64_t head,
                std::int64_t query, Row& visible) {
  mask.row(batch, head, query, visible);
  for (const unsigned char v : visible) text += v != 0 ? '#' : '.';
}

void trim(std::string& text) {
  while (text.back() == ' ') text.pop_back();
}

// The characters of a UTF-8 text; bytes that are none stand alone.
std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> list;
  for (const char c : text) {
    const bool goes_on = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (list.empty() || !goes_on) list.emplace_back();
    list.back() += c;
  }
  return list;
}

// What all pairs of one sample and head look like.
struct Look {
  bool some_row_blind = false, every_row_all_or_nothing = true, some_row_sees = false;
  bool before = false, self = false, after = false;  // a visible key before, at, after its query
  bool all_after = true;                             // every key after its query is visible
  std::int64_t blind_query = 0;
};

Look look_at(const Mask& mask, std::int64_t batch, std::int64_t head, std::int64_t queries,
             std::int64_t keys) {
  Look look;
  Row visible(static_cast<std::size_t>(keys));
  for (std::int64_t q = 0; q < queries; ++q) {
    mask.row(batch, head, q, visible);
    const auto count = std::count(visible.begin(), visible.end(), 1);
    if (count == 0 && !look.some_row_blind) {
      look.some_row_blind = true;
      look.blind_query = q;
    }
    look.some_row_sees = look.some_row_sees || count > 0;
    look.every_row_all_or_nothing = look.every_row_all_or_nothing && (count == 0 || count == keys);
    for (std::int64_t k = 0; k < keys; ++k) {
      const bool seen = visible[static_cast<std::size_t>(k)] != 0;
      (k < q ? look.before : k == q ? look.self : look.after) |= seen;
      look.all_after = look.all_after && (k <= q || seen);
    }
  }
  return look;
}

}  // namespace

std::string to_string(const Mask& mask, std::int64_t queries, std::int64_t keys, std::int64_t batch,
                      std::int64_t head) {
  constexpr std::int64_t kStep = 5;  // every fifth key carries its number
  check_sizes("to_string(Mask)", {batch, head, queries, keys});
  const std::size_t label = std::max<std::size_t>(5, fmt::formatted_size("{}", queries));
  std::string text = title(mask, batch, head);
  text += fmt::format("{:<{}} key\n{:<{}} ", "", label, "query", label);
  for (std::int64_t key = 0; key < keys; key += kStep) text += fmt::format("{:<{}}", key, kStep);
  trim(text);
  Row visible(static_cast<std::size_t>(keys));
  for (std::int64_t query = 0; query < queries; ++query) {
    text += fmt::format("\n{:>{}} ", query, label);
    append_row(text, mask, batch, head, query, visible);
  }
  return text + "\n";
}

std::string to_string(const Mask& mask, const std::vector<std::string>& queries,
                      const std::vector<std::string>& keys, std::int64_t batch, std::int64_t head) {
  check_sizes("to_string(Mask)", {batch, head});
  std::size_t width = 0;
  for (const std::string& label : queries) width = std::max(width, characters(label).size());
  std::vector<std::vector<std::string>> columns;
  std::size_t height = 0;
  for (const std::string& label : keys) {
    columns.push_back(characters(label));
    height = std::max(height, columns.back().size());
  }
  std::string text = title(mask, batch, head);
  for (std::size_t line = 0; line < height; ++line) {
    text += std::string(width + 1, ' ');
    for (const auto& column : columns) {
      const std::size_t missing = height - column.size();  // labels end just above their column
      text += line < missing ? " " : column[line - missing];
    }
    trim(text);
    text += '\n';
  }
  Row visible(keys.size());
  for (std::size_t query = 0; query < queries.size(); ++query) {
    text += std::string(width - characters(queries[query]).size(), ' ') + queries[query] + ' ';
    append_row(text, mask, batch, head, static_cast<std::int64_t>(query), visible);
    text += '\n';
  }
  return text;
}

std::vector<std::string> lint(const Mask& mask, std::int64_t batch, std::int64_t heads,
                              std::int64_t queries, std::int64_t keys) {
  check_sizes("lint(Mask)", {batch, heads, queries, keys});
  mask.check("lint(Mask)", batch, heads, queries, keys);
  const std::int64_t batches = mask.per_batch() ? batch : std::min<std::int64_t>(1, batch);
  const std::int64_t all_heads = mask.per_head() ? heads : std::min<std::int64_t>(1, heads);
  std::string blind;
  bool by_query = false, backwards = batches * all_heads > 0, future = backwards;
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t h = 0; h < all_heads; ++h) {
      const Look look = look_at(mask, b, h, queries, keys);
      if (look.some_row_blind && blind.empty())
        blind = fmt::format("query {} of sample {}, head {}", look.blind_query, b, h);
      by_query = by_query || (keys > 1 && look.some_row_blind && look.some_row_sees &&
                              look.every_row_all_or_nothing);
      backwards = backwards && !look.before && look.self && look.after;
      future = future && !look.before && !look.self && look.after && look.all_after;
    }
  }
  std::vector<std::string> hints;
  if (!blind.empty()) {
    hints.push_back(fmt::format("{}: {} sees nothing, so its output is 0 and it learns nothing",
                                mask.name(), blind));
  }
  if (by_query) {
    hints.push_back(fmt::format(
        "{}: each query sees all keys or none: is this padding, said of queries in place of keys? "
        "Mask::lengths, or the axes \"batch key\" in place of \"batch query\"",
        mask.name()));
  }
  if (backwards && queries == keys) {
    hints.push_back(
        fmt::format("{}: queries see themselves and later keys only: a causal mask transposed? "
                    "Mask::causal, or the axes \"query key\" in place of \"key query\"",
                    mask.name()));
  }
  if (future && queries == keys) {
    hints.push_back(
        fmt::format("{}: queries see exactly the keys after them: keep in place of block, or the "
                    "reverse?",
                    mask.name()));
  }
  return hints;
}

}  // namespace tapehead

// The named masks: each rule in its own words.
#include <algorithm>

#include <fmt/format.h>

#include "core/access.hpp"
#include "core/mask_node.hpp"
#include "core/message.hpp"

namespace tapehead {

using detail::fail;
using Cover = Mask::Cover;

namespace {

using Numbers = std::vector<std::int64_t>;

// The same answer everywhere.
struct Constant final : Mask::Node {
  Constant(std::string its_name, bool is_visible)
      : Node(std::move(its_name)), visible(is_visible) {}
  bool sees(std::int64_t, std::int64_t, std::int64_t, std::int64_t) const override {
    return visible;
  }
  Cover cover(std::int64_t, std::int64_t, const Rectangle&) const override {
    return visible ? Cover::all : Cover::none;
  }
  bool visible;
};

// Rules whose visible keys are one interval for each query, and whose two ends never move back as
// the query grows: the first and the last query of a rectangle answer for all between them.
struct IntervalRule : Mask::Node {
  struct Keys {
    std::int64_t begin, end;  // end exclusive
  };
  using Node::Node;
  [[nodiscard]] virtual Keys keys(std::int64_t batch, std::int64_t query) const = 0;

  bool sees(std::int64_t batch, std::int64_t, std::int64_t query, std::int64_t key) const final {
    const Keys visible = keys(batch, query);
    return visible.begin <= key && key < visible.end;
  }
  Cover cover(std::int64_t batch, std::int64_t, const Rectangle& r) const final {
    const Keys first = keys(batch, r.q0);
    const Keys last = keys(batch, r.q1 - 1);
    if (r.k1 <= first.begin || r.k0 >= last.end) return Cover::none;
    if (r.k0 >= last.begin && r.k1 <= first.end) return Cover::all;
    return Cover::mixed;
  }
  void row(std::int64_t batch, std::int64_t, std::int64_t query, std::int64_t first_key,
           std::span<unsigned char> visible) const final {
    const auto place = [&](std::int64_t key) {
      return std::clamp<std::int64_t>(key - first_key, 0,
                                      static_cast<std::int64_t>(visible.size()));
    };
    const Keys seen = keys(batch, query);
    const std::int64_t begin = place(seen.begin);
    const std::int64_t end = std::max(begin, place(seen.end));
    std::ranges::fill(visible, static_cast<unsigned char>(0));
    std::fill(visible.begin() + begin, visible.begin() + end, static_cast<unsigned char>(1));
  }
};

struct Causal final : IntervalRule {
  // Query t sees keys 0..t + ahead.
  Causal(std::string its_name, std::int64_t queries, std::int64_t keys, std::int64_t keys_ahead)
      : IntervalRule(std::move(its_name)), ahead(keys_ahead) {
    sizes = {kAny, kAny, queries, keys};
  }
  Keys keys(std::int64_t, std::int64_t query) const override { return {0, query + ahead + 1}; }
  std::int64_t ahead;
};

struct Lengths final : IntervalRule {
  Lengths(std::string its_name, Numbers real_keys, std::int64_t keys)
      : IntervalRule(std::move(its_name)), lengths(std::move(real_keys)) {
    sizes = {static_cast<std::int64_t>(lengths.size()), kAny, kAny, keys};
    per_batch = true;
  }
  Keys keys(std::int64_t batch, std::int64_t) const override {
    return {0, lengths[static_cast<std::size_t>(batch)]};
  }
  Numbers lengths;
};

struct Prefix final : IntervalRule {
  Prefix(std::string its_name, Numbers visible_to_all, std::int64_t length)
      : IntervalRule(std::move(its_name)), prefix(std::move(visible_to_all)) {
    sizes = {static_cast<std::int64_t>(prefix.size()), kAny, length, length};
    per_batch = true;
  }
  Keys keys(std::int64_t batch, std::int64_t query) const override {
    return {0, std::max(prefix[static_cast<std::size_t>(batch)], query + 1)};
  }
  Numbers prefix;
};

struct Window final : IntervalRule {
  // Query t stands at key t + its_offset.
  Window(std::string its_name, std::int64_t keys_before, std::int64_t keys_after,
         std::int64_t its_offset = 0)
      : IntervalRule(std::move(its_name)),
        before(keys_before),
        after(keys_after),
        offset(its_offset) {}
  Keys keys(std::int64_t, std::int64_t query) const override {
    return {query + offset - before, query + offset + after + 1};
  }
  std::int64_t before, after, offset;
};

// A query sees the keys that carry its own number.
struct Documents final : Mask::Node {
  Documents(std::string its_name, const Tensor& numbers_of_queries, const Tensor& numbers_of_keys)
      : Node(std::move(its_name)), of_queries(numbers_of_queries), of_keys(numbers_of_keys) {
    sizes = {of_queries.dim(0), kAny, of_queries.dim(1), of_keys.dim(1)};
    per_batch = true;
  }
  static const std::int64_t* row_of(const Tensor& numbers, std::int64_t batch) {
    return detail::in<std::int64_t>(numbers) + batch * numbers.dim(1);
  }
  bool sees(std::int64_t batch, std::int64_t, std::int64_t query, std::int64_t key) const override {
    return row_of(of_queries, batch)[query] == row_of(of_keys, batch)[key];
  }
  // Looks at queries + keys numbers in place of queries * keys pairs.
  Cover cover(std::int64_t batch, std::int64_t, const Rectangle& r) const override {
    const std::int64_t* q = row_of(of_queries, batch);
    const std::int64_t* k = row_of(of_keys, batch);
    const auto queries = std::minmax_element(q + r.q0, q + r.q1);
    const auto keys = std::minmax_element(k + r.k0, k + r.k1);
    if (*queries.second < *keys.first || *keys.second < *queries.first) return Cover::none;
    const bool one = *queries.first == *queries.second && *keys.first == *keys.second;
    return one ? Cover::all : Cover::mixed;
  }
  Tensor of_queries, of_keys;
};

struct UserRule final : Mask::Node {
  UserRule(std::string its_name, Mask::Rule rule)
      : Node(std::move(its_name)), call(std::move(rule)) {
    per_batch = true;
    per_head = true;
    user_rule = true;
  }
  bool sees(std::int64_t batch, std::int64_t head, std::int64_t query,
            std::int64_t key) const override {
    return call(batch, head, query, key);
  }
  Cover cover(std::int64_t, std::int64_t, const Rectangle&) const override { return Cover::mixed; }
  Mask::Rule call;
};

void check_size(std::string_view rule, std::string_view what, std::int64_t size) {
  if (size < 0)
    fail<ValueError>(fmt::format("Mask::{}: {} must be at least 0, got {}", rule, what, size));
}

void check_documents(const Tensor& documents) {
  detail::check_dtype("Mask::documents", documents, DType::i64, "documents");
  if (documents.rank() == 2) return;
  fail<ShapeError>(
      fmt::format("Mask::documents: needs [batch, length], got {}", to_string(documents.shape())));
}

// No sequence is that long, and query + after + 1 must not overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 61;

// "{3, 5, 2}"; long lists are shortened.
std::string list(const Numbers& numbers) {
  constexpr std::size_t kShown = 6;
  std::string text = "{";
  for (std::size_t i = 0; i < std::min(numbers.size(), kShown); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", numbers[i]);
  if (numbers.size() > kShown) text += fmt::format(", ... {} in all", numbers.size());
  return text + "}";
}

// One number for each sample, each in 0..limit.
void check_numbers(std::string_view rule, const Numbers& numbers, std::int64_t limit,
                   std::string_view of_what) {
  check_size(rule, of_what, limit);
  for (std::size_t b = 0; b < numbers.size(); ++b) {
    if (numbers[b] < 0 || numbers[b] > limit) {
      fail<ValueError>(fmt::format("Mask::{}: sample {} has {}, which is outside 0..{} ({})", rule,
                                   b, numbers[b], limit, of_what));
    }
  }
}

const std::shared_ptr<const Constant>& everything() {
  static const auto mask = std::make_shared<const Constant>("all", true);
  return mask;
}

}  // namespace

Mask Mask::all() { return {}; }

Mask::Mask() : node_(everything()) {}

Mask Mask::none() {
  static const auto nothing = std::make_shared<const Constant>("none", false);
  return Mask(nothing);
}

Mask Mask::causal(std::int64_t length) {
  check_size("causal", "the length", length);
  auto node = std::make_shared<Causal>(fmt::format("causal({})", length), length, length, 0);
  node->advice =
      "build the mask for these sizes; for unequal numbers of queries and keys say how they line "
      "up: Mask::causal(queries, keys, Align::first or Align::last)";
  return Mask(std::move(node));
}

Mask Mask::causal(std::int64_t queries, std::int64_t keys, Align align) {
  check_size("causal", "queries", queries);
  check_size("causal", "keys", keys);
  const bool last = align == Align::last;
  const std::string name =
      fmt::format("causal({}, {}, {})", queries, keys, last ? "last" : "first");
  return Mask(std::make_shared<Causal>(name, queries, keys, last ? keys - queries : 0));
}

Mask Mask::lengths(Numbers lengths, std::int64_t keys) {
  check_numbers("lengths", lengths, keys, "keys");
  const std::string name = fmt::format("lengths({}, {})", list(lengths), keys);
  return Mask(std::make_shared<Lengths>(name, std::move(lengths), keys));
}

Mask Mask::window(std::int64_t before, std::int64_t after) {
  check_size("window", "before", before);
  check_size("window", "after", after);
  const std::string name = fmt::format("window({}, {})", before, after);
  auto node = std::make_shared<Window>(name, std::min(before, kFar), std::min(after, kFar));
  node->square = true;
  node->advice =
      "for unequal numbers of queries and keys say how they line up: Mask::window(before, after, "
      "queries, keys, Align::first or Align::last)";
  return Mask(std::move(node));
}

Mask Mask::window(std::int64_t before, std::int64_t after, std::int64_t queries, std::int64_t keys,
                  Align align) {
  check_size("window", "before", before);
  check_size("window", "after", after);
  check_size("window", "queries", queries);
  check_size("window", "keys", keys);
  const bool last = align == Align::last;
  const std::string name = fmt::format("window({}, {}, {}, {}, {})", before, after, queries, keys,
                                       last ? "last" : "first");
  auto node = std::make_shared<Window>(name, std::min(before, kFar), std::min(after, kFar),
                                       last ? keys - queries : 0);
  node->sizes = {Node::kAny, Node::kAny, queries, keys};
  return Mask(std::move(node));
}

Mask Mask::prefix(Numbers prefix, std::int64_t length) {
  check_numbers("prefix", prefix, length, "length");
  const std::string name = fmt::format("prefix({}, {})", list(prefix), length);
  return Mask(std::make_shared<Prefix>(name, std::move(prefix), length));
}

Mask Mask::documents(const Tensor& documents) {
  check_documents(documents);
  const std::string name =
      fmt::format("documents({})", detail::named(documents.shape(), {"batch", "length"}));
  return Mask(std::make_shared<Documents>(name, documents, documents));
}

Mask Mask::documents(const Tensor& of_queries, const Tensor& of_keys) {
  check_documents(of_queries);
  check_documents(of_keys);
  if (of_queries.dim(0) != of_keys.dim(0)) {
    fail<ShapeError>(
        fmt::format("Mask::documents: queries of a batch of {}, keys of one of {}; give both for "
                    "the same samples",
                    of_queries.dim(0), of_keys.dim(0)));
  }
  const std::string name = fmt::format(
      "documents({})", detail::named({of_queries.dim(0), of_queries.dim(1), of_keys.dim(1)},
                                     {"batch", "queries", "keys"}));
  return Mask(std::make_shared<Documents>(name, of_queries, of_keys));
}

Mask Mask::rule(Rule sees, std::string name) {
  if (!sees) fail<ValueError>("Mask::rule: the function is empty");
  return Mask(std::make_shared<UserRule>(std::move(name), std::move(sees)));
}

}  // namespace tapehead

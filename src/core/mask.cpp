// Joins of masks, and the questions that every mask answers.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/access.hpp"
#include "core/mask_node.hpp"
#include "core/message.hpp"

namespace tapehead {

using detail::fail;
using Cover = Mask::Cover;
using Node = Mask::Node;

namespace {

constexpr std::array<std::string_view, 4> kAxisNames = {"batch", "heads", "queries", "keys"};

std::string describe(const Node::Sizes& sizes) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == Node::kAny) continue;
    text += fmt::format("{}{} {}", text.size() > 1 ? ", " : "", kAxisNames[axis], sizes[axis]);
  }
  return text + "]";
}

Cover flipped(Cover cover) {
  if (cover == Cover::mixed) return cover;
  return cover == Cover::all ? Cover::none : Cover::all;
}

struct Negation final : Node {
  explicit Negation(std::shared_ptr<const Node> negated)
      : Node(negated->loose_name ? fmt::format("!({})", negated->name)
                                 : fmt::format("!{}", negated->name)),
        a(std::move(negated)) {
    sizes = a->sizes;
    square = a->square;
    per_batch = a->per_batch;
    per_head = a->per_head;
    user_rule = a->user_rule;
  }
  bool sees(std::int64_t batch, std::int64_t head, std::int64_t query,
            std::int64_t key) const override {
    return !a->sees(batch, head, query, key);
  }
  Cover cover(std::int64_t batch, std::int64_t head, const Rectangle& r) const override {
    return flipped(a->cover(batch, head, r));
  }
  void row(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t first_key,
           std::span<unsigned char> visible) const override {
    a->row(batch, head, query, first_key, visible);
    for (unsigned char& v : visible) v = v == 0;
  }
  void check(const char* op, const Sizes& scores) const override { a->check(op, scores); }
  std::shared_ptr<const Node> a;
};

// a & b, or a | b. One side alone decides: none for &, all for |.
struct Join final : Node {
  Join(std::shared_ptr<const Node> left, std::shared_ptr<const Node> right, bool is_and)
      : Node(joined_name(*left, *right, is_and)),
        a(std::move(left)),
        b(std::move(right)),
        both(is_and) {
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      sizes[axis] = a->sizes[axis] == kAny ? b->sizes[axis] : a->sizes[axis];
    }
    square = a->square || b->square;
    per_batch = a->per_batch || b->per_batch;
    per_head = a->per_head || b->per_head;
    user_rule = a->user_rule || b->user_rule;
    loose_name = true;
  }
  static std::string joined_name(const Node& a, const Node& b, bool is_and) {
    const auto part = [&](const Node& node) {
      const auto* join = dynamic_cast<const Join*>(&node);
      const bool same = join == nullptr || join->both == is_and;
      return same ? node.name : fmt::format("({})", node.name);
    };
    return fmt::format("{} {} {}", part(a), is_and ? '&' : '|', part(b));
  }
  bool sees(std::int64_t batch, std::int64_t head, std::int64_t query,
            std::int64_t key) const override {
    return a->sees(batch, head, query, key) == both ? b->sees(batch, head, query, key) : !both;
  }
  Cover cover(std::int64_t batch, std::int64_t head, const Rectangle& r) const override {
    const Cover decisive = both ? Cover::none : Cover::all;
    const Cover left = a->cover(batch, head, r);
    if (left == decisive) return decisive;
    const Cover right = b->cover(batch, head, r);
    if (right == decisive) return decisive;
    return left == right ? left : Cover::mixed;
  }
  void row(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t first_key,
           std::span<unsigned char> visible) const override {
    a->row(batch, head, query, first_key, visible);
    std::array<unsigned char, 256> piece;
    for (std::size_t at = 0; at < visible.size(); at += piece.size()) {
      const std::size_t count = std::min(piece.size(), visible.size() - at);
      b->row(batch, head, query, first_key + static_cast<std::int64_t>(at), {piece.data(), count});
      for (std::size_t i = 0; i < count; ++i) {
        const int v = both ? visible[at + i] & piece[i] : visible[at + i] | piece[i];
        visible[at + i] = static_cast<unsigned char>(v);
      }
    }
  }
  void check(const char* op, const Sizes& scores) const override {
    a->check(op, scores);
    b->check(op, scores);
  }
  std::shared_ptr<const Node> a, b;
  bool both;
};

std::shared_ptr<const Node> join(const std::shared_ptr<const Node>& a,
                                 const std::shared_ptr<const Node>& b, bool is_and) {
  for (std::size_t axis = 0; axis < a->sizes.size(); ++axis) {
    const std::int64_t x = a->sizes[axis];
    const std::int64_t y = b->sizes[axis];
    if (x == Node::kAny || y == Node::kAny || x == y) continue;
    fail<ShapeError>(fmt::format(
        "Mask {}: {} is made for {} and {} for {}: {} {} is not {}; build both for the same sizes",
        is_and ? '&' : '|', a->name, describe(a->sizes), b->name, describe(b->sizes),
        kAxisNames[axis], x, y));
  }
  return std::make_shared<Join>(a, b, is_and);
}

void check_inside(const Node& node, const Node::Sizes& index) {
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    const std::int64_t size = node.sizes[axis];
    if (index[axis] >= 0 && (size == Node::kAny || index[axis] < size)) continue;
    fail<IndexError>(fmt::format("mask {}: {} index {} is outside {}", node.name, kAxisNames[axis],
                                 index[axis], describe(node.sizes)));
  }
}

void check_sizes(const char* what, const Node::Sizes& sizes) {
  if (std::ranges::any_of(sizes, [](std::int64_t size) { return size < 0; }))
    fail<ShapeError>(fmt::format("{}: sizes must be at least 0, got {}", what, describe(sizes)));
}

}  // namespace

void Node::row(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t first_key,
               std::span<unsigned char> visible) const {
  for (std::size_t i = 0; i < visible.size(); ++i)
    visible[i] = sees(batch, head, query, first_key + static_cast<std::int64_t>(i));
}

void Node::check(const char* op, const Sizes& scores) const {
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == kAny || sizes[axis] == scores[axis]) continue;
    fail<ShapeError>(fmt::format(
        "{}: mask {} is made for {}, but the scores are {}: {} {} is not {}; {}", op, name,
        describe(sizes), describe(scores), kAxisNames[axis], sizes[axis], scores[axis], advice));
  }
  if (square && scores[2] != scores[3]) {
    fail<ShapeError>(fmt::format("{}: mask {} does not fit {} queries and {} keys; {}", op, name,
                                 scores[2], scores[3], advice));
  }
}

Mask::Mask(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

Mask operator&(const Mask& a, const Mask& b) {
  if (a.is_all()) return b;
  if (b.is_all()) return a;
  return Mask(join(a.node_, b.node_, true));
}

Mask operator|(const Mask& a, const Mask& b) { return Mask(join(a.node_, b.node_, false)); }

Mask operator!(const Mask& mask) { return Mask(std::make_shared<Negation>(mask.node_)); }

bool Mask::sees(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const {
  check_inside(*node_, {batch, head, query, key});
  return node_->sees(batch, head, query, key);
}

Cover Mask::cover(std::int64_t batch, std::int64_t head, std::int64_t q0, std::int64_t q1,
                  std::int64_t k0, std::int64_t k1) const {
  if (q0 >= q1 || k0 >= k1) return Cover::none;
  check_inside(*node_, {batch, head, q0, k0});
  check_inside(*node_, {batch, head, q1 - 1, k1 - 1});
  return node_->cover(batch, head, {q0, q1, k0, k1});
}

bool Mask::per_batch() const { return node_->per_batch; }
bool Mask::per_head() const { return node_->per_head; }
bool Mask::is_all() const { return node_ == Mask().node_; }
const std::string& Mask::name() const { return node_->name; }

void Mask::check(const char* op, std::int64_t batch, std::int64_t heads, std::int64_t queries,
                 std::int64_t keys) const {
  node_->check(op, {batch, heads, queries, keys});
}

void Mask::row(std::int64_t batch, std::int64_t head, std::int64_t query,
               std::span<unsigned char> visible, std::int64_t first_key) const {
  if (visible.empty()) return;
  const std::int64_t last_key = first_key + static_cast<std::int64_t>(visible.size()) - 1;
  check_inside(*node_, {batch, head, query, first_key});
  check_inside(*node_, {batch, head, query, last_key});
  node_->row(batch, head, query, first_key, visible);
}

// Serial, as the user's own rule may be anything.
Tensor Mask::dense(std::int64_t batch, std::int64_t heads, std::int64_t queries,
                   std::int64_t keys) const {
  check_sizes("Mask::dense", {batch, heads, queries, keys});
  check("Mask::dense", batch, heads, queries, keys);
  Tensor table = detail::empty({batch, heads, queries, keys}, DType::boolean);
  unsigned char* row = detail::out<unsigned char>(table);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t q = 0; q < queries; ++q, row += keys)
        node_->row(b, h, q, 0, {row, static_cast<std::size_t>(keys)});
    }
  }
  return table;
}

Mask Mask::tabulated(std::int64_t batch, std::int64_t heads, std::int64_t queries,
                     std::int64_t keys) const {
  if (!node_->user_rule) return *this;
  return keep(dense(batch, heads, queries, keys), "batch head query key");
}

}  // namespace tapehead

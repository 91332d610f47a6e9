// Mask: which keys a query may see. One type, one meaning.
//
// A mask is built only by the named functions below, joined with & and |, negated with !, and
// printable as a picture. Blocked means weight exactly 0 by selection, never by adding a large
// number. A mask is a rule, not a table: sees(batch, head, query, key) is a pure function, and
// cover() answers for a whole rectangle, so that kernels skip what is blocked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tapehead/tensor.hpp>

namespace tapehead {

// How causal lines up when there are more keys than queries (or fewer).
enum class Align {
  first,  // query 0 sees key 0: both sequences start together
  last,   // the last query sees the last key: the queries are the newest positions
};

// The axes of a boolean tensor given to Mask::keep and Mask::block, in order, e.g. "batch key",
// "query key", "batch head query key". An axis not named is broadcast; a named one may be of
// size 1.
using MaskAxes = std::string_view;

class Mask {
 public:
  // What a rectangle of (query, key) pairs looks like.
  enum class Cover { none, all, mixed };  // nothing visible, everything visible, some of both

  using Rule = std::function<bool(std::int64_t batch, std::int64_t head, std::int64_t query,
                                  std::int64_t key)>;

  Mask();  // everything is visible, for any sizes

  [[nodiscard]] static Mask all();
  [[nodiscard]] static Mask none();
  // Query t sees keys 0..t; as many keys as queries.
  [[nodiscard]] static Mask causal(std::int64_t length);
  [[nodiscard]] static Mask causal(std::int64_t queries, std::int64_t keys, Align align);
  // Sample b has lengths[b] real keys of `keys`; the rest is padding that nobody sees.
  [[nodiscard]] static Mask lengths(std::vector<std::int64_t> lengths, std::int64_t keys);
  // true means visible (keep) or blocked (block). `allowed` is boolean: DTypeError for numbers.
  [[nodiscard]] static Mask keep(const Tensor& visible, MaskAxes axes);
  [[nodiscard]] static Mask block(const Tensor& blocked, MaskAxes axes);
  // |query - key| <= before/after: query t sees keys t-before .. t+after. Equal lengths.
  [[nodiscard]] static Mask window(std::int64_t before, std::int64_t after);
  // Keys 0..prefix[b]-1 are visible to all queries of sample b, the rest causally.
  [[nodiscard]] static Mask prefix(std::vector<std::int64_t> prefix, std::int64_t length);
  // documents [batch, length] of i64: a query sees the keys of its own document.
  [[nodiscard]] static Mask documents(const Tensor& documents);
  // The user's own rule: must be a pure function.
  [[nodiscard]] static Mask rule(Rule sees, std::string name = "rule");

  friend Mask operator&(const Mask& a, const Mask& b);  // visible in both
  friend Mask operator|(const Mask& a, const Mask& b);  // visible in either
  friend Mask operator!(const Mask& mask);              // visible where blocked

  [[nodiscard]] bool sees(std::int64_t batch, std::int64_t head, std::int64_t query,
                          std::int64_t key) const;
  // Queries q0..q1-1 and keys k0..k1-1 of one sample and head. May answer mixed when unsure.
  [[nodiscard]] Cover cover(std::int64_t batch, std::int64_t head, std::int64_t q0, std::int64_t q1,
                            std::int64_t k0, std::int64_t k1) const;
  // Whether the answer can depend on the head or the sample at all.
  [[nodiscard]] bool per_batch() const;
  [[nodiscard]] bool per_head() const;
  [[nodiscard]] bool is_all() const;

  // ShapeError unless the mask fits scores [batch, heads, queries, keys]; `op` is named in it.
  void check(const char* op, std::int64_t batch, std::int64_t heads, std::int64_t queries,
             std::int64_t keys) const;
  // Row (batch, head, query): 1 for each visible key of 0..keys-1.
  void row(std::int64_t batch, std::int64_t head, std::int64_t query,
           std::span<unsigned char> visible) const;
  // The whole table [batch, heads, queries, keys], boolean, true = visible.
  [[nodiscard]] Tensor dense(std::int64_t batch, std::int64_t heads, std::int64_t queries,
                             std::int64_t keys) const;

  [[nodiscard]] const std::string& name() const;  // "causal(4) & lengths({3, 5}, 8)"

  struct Node;  // one rule or join (src/core/mask.cpp)

 private:
  explicit Mask(std::shared_ptr<const Node> node);
  std::shared_ptr<const Node> node_;
};

// A picture of one sample and head with query and key labels: '#' visible, '.' blocked.
[[nodiscard]] std::string to_string(const Mask& mask, std::int64_t queries, std::int64_t keys,
                                    std::int64_t batch = 0, std::int64_t head = 0);

}  // namespace tapehead

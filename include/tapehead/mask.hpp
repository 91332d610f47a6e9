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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/tensor.hpp>

namespace tapehead {

// How causal lines up when there are more keys than queries (or fewer).
enum class Align {
  first,  // query 0 sees key 0: both sequences start together
  last,   // the last query sees the last key: the queries are the newest positions
};

// The axes of a boolean tensor given to Mask::keep and Mask::block, in the tensor's order, e.g.
// "batch key", "query key", "batch head query key". An axis not named is broadcast; so is a named
// one of size 1.
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
  // true means visible (keep) or blocked (block). DTypeError for anything but booleans: a number
  // could be meant as a score to add.
  [[nodiscard]] static Mask keep(const Tensor& visible, MaskAxes axes);
  [[nodiscard]] static Mask block(const Tensor& blocked, MaskAxes axes);
  // Query t sees keys t-before .. t+after; as many keys as queries.
  [[nodiscard]] static Mask window(std::int64_t before, std::int64_t after);
  // With other numbers of queries and keys: the query that stands at key t sees t-before ..
  // t+after.
  [[nodiscard]] static Mask window(std::int64_t before, std::int64_t after, std::int64_t queries,
                                   std::int64_t keys, Align align);
  // Keys 0..prefix[b]-1 are visible to all queries of sample b, the rest causally.
  [[nodiscard]] static Mask prefix(std::vector<std::int64_t> prefix, std::int64_t length);
  // documents [batch, length] of i64, the document each position belongs to: a query sees the keys
  // of its own document. Packed sequences: Mask::documents(d) & Mask::causal(length).
  [[nodiscard]] static Mask documents(const Tensor& documents);
  // The same across two sequences: of_queries [batch, queries], of_keys [batch, keys].
  [[nodiscard]] static Mask documents(const Tensor& of_queries, const Tensor& of_keys);
  // The user's own rule, a pure function. Ops call it on the calling thread, once for each
  // (batch, head, query, key).
  [[nodiscard]] static Mask rule(Rule sees, std::string name = "rule");

  friend Mask operator&(const Mask& a, const Mask& b);
  friend Mask operator|(const Mask& a, const Mask& b);
  friend Mask operator!(const Mask& mask);

  // IndexError outside the sizes the mask is made for.
  [[nodiscard]] bool sees(std::int64_t batch, std::int64_t head, std::int64_t query,
                          std::int64_t key) const;
  // Queries q0..q1-1 and keys k0..k1-1 of one sample and head. May answer mixed when unsure; an
  // empty rectangle is none.
  [[nodiscard]] Cover cover(std::int64_t batch, std::int64_t head, std::int64_t q0, std::int64_t q1,
                            std::int64_t k0, std::int64_t k1) const;
  // Whether the answer can depend on the head or the sample at all.
  [[nodiscard]] bool per_batch() const;
  [[nodiscard]] bool per_head() const;
  [[nodiscard]] bool is_all() const;

  // ShapeError unless the mask fits scores [batch, heads, queries, keys]; `op` is named in it.
  void check(const char* op, std::int64_t batch, std::int64_t heads, std::int64_t queries,
             std::int64_t keys) const;
  // Part of row (batch, head, query): visible[i] becomes 1 where key first_key + i is visible, else
  // 0.
  void row(std::int64_t batch, std::int64_t head, std::int64_t query,
           std::span<unsigned char> visible, std::int64_t first_key = 0) const;
  // The whole table [batch, heads, queries, keys], boolean, true = visible.
  [[nodiscard]] Tensor dense(std::int64_t batch, std::int64_t heads, std::int64_t queries,
                             std::int64_t keys) const;

  // The same mask for scores of these sizes, safe to ask from several threads: the user's own rules
  // are called here and become a table; a mask without such rules is returned as it is.
  [[nodiscard]] Mask tabulated(std::int64_t batch, std::int64_t heads, std::int64_t queries,
                               std::int64_t keys) const;

  [[nodiscard]] const std::string& name() const;  // "causal(8) & lengths({3, 5}, 8)"

  struct Node;  // one rule or join (src/core/mask_node.hpp)

 private:
  explicit Mask(std::shared_ptr<const Node> node);
  std::shared_ptr<const Node> node_;
};

// Joins; ShapeError when the two are made for different sizes.
[[nodiscard]] Mask operator&(const Mask& a, const Mask& b);  // visible in both
[[nodiscard]] Mask operator|(const Mask& a, const Mask& b);  // visible in either
[[nodiscard]] Mask operator!(const Mask& mask);              // visible where blocked

// A picture of one sample and head with query and key labels: '#' visible, '.' blocked.
[[nodiscard]] std::string to_string(const Mask& mask, std::int64_t queries, std::int64_t keys,
                                    std::int64_t batch = 0, std::int64_t head = 0);
// The same with a label for each query and each key, the tokens for instance; those of the keys are
// read downwards.
[[nodiscard]] std::string to_string(const Mask& mask, const std::vector<std::string>& queries,
                                    const std::vector<std::string>& keys, std::int64_t batch = 0,
                                    std::int64_t head = 0);

// What looks like one of the classic mistakes for scores of these sizes, a sentence for each; empty
// when nothing does. A legitimate mask may look so too: a hint, not an error. Asks for every pair.
//   - a query that sees nothing
//   - padding said of queries in place of keys: every query of a sample sees all or nothing
//   - a causal mask transposed (queries see only themselves and later keys), or keep for block
[[nodiscard]] std::vector<std::string> lint(const Mask& mask, std::int64_t batch,
                                            std::int64_t heads, std::int64_t queries,
                                            std::int64_t keys);

}  // namespace tapehead

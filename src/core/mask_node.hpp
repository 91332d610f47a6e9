// What a mask is made of: one node per rule or join, shared by all masks that hold it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tapehead/mask.hpp>

namespace tapehead {

struct Mask::Node {
  // Batch, heads, queries, keys; kAny where the rule serves every size.
  using Sizes = std::array<std::int64_t, 4>;
  static constexpr std::int64_t kAny = -1;

  // A rectangle of queries q0..q1-1 and keys k0..k1-1, never empty.
  struct Rectangle {
    std::int64_t q0, q1, k0, k1;
  };

  explicit Node(std::string its_name) : name(std::move(its_name)) {}
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] virtual bool sees(std::int64_t batch, std::int64_t head, std::int64_t query,
                                  std::int64_t key) const = 0;
  [[nodiscard]] virtual Cover cover(std::int64_t batch, std::int64_t head,
                                    const Rectangle& r) const = 0;
  virtual void row(std::int64_t batch, std::int64_t head, std::int64_t query,
                   std::int64_t first_key, std::span<unsigned char> visible) const;
  virtual void check(const char* op, const Sizes& scores) const;

  std::string name;
  Sizes sizes = {kAny, kAny, kAny, kAny};
  bool square = false;  // as many keys as queries, whatever their number
  bool per_batch = false;
  bool per_head = false;
  bool user_rule = false;   // calls the user's function somewhere below
  bool loose_name = false;  // a join's name needs brackets inside another join
  std::string_view advice = "build the mask for these sizes";
};

}  // namespace tapehead

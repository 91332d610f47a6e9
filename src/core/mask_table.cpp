// Masks given as a table of booleans.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/access.hpp"
#include "core/mask_node.hpp"
#include "core/message.hpp"

namespace tapehead {

using detail::fail;
using Cover = Mask::Cover;

namespace {

// A table of booleans; an axis that is broadcast has stride 0.
struct Table final : Mask::Node {
  Table(std::string its_name, const Tensor& table, const Sizes& its_strides, bool value_of_visible)
      : Node(std::move(its_name)), values(table), strides(its_strides), wanted(value_of_visible) {}
  const unsigned char* at(std::int64_t batch, std::int64_t head, std::int64_t query,
                          std::int64_t key) const {
    return detail::in<unsigned char>(values) + batch * strides[0] + head * strides[1] +
           query * strides[2] + key * strides[3];
  }
  bool sees(std::int64_t batch, std::int64_t head, std::int64_t query,
            std::int64_t key) const override {
    return (*at(batch, head, query, key) != 0) == wanted;
  }
  Cover cover(std::int64_t batch, std::int64_t head, const Rectangle& r) const override {
    const std::int64_t q1 = strides[2] == 0 ? r.q0 + 1 : r.q1;
    const std::int64_t k1 = strides[3] == 0 ? r.k0 + 1 : r.k1;
    const bool first = sees(batch, head, r.q0, r.k0);
    for (std::int64_t query = r.q0; query < q1; ++query) {
      for (std::int64_t key = r.k0; key < k1; ++key) {
        if (sees(batch, head, query, key) != first) return Cover::mixed;
      }
    }
    return first ? Cover::all : Cover::none;
  }
  Tensor values;
  Sizes strides;
  bool wanted;
};

// A table's axes by name, as sizes and strides in the order batch, head, query, key.
std::shared_ptr<const Mask::Node> table_node(const char* rule, const Tensor& table, MaskAxes axes,
                                             bool value_of_visible) {
  static constexpr std::array<std::string_view, 4> kNames = {"batch", "head", "query", "key"};
  const std::string op = fmt::format("Mask::{}", rule);
  detail::check_defined(op.c_str(), table, "the table");
  if (table.dtype() != DType::boolean) {
    fail<DTypeError>(fmt::format(
        "{}: the table must be boolean, but is {}; a mask says which keys are visible, it is not "
        "added to the scores: compare your numbers first, as in equal(x, 1.0)",
        op, name_of(table.dtype())));
  }
  Mask::Node::Sizes sizes = {Mask::Node::kAny, Mask::Node::kAny, Mask::Node::kAny,
                             Mask::Node::kAny};
  Mask::Node::Sizes strides = {0, 0, 0, 0};
  std::array<bool, 4> named{};
  std::array<int, Shape::kMaxRank> place{};
  int count = 0;
  for (std::size_t at = 0; at < axes.size();) {
    if (axes[at] == ' ') {
      ++at;
      continue;
    }
    const std::string_view word = axes.substr(at, axes.find(' ', at) - at);
    at += word.size();
    const auto found = std::find(kNames.begin(), kNames.end(), word);
    const auto index = static_cast<std::size_t>(found - kNames.begin());
    if (found == kNames.end() || named[index]) {
      fail<ValueError>(fmt::format(
          "{}: the axes \"{}\" must name each of batch, head, query, key at most once, in the "
          "table's order; \"{}\" does not fit",
          op, axes, word));
    }
    named[index] = true;
    place[static_cast<std::size_t>(count++)] = static_cast<int>(index);
  }
  if (count != table.rank()) {
    fail<ShapeError>(
        fmt::format("{}: the table has shape {}, but \"{}\" names {} axes; name each "
                    "axis of the table, as in \"batch key\"",
                    op, to_string(table.shape()), axes, count));
  }
  std::int64_t stride = 1;
  for (int axis = count - 1; axis >= 0; --axis) {
    const auto index = static_cast<std::size_t>(place[static_cast<std::size_t>(axis)]);
    if (table.dim(axis) != 1) {
      sizes[index] = table.dim(axis);
      strides[index] = stride;
    }
    stride *= table.dim(axis);
  }
  auto node =
      std::make_shared<Table>(fmt::format("{}({})", rule, axes), table, strides, value_of_visible);
  node->sizes = sizes;
  node->per_batch = strides[0] != 0;
  node->per_head = strides[1] != 0;
  return node;
}

}  // namespace

Mask Mask::keep(const Tensor& visible, MaskAxes axes) {
  return Mask(table_node("keep", visible, axes, true));
}

Mask Mask::block(const Tensor& blocked, MaskAxes axes) {
  return Mask(table_node("block", blocked, axes, false));
}

}  // namespace tapehead

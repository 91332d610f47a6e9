// Sum of products of two tensors whose axes are named by letters:
//   einsum("nqhd,nkhd->nhqk", q, k):  y[n,h,q,k] = sum_d q[n,q,h,d] k[n,k,h,d]
// A label is, by where it stands,
//   batch      in a, b and the output          contracted   in a and b only
//   free       in one operand and the output   lone         in one operand only: summed first
// Everything is made of sum, permute, reshape and matmul, whose gradients serve for any order. The
// product is laid out as [batch, free of one operand, free of the other]; of the orders within
// these groups, and of the two operands' places, the one is taken that copies the fewest elements.
#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "core/access.hpp"
#include "ops/catalog.hpp"

namespace tapehead {
namespace {

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// The labels of `from` that are in all of `in` and not in `absent`, in their order.
std::string chosen(const std::string& from, std::initializer_list<const std::string*> in,
                   const std::string& absent) {
  std::string result;
  for (const char label : from) {
    const bool wanted =
        std::all_of(in.begin(), in.end(), [&](const std::string* s) { return has(*s, label); });
    if (wanted && !has(absent, label)) result += label;
  }
  return result;
}

struct Equation {
  std::string a;
  std::string b;
  std::string y;
};

[[noreturn]] void malformed(std::string_view equation, const std::string& what) {
  detail::fail<ValueError>(
      fmt::format("einsum: \"{}\": {}; the form is \"ab,bc->ac\"", equation, what));
}

Equation parsed(std::string_view equation) {
  std::array<std::string, 3> parts;  // a, b, output
  constexpr std::array<const char*, 3> kNames{"the first operand", "the second operand",
                                              "the output"};
  std::size_t part = 0;
  for (std::size_t i = 0; i < equation.size(); ++i) {
    const char c = equation[i];
    if (c == ' ') continue;
    if (c == ',') {
      if (part == 1) malformed(equation, fmt::format("a third operand at position {}", i));
      if (part == 2) malformed(equation, fmt::format("a comma at position {} in the output", i));
      ++part;
    } else if (c == '-' && i + 1 < equation.size() && equation[i + 1] == '>') {
      if (part == 0)
        malformed(equation, fmt::format("-> at position {} before the second operand", i));
      if (part == 2) malformed(equation, fmt::format("a second -> at position {}", i));
      ++part;
      ++i;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      if (has(parts[part], c)) {
        malformed(equation,
                  fmt::format("label {} at position {} stands twice in {}", c, i, kNames[part]));
      }
      if (part == 2 && !has(parts[0], c) && !has(parts[1], c))
        malformed(equation, fmt::format("label {} at position {} is in no operand", c, i));
      parts[part] += c;
    } else {
      malformed(equation, fmt::format("'{}' at position {} is no label; labels are letters", c, i));
    }
  }
  if (part == 0) malformed(equation, "it has one operand and needs two, with a comma between");
  if (part == 1) malformed(equation, "it has no output; write -> and its labels");
  if (parts[2].size() > Shape::kMaxRank) {
    malformed(equation, fmt::format("the output has {} axes, more than {}", parts[2].size(),
                                    Shape::kMaxRank));
  }
  return {parts[0], parts[1], parts[2]};
}

std::string labelled(const Tensor& x, const std::string& labels) {
  std::string text;
  for (std::size_t i = 0; i < labels.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", labels[i], x.dim(static_cast<int>(i)));
  return "[" + text + "]";
}

void check_operands(std::string_view equation, const Equation& e, const Tensor& a,
                    const Tensor& b) {
  const auto check_rank = [&](const char* name, const Tensor& x, const std::string& labels) {
    if (x.rank() == static_cast<int>(labels.size())) return;
    detail::fail<ShapeError>(fmt::format("einsum: \"{}\": \"{}\" names {} axes, but {} {} has {}",
                                         equation, labels, labels.size(), name,
                                         to_string(x.shape()), x.rank()));
  };
  check_rank("a", a, e.a);
  check_rank("b", b, e.b);
  for (std::size_t i = 0; i < e.a.size(); ++i) {
    const std::size_t j = e.b.find(e.a[i]);
    if (j == std::string::npos) continue;
    const std::int64_t in_a = a.dim(static_cast<int>(i));
    const std::int64_t in_b = b.dim(static_cast<int>(j));
    if (in_a != in_b) {
      detail::fail<ShapeError>(
          fmt::format("einsum: \"{}\": sizes of label {} differ: a {} and b {}: {} is not {}",
                      equation, e.a[i], labelled(a, e.a), labelled(b, e.b), in_a, in_b));
    }
  }
}

// An operand and the labels of its axes.
struct Labelled {
  Tensor x;
  std::string labels;

  [[nodiscard]] std::int64_t size(char label) const {
    return x.dim(static_cast<int>(labels.find(label)));
  }
};

Labelled in_order(const Labelled& from, const std::string& labels) {
  if (from.labels == labels) return from;
  std::vector<int> order;
  for (const char label : labels) order.push_back(static_cast<int>(from.labels.find(label)));
  return {permute(from.x, order), labels};
}

Labelled without_lone(const Labelled& from, const std::string& other, const std::string& y) {
  const std::string lone = chosen(from.labels, {}, other + y);
  if (lone.empty()) return from;
  std::vector<int> axes;
  for (const char label : lone) axes.push_back(static_cast<int>(from.labels.find(label)));
  return {sum(from.x, Axes(std::move(axes))), chosen(from.labels, {}, lone)};
}

// The operand with the axes `labels`, those it lacks of size 1.
Tensor spread(const Labelled& from, const std::string& labels) {
  const Labelled ordered = in_order(from, chosen(labels, {&from.labels}, ""));
  std::vector<std::int64_t> sizes;
  for (const char label : labels) sizes.push_back(has(from.labels, label) ? from.size(label) : 1);
  return reshape(ordered.x, Shape(std::span<const std::int64_t>(sizes)));
}

// y = sum over `contracted` of a b, element by element.
Tensor multiplied(const Labelled& a, const Labelled& b, const std::string& y,
                  const std::string& contracted) {
  Tensor product = spread(a, y + contracted) * spread(b, y + contracted);
  if (contracted.empty()) return product;
  std::vector<int> axes;
  for (std::size_t i = 0; i < contracted.size(); ++i)
    axes.push_back(static_cast<int>(y.size() + i));
  return sum(product, Axes(std::move(axes)));
}

// One way to make a matrix product of it.
struct Layout {
  std::string batch;
  std::string rows;      // free labels of the left operand
  std::string columns;   // free labels of the right operand
  std::string inner;     // contracted
  bool swapped = false;  // b is the left operand
};

std::int64_t copied(const Layout& l, const Labelled& left, const Labelled& right,
                    const std::string& y, std::int64_t size_y) {
  std::int64_t cost = 0;
  if (left.labels != l.batch + l.rows + l.inner && left.labels != l.batch + l.inner + l.rows)
    cost += left.x.size();
  if (right.labels != l.batch + l.inner + l.columns &&
      right.labels != l.batch + l.columns + l.inner)
    cost += right.x.size();
  return l.batch + l.rows + l.columns == y ? cost : cost + size_y;
}

Layout best_layout(const Labelled& a, const Labelled& b, const std::string& y) {
  std::int64_t size_y = 1;
  for (const char label : y) size_y *= has(a.labels, label) ? a.size(label) : b.size(label);
  // Each group in the order in which the output or an operand has it.
  const std::array batches{chosen(y, {&a.labels, &b.labels}, ""),
                           chosen(a.labels, {&b.labels, &y}, ""),
                           chosen(b.labels, {&a.labels, &y}, "")};
  const std::array inners{chosen(a.labels, {&b.labels}, y), chosen(b.labels, {&a.labels}, y)};
  const std::array free_a{chosen(y, {&a.labels}, b.labels), chosen(a.labels, {&y}, b.labels)};
  const std::array free_b{chosen(y, {&b.labels}, a.labels), chosen(b.labels, {&y}, a.labels)};
  Layout best;
  std::int64_t least = -1;
  for (const bool swapped : {false, true}) {
    for (const std::string& batch : batches) {
      for (const std::string& rows : swapped ? free_b : free_a) {
        for (const std::string& columns : swapped ? free_a : free_b) {
          for (const std::string& inner : inners) {
            const Layout layout{batch, rows, columns, inner, swapped};
            const std::int64_t cost = copied(layout, swapped ? b : a, swapped ? a : b, y, size_y);
            if (least >= 0 && cost >= least) continue;
            least = cost;
            best = layout;
          }
        }
      }
    }
  }
  return best;
}

std::int64_t product_of(const Labelled& x, const std::string& labels) {
  std::int64_t product = 1;
  for (const char label : labels) product *= x.size(label);
  return product;
}

// The operand as one matrix for each batch element: [batch, first, second], or with the last two
// exchanged where it lies that way already.
struct Matrices {
  Tensor x;
  bool transposed;
};

Matrices matrices(const Labelled& from, const std::string& batch, const std::string& first,
                  const std::string& second) {
  const bool transposed = from.labels == batch + second + first;
  const std::string& rows = transposed ? second : first;
  const std::string& columns = transposed ? first : second;
  const Labelled ordered = in_order(from, batch + rows + columns);
  return {reshape(ordered.x,
                  {product_of(from, batch), product_of(from, rows), product_of(from, columns)}),
          transposed};
}

Tensor contracted(const Labelled& a, const Labelled& b, const std::string& y) {
  const Layout layout = best_layout(a, b, y);
  const Labelled& left = layout.swapped ? b : a;
  const Labelled& right = layout.swapped ? a : b;
  const Matrices l = matrices(left, layout.batch, layout.rows, layout.inner);
  const Matrices r = matrices(right, layout.batch, layout.inner, layout.columns);
  const Tensor product =
      matmul(l.x, r.x, {.transpose_a = l.transposed, .transpose_b = r.transposed});
  const std::string labels = layout.batch + layout.rows + layout.columns;
  std::vector<std::int64_t> sizes;
  for (const char label : labels)
    sizes.push_back(has(left.labels, label) ? left.size(label) : right.size(label));
  return in_order({reshape(product, Shape(std::span<const std::int64_t>(sizes))), labels}, y).x;
}

}  // namespace

Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, CallSite at) {
  const OpCall call(at);
  detail::check_floating("einsum", a, "a");
  detail::check_floating("einsum", b, "b");
  detail::check_same_dtype("einsum", a, b);
  const Equation e = parsed(equation);
  check_operands(equation, e, a, b);
  const Labelled first = without_lone({a, e.a}, e.b, e.y);
  const Labelled second = without_lone({b, e.b}, e.a, e.y);
  const std::string inner = chosen(first.labels, {&second.labels}, e.y);
  const std::string batch = chosen(e.y, {&first.labels, &second.labels}, "");
  // Without a matrix on either side there is nothing for matmul to win.
  if (inner.empty() || (!batch.empty() && batch.size() == e.y.size()))
    return multiplied(first, second, e.y, inner);
  return contracted(first, second, e.y);
}

namespace detail {

OpEntry einsum_entry() {
  return {"einsum",
          "products",
          "y = sum of a b over the labels that the output lacks",
          "da, db: einsums of dy with the other operand",
          true,
          true,
          [](DType dtype) {
            struct Case {
              const char* equation;
              Shape a;
              Shape b;
            };
            std::vector<OpSample> samples;
            for (const Case& c : std::vector<Case>{{"nqhd,nkhd->nhqk", {2, 3, 2, 4}, {2, 5, 2, 4}},
                                                   {"nhql,nlhd->nqhd", {2, 2, 3, 5}, {2, 5, 2, 4}},
                                                   {"ab,bc->ac", {3, 5}, {5, 17}},
                                                   {"ab,bc->ca", {67, 2}, {2, 3}},
                                                   {"ab,cb->ac", {3, 5}, {7, 5}},
                                                   {"ab,ab->a", {3, 67}, {3, 67}},
                                                   {"ab,ba->", {3, 5}, {5, 3}},
                                                   {"i,j->ji", {3}, {5}},
                                                   {"abc,db->ad", {2, 3, 5}, {4, 3}},
                                                   {",->", {}, {}},
                                                   {"ab,bc->ac", {1, 1}, {1, 1}},
                                                   {"ab,bc->ac", {3, 0}, {0, 2}},
                                                   {"nab,nbc->nac", {0, 2, 3}, {0, 3, 4}}}) {
              OpSample sample{
                  fmt::format("{} of {} and {}", c.equation, to_string(c.a), to_string(c.b)),
                  {sample_values(c.a, dtype, 1), sample_values(c.b, dtype, 2)}};
              sample.call = [equation = c.equation](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{einsum(equation, x[0], x[1])};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

// Axes in another order, as a dense copy.
//   permute:    y[.., i_order[k], ..] = x[.., i_k, ..];  dx = dy in the inverse order
//   transpose:  the order that exchanges two axes, its own inverse
// Axes of size 1 and neighbours that stay together are merged first. When nothing moves in memory
// the buffer is shared; when the last axis stays, whole runs are copied; otherwise it is a matter
// of transposing matrices, tile by tile, so that both sides use whole cache lines.
#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"

namespace tapehead {
namespace {

constexpr std::int64_t kTile = 32;  // a tile side: 32 x 32 doubles are 8 KiB

// The axes of y from the outermost: size, and steps in x and y of one index. Merged.
struct Run {
  std::int64_t size;
  std::int64_t step_x;
  std::int64_t step_y;
};
struct Runs {
  std::array<Run, Shape::kMaxRank> list{};
  int count = 0;
  std::int64_t offset_x = 0;  // of the current item, when walked
  std::int64_t offset_y = 0;
};

Runs merged_runs(const Shape& shape, const std::vector<int>& order) {
  std::array<std::int64_t, Shape::kMaxRank> steps{};
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    steps[static_cast<std::size_t>(axis)] = step;
    step *= shape[axis];
  }
  Runs runs;
  for (int axis : order) {
    const std::int64_t size = shape[axis];
    const std::int64_t step_x = steps[static_cast<std::size_t>(axis)];
    if (size == 1) continue;
    Run* last = runs.count == 0 ? nullptr : &runs.list[static_cast<std::size_t>(runs.count - 1)];
    if (last != nullptr && last->step_x == size * step_x) {
      last->size *= size;
      last->step_x = step_x;
    } else {
      runs.list[static_cast<std::size_t>(runs.count++)] = {size, step_x, 0};
    }
  }
  step = 1;
  for (int i = runs.count - 1; i >= 0; --i) {
    runs.list[static_cast<std::size_t>(i)].step_y = step;
    step *= runs.list[static_cast<std::size_t>(i)].size;
  }
  return runs;
}

// Calls f(offset in x, offset in y) for the items [begin, end) of the index space of `runs`.
template <class F>
void walk(const Runs& runs, std::int64_t begin, std::int64_t end, F f) {
  std::array<std::int64_t, Shape::kMaxRank> index{};
  std::int64_t offset_x = 0;
  std::int64_t offset_y = 0;
  std::int64_t rest = begin;
  for (int i = runs.count - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    const Run& run = runs.list[at];
    index[at] = rest % run.size;
    rest /= run.size;
    offset_x += index[at] * run.step_x;
    offset_y += index[at] * run.step_y;
  }
  for (std::int64_t item = begin; item < end; ++item) {
    f(offset_x, offset_y);
    for (int i = runs.count - 1; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(i);
      const Run& run = runs.list[at];
      offset_x += run.step_x;
      offset_y += run.step_y;
      if (++index[at] < run.size) break;
      offset_x -= run.size * run.step_x;
      offset_y -= run.size * run.step_y;
      index[at] = 0;
    }
  }
}

std::int64_t items(const Runs& runs) {
  std::int64_t count = 1;
  for (int i = 0; i < runs.count; ++i) count *= runs.list[static_cast<std::size_t>(i)].size;
  return count;
}

Run take(Runs& runs, int index) {
  const auto first = runs.list.begin() + index;
  const Run taken = *first;
  std::copy(first + 1, runs.list.begin() + runs.count, first);
  --runs.count;
  return taken;
}

template <class T>
void copy_lines(const T* x, T* y, Runs runs) {
  const std::int64_t length = take(runs, runs.count - 1).size;
  detail::parallel_for(items(runs), detail::rows_per_chunk(length),
                       [&](std::int64_t begin, std::int64_t end) {
                         walk(runs, begin, end, [&](std::int64_t at_x, std::int64_t at_y) {
                           std::copy_n(x + at_x, length, y + at_y);
                         });
                       });
}

// `height` rows of a matrix whose rows are dense in x and whose columns are dense in y. Tiles go
// through memory of their own: at a step of a power of two all their lines would compete for a few
// places in the cache. A tile's rows are one element longer for the same reason.
template <class T>
void copy_strip(const T* x, T* y, std::int64_t height, const Run& row, const Run& column) {
  T tile[kTile * (kTile + 1)];
  for (std::int64_t left = 0; left < column.size; left += kTile) {
    const std::int64_t width = std::min(kTile, column.size - left);
    for (std::int64_t j = 0; j < width; ++j)
      std::copy_n(x + (left + j) * column.step_x, height, tile + j * (kTile + 1));
    for (std::int64_t i = 0; i < height; ++i) {
      T* to = y + i * row.step_y + left;
      for (std::int64_t j = 0; j < width; ++j) to[j] = tile[j * (kTile + 1) + i];
    }
  }
}

template <class T>
void copy_tiles(const T* x, T* y, Runs runs) {
  const Run column = take(runs, runs.count - 1);  // step_y 1
  int dense = 0;
  while (runs.list[static_cast<std::size_t>(dense)].step_x != 1) ++dense;
  const Run row = take(runs, dense);
  const std::int64_t strips = (row.size + kTile - 1) / kTile;
  runs.list[static_cast<std::size_t>(runs.count++)] = {strips, kTile, kTile * row.step_y};
  detail::parallel_for(items(runs), detail::rows_per_chunk(kTile * column.size),
                       [&](std::int64_t begin, std::int64_t end) {
                         std::int64_t strip = begin % strips;
                         walk(runs, begin, end, [&](std::int64_t at_x, std::int64_t at_y) {
                           copy_strip(x + at_x, y + at_y, std::min(kTile, row.size - strip * kTile),
                                      row, column);
                           strip = strip + 1 == strips ? 0 : strip + 1;
                         });
                       });
}

Tensor moved(const Tensor& x, const std::vector<int>& order) {
  Shape shape = x.shape();
  for (int axis = 0; axis < x.rank(); ++axis)
    shape = shape.with(axis, x.dim(order[static_cast<std::size_t>(axis)]));
  const Runs runs = merged_runs(x.shape(), order);
  if (runs.count <= 1 || x.size() == 0) return detail::TensorAccess::view(x, shape);
  Tensor y = detail::empty(shape, x.dtype());
  detail::with_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = detail::in<T>(x);
    T* to = detail::out<T>(y);
    if (runs.list[static_cast<std::size_t>(runs.count - 1)].step_x == 1) {
      copy_lines(from, to, runs);
    } else {
      copy_tiles(from, to, runs);
    }
  });
  return y;
}

// The order with its axes counted from the front.
std::vector<int> checked_order(const Tensor& x, const std::vector<int>& order) {
  const auto wrong = [&](const std::string& what) {
    detail::fail<ShapeError>(
        fmt::format("permute: order [{}] for shape {} {}; list each axis exactly once",
                    fmt::join(order, ", "), to_string(x.shape()), what));
  };
  if (static_cast<int>(order.size()) != x.rank())
    wrong(fmt::format("has {} entries for {} axes", order.size(), x.rank()));
  std::vector<int> axes;
  for (int entry : order) {
    const int axis = x.shape().axis(entry, "permute: axis");
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      wrong(fmt::format("names axis {} twice", axis));
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

Tensor permute(const Tensor& x, const std::vector<int>& order, CallSite at) {
  const OpCall call(at);
  detail::check_defined("permute", x);
  const std::vector<int> axes = checked_order(x, order);
  std::vector<int> inverse(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    inverse[static_cast<std::size_t>(axes[i])] = static_cast<int>(i);
  return record("permute", moved(x, axes))
      .input(x, [inverse = std::move(inverse)](const Tensor& dy) { return permute(dy, inverse); });
}

Tensor transpose(const Tensor& x, int axis_a, int axis_b, CallSite at) {
  const OpCall call(at);
  detail::check_defined("transpose", x);
  const int first = x.shape().axis(axis_a, "transpose: axis");
  const int second = x.shape().axis(axis_b, "transpose: axis");
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(first)], order[static_cast<std::size_t>(second)]);
  return record("transpose", moved(x, order)).input(x, [first, second](const Tensor& dy) {
    return transpose(dy, first, second);
  });
}

namespace detail {

OpEntry permute_entry() {
  return {"permute",
          "shape",
          "y[.., i_order[k], ..] = x[.., i_k, ..]",
          "dx = dy in the inverse order",
          true,
          true,
          [](DType dtype) {
            std::vector<OpSample> samples;
            const std::vector<std::pair<Shape, std::vector<int>>> cases{
                {{}, {}},
                {{1}, {0}},
                {{3, 5, 17}, {2, 0, 1}},
                {{3, 5, 17}, {1, 0, 2}},
                {{67, 3, 2}, {1, 2, 0}},
                {{2, 3, 5, 7}, {0, 2, 1, -1}},
                {{2, 0, 3}, {1, 2, 0}},
                {{2, 1, 2, 1, 3, 1, 2, 1}, {6, 4, 0, 1, 2, 3, 5, 7}}};
            for (const auto& c : cases) {
              OpSample sample{
                  fmt::format("{} in order {}", to_string(c.first), fmt::join(c.second, ",")),
                  {sample_values(c.first, dtype, 1)}};
              sample.call = [order = c.second](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{permute(x[0], order)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

OpEntry transpose_entry() {
  return {"transpose",
          "shape",
          "y = x with two axes exchanged",
          "dx = dy with them exchanged",
          true,
          true,
          [](DType dtype) {
            struct Case {
              Shape shape;
              int first;
              int second;
            };
            std::vector<OpSample> samples;
            for (const Case& c : std::vector<Case>{{{1, 1}, 0, 1},
                                                   {{3, 5, 17}, -2, -1},
                                                   {{3, 5, 17}, 0, 2},
                                                   {{3, 5, 17}, 1, 1},
                                                   {{67, 33}, 0, 1},
                                                   {{2, 0, 3}, 0, 1},
                                                   {{2, 1, 3, 1, 1, 2, 1, 2}, 2, -1}}) {
              OpSample sample{
                  fmt::format("{}, axes {} and {}", to_string(c.shape), c.first, c.second),
                  {sample_values(c.shape, dtype, 1)}};
              sample.call = [a = c.first, b = c.second](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{transpose(x[0], a, b)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

// Rows of a table by id.
//   y[i, :] = table[ids_i, :];   dtable[v, :] = sum of dy[i, :] over the i with ids_i = v, in order
// An id used twice gets both gradients; a row that no id names gets exactly 0. The gradient groups
// the positions by id first (a counting sort, which keeps their order), so rows can be summed by
// several threads and come out the same on any number of them.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"
#include "ops/ids.hpp"

namespace tapehead {
namespace {

constexpr std::int64_t kColumns = 64;  // summed in f64 at a time, on the stack

template <class T>
void copy_rows(const Tensor& table, const Tensor& ids, Tensor& y) {
  const std::int64_t width = table.dim(1);
  const T* from = detail::in<T>(table);
  const std::int64_t* id = detail::in<std::int64_t>(ids);
  T* to = detail::out<T>(y);
  detail::parallel_for(ids.size(), detail::rows_per_chunk(width),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i)
                           std::copy_n(from + id[i] * width, width, to + i * width);
                       });
}

// Where each id stands: the positions of id v are order[first[v] .. first[v + 1]), ascending.
struct Positions {
  Tensor first;  // [rows + 1]
  Tensor order;  // [ids]
};

Positions positions(const Tensor& ids, std::int64_t rows) {
  Positions result{zeros({rows + 1}, DType::i64), detail::empty({ids.size()}, DType::i64)};
  const std::int64_t* id = detail::in<std::int64_t>(ids);
  std::int64_t* first = detail::out<std::int64_t>(result.first);
  std::int64_t* order = detail::out<std::int64_t>(result.order);
  // After counting, first[v + 1] is where id v begins; placing the positions moves it to its end.
  for (std::int64_t i = 0; i < ids.size(); ++i)
    if (id[i] + 2 <= rows) ++first[id[i] + 2];
  for (std::int64_t v = 2; v <= rows; ++v) first[v] += first[v - 1];
  for (std::int64_t i = 0; i < ids.size(); ++i) order[first[id[i] + 1]++] = i;
  return result;
}

template <class T>
void sum_rows(const Tensor& dy, const Positions& where, Tensor& y) {
  const std::int64_t rows = y.dim(0);
  const std::int64_t width = y.dim(1);
  const T* from = detail::in<T>(dy);
  const std::int64_t* first = detail::in<std::int64_t>(where.first);
  const std::int64_t* order = detail::in<std::int64_t>(where.order);
  T* to = detail::out<T>(y);
  const std::int64_t uses = 1 + where.order.size() / std::max<std::int64_t>(1, rows);
  detail::parallel_for(rows, detail::rows_per_chunk(width * uses),
                       [&](std::int64_t begin, std::int64_t end) {
                         double sums[kColumns];
                         for (std::int64_t v = begin; v < end; ++v) {
                           for (std::int64_t left = 0; left < width; left += kColumns) {
                             const std::int64_t count = std::min(kColumns, width - left);
                             std::fill_n(sums, count, 0.0);
                             for (std::int64_t p = first[v]; p < first[v + 1]; ++p) {
                               const T* row = from + order[p] * width + left;
                               for (std::int64_t j = 0; j < count; ++j)
                                 sums[j] += static_cast<double>(row[j]);
                             }
                             for (std::int64_t j = 0; j < count; ++j)
                               to[v * width + left + j] = static_cast<T>(sums[j]);
                           }
                         }
                       });
}

// The gradient of embedding, itself an op: dy [.., D] -> [rows, D].
Tensor embedding_gradient(const Tensor& dy, const Tensor& ids, const Shape& table) {
  Tensor y = detail::empty(table, dy.dtype());
  const Positions where = positions(ids, table[0]);
  detail::with_float("embedding_gradient", dy.dtype(),
                     [&](auto zero) { sum_rows<decltype(zero)>(dy, where, y); });
  return record("embedding_gradient", y).input(dy, [ids](const Tensor& d) {
    return embedding(d, ids);
  });
}

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids, CallSite at) {
  const OpCall call(at);
  detail::check_floating("embedding", table, "the table");
  detail::check_defined("embedding", ids, "ids");
  if (table.rank() != 2) {
    detail::fail<ShapeError>(fmt::format("embedding: the table must be [rows, width], got {}",
                                         to_string(table.shape())));
  }
  detail::check_ids("embedding", "id", ids, table.dim(0),
                    "the table " + detail::named(table.shape(), {"rows", "width"}));
  Tensor y = detail::empty(ids.shape().appended(table.dim(1)), table.dtype());
  detail::with_float("embedding", table.dtype(),
                     [&](auto zero) { copy_rows<decltype(zero)>(table, ids, y); });
  return record("embedding", y).input(table, [ids, shape = table.shape()](const Tensor& dy) {
    return embedding_gradient(dy, ids, shape);
  });
}

namespace detail {

OpEntry embedding_entry() {
  return {"embedding",
          "lookup",
          "y[i, :] = table[ids_i, :]",
          "dtable[v, :] = sum of dy[i, :] over ids_i = v",
          true,
          true,
          [](DType dtype) {
            struct Case {
              Shape table;
              Shape ids;
            };
            std::vector<OpSample> samples;
            for (const Case& c : std::vector<Case>{{{1, 1}, {}},
                                                   {{1, 3}, {4}},
                                                   {{5, 17}, {3, 7}},
                                                   {{67, 3}, {2, 3, 5}},
                                                   {{3, 67}, {67}},
                                                   {{4, 2}, {2, 0}},
                                                   {{0, 2}, {0}},
                                                   {{4, 0}, {3}}}) {
              OpSample sample{fmt::format("table {}, ids {}", to_string(c.table), to_string(c.ids)),
                              {sample_values(c.table, dtype, 1)}};
              std::vector<std::int64_t> values;
              for (std::int64_t i = 0; i < c.ids.size(); ++i)
                values.push_back((i * i + 2 * i) % c.table[0]);  // some rows twice, some never
              const Tensor ids = tensor(std::span<const std::int64_t>(values), c.ids);
              sample.call = [ids](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{embedding(x[0], ids)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

// y[.., c] = 1 where c is the id, else 0. Ids are numbers of classes, so there is no gradient.
#include <algorithm>

#include <fmt/format.h>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"
#include "ops/ids.hpp"

namespace tapehead {

Tensor one_hot(const Tensor& ids, std::int64_t classes, DType dtype) {
  if (classes < 0) {
    detail::fail<ValueError>(
        fmt::format("one_hot: the number of classes cannot be negative, got {}", classes));
  }
  detail::check_ids("one_hot", "id", ids, classes, fmt::format("the {} classes", classes));
  Tensor y = detail::empty(ids.shape().appended(classes), dtype);
  detail::with_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t* id = detail::in<std::int64_t>(ids);
    T* to = detail::out<T>(y);
    detail::parallel_for(ids.size(), detail::rows_per_chunk(classes),
                         [&](std::int64_t begin, std::int64_t end) {
                           std::fill(to + begin * classes, to + end * classes, T{0});
                           for (std::int64_t i = begin; i < end; ++i)
                             to[i * classes + id[i]] = T{1};
                         });
  });
  return y;
}

namespace detail {

OpEntry one_hot_entry() {
  return {"one_hot",
          "lookup",
          "y_c = 1 where c is the id, else 0",
          "none",
          false,
          false,
          [](DType dtype) {
            struct Case {
              Shape ids;
              std::int64_t classes;
            };
            std::vector<OpSample> samples;
            for (const Case& c : std::vector<Case>{{{}, 1},
                                                   {{1}, 3},
                                                   {{3, 5}, 17},
                                                   {{2, 3}, 67},
                                                   {{67}, 2},
                                                   {{2, 0}, 4},
                                                   {{0}, 0},
                                                   {{2, 1, 3, 1, 1, 2, 1}, 4}}) {
              std::vector<std::int64_t> values;
              for (std::int64_t i = 0; i < c.ids.size(); ++i)
                values.push_back((i * i + 2 * i) % c.classes);
              const Tensor ids = tensor(std::span<const std::int64_t>(values), c.ids);
              OpSample sample{fmt::format("ids {}, {} classes", to_string(c.ids), c.classes), {}};
              sample.call = [ids, classes = c.classes, dtype](const std::vector<Tensor>&) {
                return std::vector<Tensor>{one_hot(ids, classes, dtype)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead

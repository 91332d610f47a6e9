#include "ops/ids.hpp"

#include <vector>

#include <fmt/format.h>

#include "core/access.hpp"

namespace tapehead::detail {

std::string position(const Shape& shape, std::int64_t flat) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = flat % shape[axis];
    flat /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

void check_ids(const char* op, std::string_view what, const Tensor& ids, std::int64_t count,
               std::string_view table) {
  check_defined(op, ids, what);
  if (ids.dtype() != DType::i64) {
    fail<DTypeError>(
        fmt::format("{}: each {} must be an i64, but the tensor is {}; convert whole "
                    "numbers with cast(x, DType::i64)",
                    op, what, name_of(ids.dtype())));
  }
  const std::int64_t* values = in<std::int64_t>(ids);
  const std::int64_t size = ids.size();
  for (std::int64_t i = 0; i < size; ++i) {
    if (values[i] >= 0 && values[i] < count) continue;
    const std::string range =
        count == 0 ? "allowed are none" : fmt::format("allowed are 0..{}", count - 1);
    fail<IndexError>(fmt::format("{}: {} {} at position {} is outside {}: {}", op, what, values[i],
                                 position(ids.shape(), i), table, range));
  }
}

}  // namespace tapehead::detail

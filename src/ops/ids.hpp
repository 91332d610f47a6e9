// Shared machinery of ops that take ids: the check that every id is inside its table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tapehead/tensor.hpp>

namespace tapehead::detail {

// "[1, 2]": where element `flat` of a tensor of this shape stands.
[[nodiscard]] std::string position(const Shape& shape, std::int64_t flat);

// DTypeError unless `ids` is i64; IndexError naming the first id outside 0..count-1, its position
// and the table, such as "table [rows 3, width 12]".
void check_ids(const char* op, std::string_view what, const Tensor& ids, std::int64_t count,
               std::string_view table);

}  // namespace tapehead::detail

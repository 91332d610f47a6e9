// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. RFC 3629.
#pragma once

#include <cstddef>
#include <string_view>

#include "tasks/catalog.hpp"

namespace tapehead::detail {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  // 0: the text is not UTF-8 here
};
[[nodiscard]] CodePoint code_point_at(std::string_view text, std::size_t at);

}  // namespace tapehead::detail

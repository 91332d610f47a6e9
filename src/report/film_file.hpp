// film.json as it is read again: by a run that goes on, and by the page.
#pragma once

#include <optional>
#include <string_view>

#include "io/json.hpp"

namespace tapehead::report {

// Nothing for text that is no film: another shape, sizes that do not fit each other, or longer than
// a film can be. So what is returned can be drawn without a look at it.
[[nodiscard]] std::optional<detail::Json> read_film(std::string_view text);

}  // namespace tapehead::report

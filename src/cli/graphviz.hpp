// Graphviz, when it is installed.
#pragma once

#include <string>

namespace tapehead::cli {

// The picture of a graph in the language of Graphviz, by its program `dot`. Throws an Error with
// one sentence when there is none or it fails.
[[nodiscard]] std::string svg_of(const std::string& dot);

}  // namespace tapehead::cli

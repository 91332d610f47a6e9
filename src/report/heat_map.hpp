// Pictures of a matrix of weights from 0 to 1, such as an attention map: with block characters for
// a terminal, and as an SVG file.
#pragma once

#include <string>
#include <vector>

#include <tapehead/tensor.hpp>

namespace tapehead::report {

struct HeatMap {
  Tensor values;                     // [rows, columns], floating, each 0..1
  std::vector<std::string> rows;     // a label for each
  std::vector<std::string> columns;  // a label for each
  std::string title;
  std::string row_axis;  // what a row is: "output position"
  std::string column_axis;
};

// Two columns of text a cell: space, light, medium, dark shade or full block, in fifths of the
// largest value.
[[nodiscard]] std::string text_picture(const HeatMap& map);

// The darker the larger, up to the largest value. One self-contained file with no script and no
// outside reference. Pointing at a cell shows its labels and value.
[[nodiscard]] std::string svg_picture(const HeatMap& map);

}  // namespace tapehead::report

#include "report/heat_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/message.hpp"
#include "report/markup.hpp"

namespace tapehead::report {
namespace {

// A large map is shown coarser: each cell is the largest value of a square of `step` positions, so
// that a single bright spot stays visible.
struct Cells {
  std::int64_t step = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double largest = 0;
  std::vector<double> values;

  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
  // 0..1, as a share of the largest value.
  [[nodiscard]] double shade(std::int64_t row, std::int64_t column) const {
    return largest > 0 ? at(row, column) / largest : 0;
  }
};

Cells coarse(const HeatMap& map, std::int64_t most) {
  const Tensor& x = map.values;
  if (x.rank() != 2 || std::ssize(map.rows) != x.dim(0) || std::ssize(map.columns) != x.dim(1)) {
    detail::fail<ShapeError>(fmt::format(
        "heat map: needs values [rows, columns] and a label for each, got {}, {} and {} labels",
        to_string(x.shape()), map.rows.size(), map.columns.size()));
  }
  Cells cells;
  cells.step = std::max<std::int64_t>(1, (std::max(x.dim(0), x.dim(1)) + most - 1) / most);
  cells.rows = (x.dim(0) + cells.step - 1) / cells.step;
  cells.columns = (x.dim(1) + cells.step - 1) / cells.step;
  cells.values.assign(static_cast<std::size_t>(cells.rows * cells.columns), 0.0);
  for (std::int64_t row = 0; row < x.dim(0); ++row) {
    for (std::int64_t column = 0; column < x.dim(1); ++column) {
      double& cell = cells.values[static_cast<std::size_t>(row / cells.step * cells.columns +
                                                           column / cells.step)];
      cell = std::max(cell, std::clamp(x.at({row, column}), 0.0, 1.0));
      cells.largest = std::max(cells.largest, cell);
    }
  }
  return cells;
}

const std::string& label(const std::vector<std::string>& labels, std::int64_t cell,
                         const Cells& cells) {
  return labels[static_cast<std::size_t>(cell * cells.step)];
}

std::string scale_note(const Cells& cells) {
  std::string note = fmt::format("darkest: {:.2f}", cells.largest);
  if (cells.step > 1) {
    note += fmt::format("; each cell: the largest of {0} x {0} positions", cells.step);
  }
  return note;
}

// From nearly white to a dark blue, evenly in lightness for the eye (a square root lifts the faint
// cells).
std::string colour(double value) {
  const double t = std::sqrt(value);
  const auto mix = [t](double from, double to) { return std::lround(from + t * (to - from)); };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(0xf3, 0x08), mix(0xf6, 0x30), mix(0xfb, 0x7c));
}

}  // namespace

std::string text_picture(const HeatMap& map) {
  const Cells cells = coarse(map, 32);
  constexpr std::array<const char*, 5> kShades = {"  ", "\u2591\u2591", "\u2592\u2592",
                                                  "\u2593\u2593", "\u2588\u2588"};
  std::size_t margin = 1;
  for (const std::string& name : map.rows) margin = std::max(margin, name.size());

  std::string text = fmt::format("{}\ndown: {}, across: {}; {}\n", map.title, map.row_axis,
                                 map.column_axis, scale_note(cells));
  text += fmt::format("{:>{}}  ", "", margin);
  for (std::int64_t column = 0; column < cells.columns; ++column) {
    const std::string& name = label(map.columns, column, cells);
    text += fmt::format("{:<2}", name.size() <= 2 ? name : "");
  }
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
  for (std::int64_t row = 0; row < cells.rows; ++row) {
    text += fmt::format("{:>{}} \u2502", label(map.rows, row, cells), margin);
    for (std::int64_t column = 0; column < cells.columns; ++column) {
      text += kShades[static_cast<std::size_t>(std::min(cells.shade(row, column) * 5, 4.0))];
    }
    text += "\u2502\n";
  }
  return text;
}

std::string svg_picture(const HeatMap& map) {
  const Cells cells = coarse(map, 64);
  constexpr std::int64_t kCell = 24;
  constexpr std::int64_t kLeft = 76;
  constexpr std::int64_t kTop = 92;
  const std::int64_t width = kLeft + std::max<std::int64_t>(cells.columns * kCell, 320) + 24;
  const std::int64_t height = kTop + cells.rows * kCell + 48;
  const std::int64_t middle_x = kLeft + cells.columns * kCell / 2;
  const std::int64_t middle_y = kTop + cells.rows * kCell / 2;

  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
      R"(font-family="system-ui, sans-serif" font-size="13" fill="#1c2733" text-anchor="middle">)"
      "\n",
      width, height);
  svg += fmt::format(R"(<title>{}</title><rect width="{}" height="{}" fill="#ffffff"/>)"
                     "\n",
                     escaped(map.title), width, height);
  svg += fmt::format(
      R"(<text x="24" y="30" font-size="16" font-weight="600" text-anchor="start">{}</text>)"
      "\n",
      escaped(map.title));
  svg += fmt::format(R"(<text x="24" y="{}" fill="#5a6876" text-anchor="start">{}</text>)"
                     "\n",
                     height - 16, scale_note(cells));
  svg += fmt::format(R"(<text x="{}" y="58" fill="#5a6876">{}</text>)"
                     "\n",
                     middle_x, escaped(map.column_axis));
  svg +=
      fmt::format(R"svg(<text transform="translate(30 {}) rotate(-90)" fill="#5a6876">{}</text>)svg"
                  "\n",
                  middle_y, escaped(map.row_axis));
  for (std::int64_t column = 0; column < cells.columns; ++column) {
    svg += fmt::format(R"(<text x="{}" y="{}">{}</text>)"
                       "\n",
                       kLeft + column * kCell + kCell / 2, kTop - 8,
                       escaped(label(map.columns, column, cells)));
  }
  for (std::int64_t row = 0; row < cells.rows; ++row) {
    const std::string& row_label = label(map.rows, row, cells);
    svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)"
                       "\n",
                       kLeft - 8, kTop + row * kCell + 17, escaped(row_label));
    for (std::int64_t column = 0; column < cells.columns; ++column) {
      svg += fmt::format(
          R"(<rect x="{}" y="{}" width="{}" height="{}" rx="2" fill="{}"><title>{} to {}: {:.4f})"
          "</title></rect>\n",
          kLeft + column * kCell + 1, kTop + row * kCell + 1, kCell - 2, kCell - 2,
          colour(cells.shade(row, column)), escaped(row_label),
          escaped(label(map.columns, column, cells)), cells.at(row, column));
    }
  }
  return svg + "</svg>\n";
}

}  // namespace tapehead::report

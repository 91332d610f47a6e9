// metrics.csv as curves to draw.
#include <array>
#include <charconv>
#include <limits>

#include "io/json.hpp"
#include "report/page.hpp"

namespace tapehead::report {

using detail::Json;

namespace {

constexpr std::size_t kFields = 9;
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
enum Field { kStep, kLoss, kLr, kGradNorm, kTokens, kSeconds, kValLoss, kValAccuracy, kValExact };

using Row = std::array<double, kFields>;

// The numbers of one line; what is empty or no number is NaN, and so becomes null.
Row row_of(std::string_view line) {
  Row row;
  row.fill(kNothing);
  for (double& value : row) {
    const std::string_view field = line.substr(0, line.find(','));
    std::from_chars(field.data(), field.data() + field.size(), value);
    line.remove_prefix(std::min(line.size(), field.size() + 1));
  }
  return row;
}

std::vector<Row> rows_of(std::string_view text) {
  std::vector<Row> rows;
  bool heading = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (!heading) rows.push_back(row_of(text.substr(0, end)));
    heading = false;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return rows;
}

}  // namespace

std::string curves_json(std::string_view metrics, std::int64_t most) {
  const std::vector<Row> rows = rows_of(metrics);
  const std::size_t points = std::min(rows.size(), static_cast<std::size_t>(most));
  const auto column = [&](Field field) {
    Json list = Json::array();
    for (std::size_t i = 0; i < points; ++i) {
      const std::size_t begin = i * rows.size() / points;
      const std::size_t end = (i + 1) * rows.size() / points;
      double sum = 0;
      for (std::size_t r = begin; r < end; ++r) sum += rows[r][field];
      list.push(sum / static_cast<double>(end - begin));
    }
    return list;
  };
  const auto evaluated = [&](Field field) {
    Json list = Json::array();
    for (const Row& row : rows) {
      if (row[kValLoss] == row[kValLoss]) list.push(row[field]);
    }
    return list;
  };
  Json curves;
  curves.set("step", column(kStep)).set("loss", column(kLoss)).set("lr", column(kLr));
  curves.set("grad_norm", column(kGradNorm)).set("evaluated", evaluated(kStep));
  curves.set("validation_loss", evaluated(kValLoss));
  curves.set("validation_accuracy", evaluated(kValAccuracy));
  curves.set("validation_exact", evaluated(kValExact));
  return to_string(curves);
}

}  // namespace tapehead::report

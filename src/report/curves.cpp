// metrics.csv as curves to draw.
#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
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
  std::vector<Row> evaluated;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(evaluated),
               [](const Row& row) { return row[kValLoss] == row[kValLoss]; });
  const auto column = [most](const std::vector<Row>& of, Field field) {
    const std::size_t points = std::min(of.size(), static_cast<std::size_t>(most));
    Json list = Json::array();
    for (std::size_t i = 0; i < points; ++i) {
      const std::size_t begin = i * of.size() / points;
      const std::size_t end = (i + 1) * of.size() / points;
      double sum = 0;
      for (std::size_t r = begin; r < end; ++r) sum += of[r][field];
      list.push(sum / static_cast<double>(end - begin));
    }
    return list;
  };
  Json curves;
  curves.set("step", column(rows, kStep))
      .set("loss", column(rows, kLoss))
      .set("lr", column(rows, kLr));
  curves.set("grad_norm", column(rows, kGradNorm)).set("evaluated", column(evaluated, kStep));
  curves.set("validation_loss", column(evaluated, kValLoss));
  curves.set("validation_accuracy", column(evaluated, kValAccuracy));
  curves.set("validation_exact", column(evaluated, kValExact));
  return to_string(curves);
}

}  // namespace tapehead::report

// Float32 comparisons of what the catalogs hold.
#pragma once

#include <string>
#include <vector>

#include <tapehead/catalog.hpp>
#include <tapehead/float32.hpp>

#include "gradcheck/float32_run.hpp"
#include "gradcheck/progress.hpp"

namespace tapehead::detail {

// The two sides have the same inputs but for the dtype of the floating ones, and the same
// parameters.
[[nodiscard]] Float32Report compare_sides(const Float32Side& single, const Float32Side& full,
                                          const Float32Options& options);

// Fills in everything but the name and the seconds.
void compare_walks(const Float32Side& single, const Float32Side& full,
                   const Float32Options& options, std::vector<Tensor> cotangents,
                   Float32Report& report);

// What loses more stands before.
[[nodiscard]] bool loses_more(const Float32Op& a, const Float32Op& b);
// Joins nodes of one op, of one report or of several, into one row.
void add_to(std::vector<Float32Op>& ops, const Float32Op& node);

struct Float32Suite {
  struct Thing {
    std::string name;
    Float32Report report;  // of the sample with the worst own error for what it may be
    int samples = 0;       // that were compared
    std::int64_t compared = 0;
    std::string left_out;  // why no sample was: "no gradient", "its output is f64"
  };
  std::vector<Thing> things;
  std::vector<Float32Op> ops;  // over all things
  double bound = 0;
  double seconds = 0;
  [[nodiscard]] GradcheckStatus status() const;
  [[nodiscard]] std::int64_t compared() const;
};

[[nodiscard]] Float32Suite float32_suite(const std::vector<OpEntry>& ops,
                                         const std::vector<ModuleEntry>& modules,
                                         const Float32Options& options = {},
                                         Progress* progress = nullptr);
// One line per thing, then the ops over all of them, then what did not pass.
[[nodiscard]] std::string to_string(const Float32Suite& suite);
[[nodiscard]] std::string ops_table(const std::vector<Float32Op>& ops);
[[nodiscard]] std::string legend();  // of the columns

}  // namespace tapehead::detail

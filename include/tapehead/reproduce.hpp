// Published results, each with the setup that is to reach it again.
//
//   const th::Reproduction& sort = th::find_reproduction("sort");
//   for (const th::Finding& finding : sort.run(sort, {.seed = 1})) { ... }
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/runs.hpp>

namespace tapehead {

// One quantity: what was published, what came out, and whether that counts as the same.
struct Finding {
  std::string what;
  std::string published;
  std::string ours;
  bool reached = false;
};

struct ReproduceOptions {
  std::filesystem::path data = {};  // the file, for those that need one
  std::uint64_t seed = 0;           // the first
  std::int64_t seeds = 0;           // how many, from there on; 0: as many as the published result
  // A line on how it goes.
  std::function<void(const std::string& line)> note = nullptr;
  // Looked at after each step: once it is not 0, run returns without findings.
  const std::atomic<int>* stop = nullptr;
};

struct Reproduction;
using RunReproduction =
    std::function<std::vector<Finding>(const Reproduction& self, const ReproduceOptions& options)>;

struct Reproduction {
  std::string name;
  std::string what;       // is trained, in one sentence
  std::string source;     // who published it
  std::string published;  // what has to be reached, in one phrase
  double minutes = 0;     // about, on two cores
  std::string data = {};  // name of the file that it needs: see data/README.md
  std::int64_t seeds = 1;
  RunConfig config = {};  // of the first seed
  RunReproduction run = {};
};

[[nodiscard]] const std::vector<Reproduction>& reproductions();
// ValueError naming the nearest one when there is none of that name.
[[nodiscard]] const Reproduction& find_reproduction(std::string_view name);
// `given`, or the file of that name when it is a folder. ValueError when nothing is there, or
// something else: what was published came from exactly one file.
[[nodiscard]] std::filesystem::path data_file(const Reproduction& reproduction,
                                              const std::filesystem::path& given);

}  // namespace tapehead

// microgpt: the smallest GPT, trained on one document a step in f64, with the random numbers of the
// Python program that it was published as.  A. Karpathy, "microgpt" (2026).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/runs.hpp>

namespace tapehead::detail {

struct MicrogptResult {
  std::vector<double> losses;        // one a step
  std::vector<std::string> samples;  // drawn after the last step
  double seconds = 0;                // of the steps
  bool stopped = false;
};

// The model and how it is trained; symbols are those of names.txt.
[[nodiscard]] RunConfig microgpt_config();
// Non-empty lines without the blanks around them.
[[nodiscard]] std::vector<std::string> documents_of(std::string_view text);
// 200 words that any machine can make: they need no file.
[[nodiscard]] std::vector<std::string> made_up_words();

// One stream of random numbers shuffles the documents, draws the weights, and at the end the
// samples. Step s = 1, 2, ... trains on document s, round and round.
[[nodiscard]] MicrogptResult run_microgpt(std::vector<std::string> documents,
                                          const RunConfig& config, std::int64_t samples,
                                          const std::atomic<int>* stop = nullptr);

}  // namespace tapehead::detail

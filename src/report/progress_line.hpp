// The words of a progress line.
#pragma once

#include <string>

#include <tapehead/train.hpp>

namespace tapehead::report {

// "epoch 3/10  step 1,043/3,900  loss 0.012346  accuracy 99.80%  64,000 tokens/s  16 s left",
// without its less important parts where `width` columns do not hold them all. ASCII, at most
// `width` long.
[[nodiscard]] std::string progress_line(const StepReport& step, std::int64_t epochs,
                                        std::size_t width);
// "epoch 3/10: validation loss 0.012346, 99.80% of tokens, 97.10% of sequences"
[[nodiscard]] std::string epoch_line(const Evaluation& validation, std::int64_t epoch,
                                     std::int64_t epochs);
// The same with "step 250/2,000" in front.
[[nodiscard]] std::string evaluation_line(const StepReport& step);

// "1,234,567"
[[nodiscard]] std::string thousands(std::int64_t number);
// "1 layer", "2,000 steps"
[[nodiscard]] std::string plural(std::int64_t count, const char* what);
// "0x00000000000004d2", as fingerprints are shown
[[nodiscard]] std::string hex(std::uint64_t number);
// "42 s", "3 min 20 s", "2 h 5 min"
[[nodiscard]] std::string duration(double seconds);

}  // namespace tapehead::report

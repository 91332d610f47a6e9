// Generation: the next token again and again, by the largest logit, by chance, or by beam search.
//
//   th::Rng rng(seed, th::Stream::sampling);
//   auto ids = th::generate(th::next_token(*model.language_model()), prompt, {.tokens = 100}, rng);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <tapehead/models.hpp>
#include <tapehead/random.hpp>

namespace tapehead {

// Logits of the token after these.
using NextToken = std::function<std::vector<double>(std::span<const std::int64_t> ids)>;

// Learned positions end: the model then sees the last max_length ids. It must outlive the function.
// Keys and values of earlier calls are kept, by all copies of the function together: ids that go on
// from those of the last call cost the new ones alone. A write to the parameters begins anew.
[[nodiscard]] NextToken next_token(const LanguageModel& model);
// The target of this source. ids begin with the start symbol.
[[nodiscard]] NextToken next_token(const EncoderDecoder& model,
                                   std::span<const std::int64_t> source);

struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: always the largest
  std::int64_t top_k = 0;  // above 0: of the k largest only
  double top_p = 1;        // of the most likely whose probabilities reach p; Holtzman et al. 2020
};
// ValueError for options outside their ranges.
void check(const SamplingOptions& options);
// One draw; of equal logits the first counts as larger. Greedy takes no random number.
[[nodiscard]] std::int64_t sample(std::span<const double> logits, const SamplingOptions& options,
                                  Rng& rng);

struct GenerateOptions {
  std::int64_t tokens = 100;                        // at most
  std::optional<std::int64_t> stop = std::nullopt;  // ends the text and is not part of it
  SamplingOptions sampling = {};
  std::function<void(std::int64_t id)> each = nullptr;  // as it comes
};
// What comes after the prompt.
[[nodiscard]] std::vector<std::int64_t> generate(const NextToken& next,
                                                 std::vector<std::int64_t> prompt,
                                                 const GenerateOptions& options, Rng& rng);

struct Beam {
  std::vector<std::int64_t> ids;  // after the prompt, without the stop
  double log_probability = 0;     // of all of them, the stop included
};
// The `width` likeliest continuations found by keeping that many at each length, best first.
[[nodiscard]] std::vector<Beam> beam_search(const NextToken& next,
                                            const std::vector<std::int64_t>& prompt,
                                            std::int64_t tokens, std::optional<std::int64_t> stop,
                                            std::int64_t width);

}  // namespace tapehead

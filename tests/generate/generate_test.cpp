// Sampling and beam search against distributions and probabilities worked out by hand.
#include <algorithm>
#include <cmath>

#include <tapehead/generate.hpp>

#include "support/catch.hpp"

using namespace tapehead;

namespace {

using Ids = std::vector<std::int64_t>;

// How often each of `count` draws is which token.
std::vector<double> shares(const std::vector<double>& logits, const SamplingOptions& options) {
  Rng rng(3, Stream::sampling);
  std::vector<double> counts(logits.size(), 0.0);
  for (int i = 0; i < 20'000; ++i) ++counts[static_cast<std::size_t>(sample(logits, options, rng))];
  for (double& count : counts) count /= 20'000;
  return counts;
}

// A chain over 0..2: from 0 to 1 with 0.6 and to 2 with 0.4; 1 goes on to 0, 1, 2 alike; 2 to 0
// with 0.9. The greedy way of two steps, 1 then 0, has 0.2; the best, 2 then 0, has 0.36.
std::vector<double> chain(std::span<const std::int64_t> ids) {
  const double rows[3][3] = {{1e-9, 0.6, 0.4}, {1 / 3.0, 1 / 3.0, 1 / 3.0}, {0.9, 0.05, 0.05}};
  std::vector<double> logits;
  for (const double p : rows[ids.back()]) logits.push_back(std::log(p) + 7);  // any constant
  return logits;
}

}  // namespace

TEST_CASE("sampling follows the distribution, its temperature and its cuts") {
  const std::vector<double> logits = {std::log(0.5), std::log(0.125), std::log(0.375)};
  // Six deviations of a share of 20,000 draws are below 0.0213.
  const auto check_shares = [&](const SamplingOptions& options, const std::vector<double>& wanted) {
    const std::vector<double> found = shares(logits, options);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) < 0.0213);
  };
  check_shares({}, {0.5, 0.125, 0.375});
  // p^2 at temperature 1/2: 16, 1 and 9 of 26.
  check_shares({.temperature = 0.5}, {16 / 26.0, 1 / 26.0, 9 / 26.0});
  check_shares({.top_k = 2}, {4 / 7.0, 0, 3 / 7.0});
  check_shares({.top_p = 0.8}, {4 / 7.0, 0, 3 / 7.0});
  check_shares({.top_k = 99}, {0.5, 0.125, 0.375});
  CHECK(shares(logits, {.top_p = 0.5})[0] == 1);
  CHECK(shares(logits, {.top_k = 1})[0] == 1);
  CHECK(shares(logits, {.temperature = 0})[0] == 1);
  CHECK(shares({2, 5, 5}, {.temperature = 0})[1] == 1);  // the first of equals
  CHECK(shares(logits, {.top_k = 2})[1] == 0);

  Rng rng(3, Stream::sampling);
  (void)sample(logits, {.temperature = 0}, rng);
  CHECK(rng.counter() == 0);
  CHECK_THROWS_WITH(sample(logits, {.temperature = -1}, rng), ContainsSubstring("temperature"));
  CHECK_THROWS_WITH(sample(logits, {.top_p = 0}, rng), ContainsSubstring("top-p"));
  CHECK_THROWS_WITH(sample(logits, {.top_k = -1}, rng), ContainsSubstring("top-k"));
  CHECK_THROWS_AS(sample(std::vector<double>{0, std::nan("")}, {}, rng), NonFiniteError);
}

TEST_CASE("generation is greedy or by seed, ends at the stop, and tells each token") {
  Rng rng(1, Stream::sampling), same(1, Stream::sampling), other(2, Stream::sampling);
  CHECK(generate(chain, {0}, {.tokens = 3, .sampling = {.temperature = 0}}, rng) == Ids{1, 0, 1});
  CHECK(generate(chain, {0}, {.tokens = 5, .stop = 0, .sampling = {.temperature = 0}}, rng) ==
        Ids{1});
  Ids told;
  GenerateOptions options{.tokens = 50};
  options.each = [&](std::int64_t id) { told.push_back(id); };
  const Ids text = generate(chain, {0}, options, rng);
  CHECK(told == text);
  CHECK(generate(chain, {0}, {.tokens = 50}, same) == text);
  CHECK_FALSE(generate(chain, {0}, {.tokens = 50}, other) == text);
  CHECK_THROWS_AS(generate(chain, {}, {}, rng), ValueError);
}

TEST_CASE("beam search finds what greedy misses, and its probabilities are the chain's") {
  const std::vector<Beam> one = beam_search(chain, {0}, 2, std::nullopt, 1);
  CHECK(one.size() == 1);
  CHECK(one[0].ids == Ids{1, 0});
  CHECK(one[0].log_probability == Approx(std::log(0.2)));
  const std::vector<Beam> two = beam_search(chain, {0}, 2, std::nullopt, 2);
  REQUIRE(two.size() == 2);
  CHECK(two[0].ids == Ids{2, 0});
  CHECK(two[0].log_probability == Approx(std::log(0.36)));
  CHECK(two[1].log_probability == Approx(std::log(0.2)));
  // With 0 as the end: "2" has 0.36, "1" 0.2, "1 1" 0.6/9.
  const std::vector<Beam> ended = beam_search(chain, {0}, 9, 0, 3);
  REQUIRE(ended.size() == 3);
  CHECK(ended[0].ids == Ids{2});
  CHECK(ended[1].ids == Ids{1});
  CHECK(ended[2].log_probability < ended[1].log_probability);
  CHECK_THROWS_AS(beam_search(chain, {0}, 2, std::nullopt, 0), ValueError);
}

TEST_CASE("the next token of a model is the last row of its logits") {
  Params params(1);
  LanguageModelOptions options{.symbols = 5, .max_length = 4};
  options.stack = {.width = 8, .hidden = 12};
  const LanguageModel model(params, options);
  const NextToken next = next_token(model);
  const Ids ids = {1, 2, 3, 4, 0, 1};
  const Tensor logits = model(tensor(std::span<const std::int64_t>(ids).last(4), {1, 4}));
  const std::vector<double> found = next(ids);  // longer than the model's positions
  for (std::int64_t v = 0; v < 5; ++v) {
    CHECK(found[static_cast<std::size_t>(v)] == logits.at({0, 3, v}));
  }
  Params more(1);
  EncoderDecoderOptions pair{.symbols = 5, .classes = 6};
  pair.stack = options.stack;
  const EncoderDecoder translator(more, pair);
  const Ids source = {1, 2, 3};
  const Tensor whole = translator(tensor(std::span<const std::int64_t>(source), {1, 3}), {},
                                  tensor({{5, 1}}, DType::i64));
  const std::vector<double> answer = next_token(translator, source)(Ids{5, 1});
  for (std::int64_t v = 0; v < 6; ++v) {
    CHECK(answer[static_cast<std::size_t>(v)] == whole.at({0, 1, v}));
  }
}

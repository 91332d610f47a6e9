// Decoding step by step gives what the whole sequence gives, whatever the variant of attention.
#include <tapehead/generate.hpp>
#include <tapehead/models.hpp>

#include "nn/support.hpp"
#include "nn/variants.hpp"

namespace th = tapehead;
using test::check_close;
using th::DType;
using th::Mask;
using th::Tensor;
using variants::ids;
using variants::Named;

namespace {

constexpr std::int64_t kWidth = 16, kHeads = 4;

}  // namespace

TEST_CASE("step by step, each variant gives what the whole sequence gives") {
  for (const Named& one : variants::all()) {
    INFO(one.name);
    th::Params params(1, DType::f64);
    th::LanguageModelOptions options{.symbols = 7, .positions = th::Positions::sinusoidal};
    options.stack = {.layers = 2,
                     .width = kWidth,
                     .heads = kHeads,
                     .hidden = 12,
                     .place = th::NormPlace::pre,
                     .variant = one.variant};
    const th::LanguageModel model(params, options);
    variants::perturb(params);
    const Tensor x = ids(7, 2, 11, 3);
    const Tensor whole = model(x);
    for (const std::vector<std::int64_t>& pieces :
         {std::vector<std::int64_t>(11, 1), {4, 1, 3, 1, 2}, {11}, {0, 5, 6}}) {
      th::DecodingCache cache;
      std::int64_t at = 0;
      for (const std::int64_t n : pieces) {
        const Tensor step = model.step(th::slice(x, 1, at, at + n), cache);
        check_close(step, th::slice(whole, 1, at, at + n), {1e-12, 1e-12});
        at += n;
        CHECK(cache.length() == at);
      }
      // Going back and on with other ids.
      cache.truncate(6);
      const Tensor other = ids(7, 2, 3, 8);
      const Tensor joined = th::concat({th::slice(x, 1, 0, 6), other}, 1);
      check_close(model.step(other, cache), th::slice(model(joined), 1, 6, 9), {1e-12, 1e-12});
      CHECK_THROWS_AS(cache.truncate(10), th::ValueError);
    }
    // The tokens that a greedy reader takes, with the cache and without.
    const auto greedy = [&](const std::vector<std::int64_t>& prompt) {
      std::vector<std::int64_t> list = prompt;
      for (int i = 0; i < 20; ++i) {
        const Tensor logits = model(test::ids(list, {1, static_cast<std::int64_t>(list.size())}));
        const std::int64_t last = logits.dim(1) - 1;
        list.push_back(
            static_cast<std::int64_t>(th::argmax(th::slice(logits, 1, last, last + 1)).item()));
      }
      return std::vector<std::int64_t>(list.begin() + static_cast<std::ptrdiff_t>(prompt.size()),
                                       list.end());
    };
    th::Rng rng(1, th::Stream::sampling);
    th::GenerateOptions twenty{.tokens = 20};
    twenty.sampling.temperature = 0;
    const th::NextToken next = th::next_token(model);
    CHECK(th::generate(next, {3, 1}, twenty, rng) == greedy({3, 1}));
    CHECK(th::generate(next, {5}, twenty, rng) == greedy({5}));
    CHECK(th::generate(next, {3, 1, 2}, twenty, rng) == greedy({3, 1, 2}));
    variants::perturb(params, 77);  // other weights: nothing old may be used
    CHECK(th::generate(next, {3, 1, 2}, twenty, rng) == greedy({3, 1, 2}));
  }
}

TEST_CASE("step by step, a decoder gives what it gives at once") {
  for (const Named& one : variants::all()) {
    INFO(one.name);
    th::Params params(1, DType::f64);
    th::EncoderDecoderOptions options{
        .symbols = 6, .classes = 5, .positions = th::Positions::learned};
    options.stack = {
        .layers = 2, .width = kWidth, .heads = kHeads, .hidden = 12, .variant = one.variant};
    const th::EncoderDecoder model(params, options);
    variants::perturb(params);
    const Tensor source = ids(6, 2, 5, 2), target = ids(5, 2, 7, 3);
    const th::Memory memory{model.encode(source, {5, 3}), Mask::lengths({5, 3}, 5)};
    const Tensor whole = model.decode(target, memory);
    th::DecodingCache cache;
    std::int64_t at = 0;
    for (const std::int64_t n : {1, 3, 1, 2}) {
      const Tensor step = model.step(th::slice(target, 1, at, at + n), memory, cache);
      check_close(step, th::slice(whole, 1, at, at + n), {1e-12, 1e-12});
      at += n;
    }
    CHECK_THROWS_WITH(model.step(ids(5, 3, 1, 1), memory, cache), ContainsSubstring("batch"));
  }
}

TEST_CASE("what decoding keeps is off the tape") {
  th::Params params(1);
  th::LanguageModelOptions options{.symbols = 5};
  options.stack = {.width = 8, .heads = 2};
  const th::LanguageModel model(params, options);
  th::DecodingCache cache;
  {
    th::Tape tape;
    (void)model.step(ids(5, 1, 3, 1), cache);
    CHECK(cache.layers[0].own.keys.tape_id() == 0);
  }
  th::Tape tape;
  const th::Gradients g = tape.backward(th::sum(model.step(ids(5, 1, 1, 2), cache)));
  CHECK(g.reached(params.at("stack.layers.0.attention.key.weight")));
}

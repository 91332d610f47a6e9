// The structure of dependence, by gradients and by exchanged ids: sample i does not reach sample j,
// position t does not see beyond t, and blocked keys reach nothing, exactly.
#include <fmt/format.h>

#include <tapehead/gradcheck.hpp>
#include <tapehead/models.hpp>

#include "nn/support.hpp"

using namespace tapehead;

namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTime = 5;
constexpr std::int64_t kWidth = 8;

struct Variant {
  Activation activation;
  NormKind norm;
  NormPlace place;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
        Activation::silu, Activation::swiglu}) {
    for (const NormKind norm : {NormKind::layer, NormKind::rms, NormKind::none}) {
      for (const NormPlace place : {NormPlace::pre, NormPlace::post})
        all.push_back({activation, norm, place});
    }
  }
  return all;
}

TransformerOptions stack_of(const Variant& variant) {
  TransformerOptions options;
  options.layers = 2;
  options.width = kWidth;
  options.heads = 2;
  options.hidden = 12;
  options.activation = variant.activation;
  options.norm = variant.norm;
  options.place = variant.place;
  return options;
}

std::string name(const Variant& variant) {
  return fmt::format("activation {}, norm {}, place {}", static_cast<int>(variant.activation),
                     static_cast<int>(variant.norm), static_cast<int>(variant.place));
}

Tensor some_ids(std::int64_t length) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < kBatch * length; ++i) values.push_back((3 * i + i / 4) % 7);
  return test::ids(values, {kBatch, length});
}

// Exactly the pairs (i, j) for which `wanted(i, j)` holds may be other than 0.
template <class F>
void check_reach(const Tensor& matrix, F wanted) {
  for (std::int64_t i = 0; i < matrix.dim(0); ++i) {
    for (std::int64_t j = 0; j < matrix.dim(1); ++j) {
      INFO(i << " on " << j << ": " << matrix.at({i, j}));
      CHECK((matrix.at({i, j}) != 0) == wanted(i, j));
    }
  }
}

bool same_position(std::int64_t i, std::int64_t j) { return i == j; }
bool not_later(std::int64_t i, std::int64_t j) { return i <= j; }

}  // namespace

TEST_CASE("causal stacks of every norm, place and activation see no later position, by gradient") {
  for (const Variant& variant : variants()) {
    INFO(name(variant));
    Params params(1);
    const TransformerStack stack(params / "stack", stack_of(variant));
    const UnaryFunction f = [&](const Tensor& x) { return stack(x, Mask::causal(kTime)); };
    const Tensor x = test::random({kBatch, kTime, kWidth}, 3);
    check_reach(influence(f, x, 1, 1), not_later);
    check_reach(influence(f, x, 0, 0), same_position);
  }
}

TEST_CASE("the same by the ids of a language model, with every kind of positions") {
  for (const Variant& variant : variants()) {
    for (const Positions positions : {Positions::none, Positions::sinusoidal, Positions::learned}) {
      INFO(name(variant) << ", positions " << static_cast<int>(positions));
      Params params(1);
      LanguageModelOptions options;
      options.symbols = 7;
      options.positions = positions;
      options.max_length = kTime;
      options.stack = stack_of(variant);
      const LanguageModel model(params, options);
      const UnaryFunction f = [&](const Tensor& ids) { return model(ids); };
      check_reach(influence(f, some_ids(kTime), 1, 1), not_later);
      check_reach(influence(f, some_ids(kTime), 0, 0), same_position);
    }
  }
}

TEST_CASE("dropout mixes neither samples nor times") {
  Params params(1);
  LanguageModelOptions options;
  options.symbols = 7;
  options.max_length = kTime;
  options.stack = stack_of(variants().front());
  options.stack.dropout = {0.2, 0.2, 0.2, 0.2};
  const LanguageModel model(params, options);
  const UnaryFunction f = [&](const Tensor& ids) {
    Rng rng(4, Stream::dropout);
    return model(ids, &rng);
  };
  const Tensor times = influence(f, some_ids(kTime), 1, 1);
  const Tensor samples = influence(f, some_ids(kTime), 0, 0);
  // What was dropped may be missing.
  for (std::int64_t i = 0; i < kTime; ++i) {
    for (std::int64_t j = 0; j < i; ++j) CHECK(times.at({i, j}) == 0);
  }
  CHECK(times.at({0, kTime - 1}) > 0);
  CHECK(samples.at({0, 1}) == 0);
  CHECK(samples.at({1, 0}) == 0);
}

TEST_CASE("an encoder looks everywhere but at padding, and never at another sample") {
  for (const Variant& variant : variants()) {
    INFO(name(variant));
    Params params(1);
    EncoderModelOptions options;
    options.symbols = options.classes = 7;
    options.encoder = stack_of(variant);
    const EncoderModel model(params, options);
    const std::vector<std::int64_t> lengths{3, 3};
    const UnaryFunction f = [&](const Tensor& ids) { return model.padded(ids, lengths); };
    const Tensor ids = some_ids(kTime);
    check_reach(influence(f, ids, 0, 0), same_position);
    // What stands in the padding reaches its own output alone, where nobody looks.
    check_reach(influence(f, ids, 1, 1),
                [](std::int64_t i, std::int64_t j) { return i < 3 || i == j; });
  }
}

TEST_CASE("a pooled encoder does not see padding at all") {
  Params params(1);
  EncoderModelOptions options;
  options.symbols = options.classes = 7;
  options.head = EncoderHead::pooled;
  options.encoder = stack_of(variants()[2]);
  const EncoderModel model(params, options);
  const UnaryFunction f = [&](const Tensor& ids) { return model.padded(ids, {4, 4}); };
  check_reach(influence(f, some_ids(kTime), 0, 0), same_position);
  const Tensor m = influence(f, some_ids(kTime), 1, 0);
  for (std::int64_t sample = 0; sample < kBatch; ++sample) CHECK(m.at({4, sample}) == 0);
  CHECK(m.at({3, 0}) > 0);
}

TEST_CASE("an encoder-decoder sees its source's real tokens and its target's past") {
  for (const Variant& variant : variants()) {
    INFO(name(variant));
    Params params(1);
    EncoderDecoderOptions options;
    options.symbols = options.classes = 7;
    options.stack = stack_of(variant);
    const EncoderDecoder model(params, options);
    const Tensor source = some_ids(4);
    const Tensor target = some_ids(kTime);
    const std::vector<std::int64_t> lengths{3, 3};
    const UnaryFunction of_target = [&](const Tensor& ids) { return model(source, lengths, ids); };
    const UnaryFunction of_source = [&](const Tensor& ids) { return model(ids, lengths, target); };
    check_reach(influence(of_target, target, 1, 1), not_later);
    check_reach(influence(of_target, target, 0, 0), same_position);
    check_reach(influence(of_source, source, 1, 1),
                [](std::int64_t i, std::int64_t) { return i < 3; });
    check_reach(influence(of_source, source, 0, 0), same_position);
  }
}

TEST_CASE("blocked keys and values have exactly zero gradient, whatever blocks them") {
  // One sample and head, so that the mask is the matrix of what reaches what.
  const Tensor q = test::random({1, 1, kTime, 4}, 1);
  const Tensor k = test::random({1, 1, kTime, 4}, 2);
  const Tensor v = test::random({1, 1, kTime, 3}, 3);
  const std::vector<Mask> masks{
      Mask(),
      Mask::causal(kTime),
      Mask::lengths({3}, kTime),
      Mask::window(1, 0),
      Mask::window(0, 2) & Mask::lengths({4}, kTime),
      !Mask::causal(kTime),  // the last query sees nothing
      Mask::documents(tensor({{0, 0, 1, 1, 1}}, DType::i64)),
      Mask::rule([](std::int64_t, std::int64_t, std::int64_t query, std::int64_t key) {
        return (query + key) % 2 == 0;
      }),
  };
  for (const Mask& mask : masks) {
    INFO(mask.name());
    const auto sees = [&](std::int64_t key, std::int64_t query) {
      return mask.sees(0, 0, query, key);
    };
    const UnaryFunction of_value = [&](const Tensor& x) { return attention(q, k, x, mask); };
    check_reach(influence(of_value, v, 2, 2), sees);
    // A key alone in sight has weight 1, whatever it holds.
    const auto chooses = [&](std::int64_t key, std::int64_t query) {
      std::int64_t visible = 0;
      for (std::int64_t s = 0; s < kTime; ++s) visible += sees(s, query) ? 1 : 0;
      return sees(key, query) && visible > 1;
    };
    const UnaryFunction of_key = [&](const Tensor& x) { return attention(q, x, v, mask); };
    const Tensor by_key = influence(of_key, k, 2, 2);
    for (std::int64_t s = 0; s < kTime; ++s) {
      for (std::int64_t t = 0; t < kTime; ++t) {
        INFO("key " << s << ", query " << t);
        if (!sees(s, t)) CHECK(by_key.at({s, t}) == 0);
        if (chooses(s, t)) CHECK(by_key.at({s, t}) > 0);
      }
    }
  }
}

TEST_CASE("both attention modules keep samples apart and blocked positions out") {
  Params params(1);
  const MultiHeadAttention standard(params / "standard", {.width = kWidth, .heads = 2});
  const HeadwiseAttention headwise(params / "headwise", {.width = kWidth, .heads = 2});
  const Mask mask = Mask::lengths({3, 3}, kTime);
  const Tensor query = test::random({kBatch, 4, kWidth}, 5);
  const Tensor x = test::random({kBatch, kTime, kWidth}, 6);
  const UnaryFunction of_standard = [&](const Tensor& keys) {
    return standard(query, keys, keys, mask);
  };
  const UnaryFunction of_headwise = [&](const Tensor& keys) {
    return headwise(keys, keys, query, mask);
  };
  for (const UnaryFunction& f : {of_standard, of_headwise}) {
    check_reach(influence(f, x, 0, 0), same_position);
    check_reach(influence(f, x, 1, 1), [](std::int64_t i, std::int64_t) { return i < 3; });
  }
}

TEST_CASE("a model that looks ahead is found out") {
  Params params(1);
  const TransformerStack stack(params / "stack", stack_of(variants()[2]));
  const UnaryFunction f = [&](const Tensor& x) { return stack(x); };
  const Tensor m = influence(f, test::random({kBatch, kTime, kWidth}, 3), 1, 1);
  CHECK(m.at({kTime - 1, 0}) > 0);
}

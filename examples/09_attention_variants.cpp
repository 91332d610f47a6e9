// Attention in other shapes: a variant by options, one of one's own by a function, decoding step by
// step, and a look inside.
#include <cstdio>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

namespace {

void say(const char* what, const th::Comparison& same) {
  std::printf("%s: %s\n", what, same ? "yes" : "no");
}

}  // namespace

int main() {
  th::Params params(/*seed=*/1, th::DType::f64);

  // Eight heads of queries share two heads of keys; positions turn queries and keys.
  th::LanguageModelOptions options{.symbols = 11, .positions = th::Positions::rope};
  options.stack = {.layers = 2, .width = 32, .heads = 8, .hidden = 64};
  options.stack.variant.kv_heads = 2;
  options.stack.variant.window = 6;
  const th::LanguageModel model(params, options);

  const Tensor ids = th::tensor({{3, 1, 4, 1, 5, 9, 2, 6}}, th::DType::i64);  // [1,8]
  const Tensor whole = model(ids);                                            // [1,8,11]

  // The same, one token at a time: keys and values of earlier tokens are kept.
  th::DecodingCache cache;
  Tensor last;
  for (std::int64_t t = 0; t < 8; ++t) last = model.step(th::slice(ids, 1, t, t + 1), cache);
  say("step by step equals all at once, to 1e-12",
      th::compare(last, th::slice(whole, 1, 7, 8), {.absolute = 1e-12}));

  // What is head 5 of layer 1 for? Without it the logits are others.
  th::StackRun without;
  without.patch = [](std::int64_t layer) {
    th::LayerPatch patch;
    if (layer == 1)
      patch.own.heads = [](const Tensor& heads) { return th::without_heads(heads, {5}); };
    return patch;
  };
  say("without head 5 of layer 1 nothing changes",
      th::compare(model.run(ids, without).output, whole, {.absolute = 1e-12}));

  // A variant that no option names: scores fall with the square of the distance, by a trained
  // amount. Its gradient follows from the ops it is made of.
  th::Params others(/*seed=*/1, th::DType::f64);
  const th::Param slope = th::Scope(others).param("slope", {}, th::init::constant(0.1));
  th::AttentionVariant mine;
  mine.modifier = [slope](const Tensor& scores, const th::ScorePositions& at) {
    const Tensor distance = at.query - at.key;  // [1,1,T,S]
    return scores - Tensor(slope) * (distance * distance);
  };
  const th::MultiHeadAttention attention(others / "attention",
                                         {.width = 32, .heads = 4, .variant = mine});
  th::Rng rng(/*seed=*/2);
  const Tensor x = th::randn({1, 5, 32}, rng, th::DType::f64);
  th::Tape tape;
  const th::Gradients gradients = tape.backward(th::mean(attention(x, th::Mask::causal(5)) * 2.0));
  std::printf("the slope's gradient is known: %s\n", gradients.reached(slope) ? "yes" : "no");

  // Masks are joined, looked at and doubted.
  const th::Mask mask = th::Mask::causal(5) & th::Mask::window(2, 0);
  std::printf(
      "%s", to_string(mask, {"the", "cat", "sat", "down", "."}, {"the", "cat", "sat", "down", "."})
                .c_str());
  const Tensor padding = th::greater(th::tensor({{1, 1, 1, 0, 0}}), 0.5);
  for (const std::string& hint : th::lint(th::Mask::keep(padding, "batch query"), 1, 1, 5, 5))
    std::printf("%s\n", hint.c_str());
}

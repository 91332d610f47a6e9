// Train a small Transformer encoder to reverse sequences of symbols, and look at what it attends
// to.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

// Random sequences [batch, length] of `symbols` symbols, i64.
Tensor sequences(std::int64_t batch, std::int64_t length, std::int64_t symbols, th::Rng& rng) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < batch * length; ++i) ids.push_back(rng.below(symbols));
  return th::tensor(std::span<const std::int64_t>(ids), {batch, length});
}

Tensor reversed(const Tensor& ids) {
  const auto all = ids.data<std::int64_t>();
  std::vector<std::int64_t> out(all.begin(), all.end());
  const auto length = static_cast<std::ptrdiff_t>(ids.dim(1));
  for (auto row = out.begin(); row != out.end(); row += length) std::reverse(row, row + length);
  return th::tensor(std::span<const std::int64_t>(out), ids.shape());
}

int main() {
  // [train]
  th::Params params(/*seed=*/1);
  th::EncoderModelOptions options;  // one-hot -> linear -> sinusoids -> encoder -> logits
  options.encoder = {.layers = 1, .width = 32, .heads = 1, .hidden = 64};
  const th::EncoderModel model(params / "model", options);
  th::Adam adam(params, {.lr = 2e-3});

  th::Rng data(/*seed=*/1);
  for (int step = 1; step <= 600; ++step) {
    const Tensor x = sequences(32, 8, 10, data);  // ids [B,T]
    th::Tape tape;                                // records until the end of this scope
    const Tensor loss = th::cross_entropy(model(x), reversed(x));
    th::Gradients gradients = tape.backward(loss);
    th::clip_global_norm(gradients, params, 5);
    adam.step(gradients, th::schedule::warmup(2e-3, step, 50));
  }
  // [/train]

  // No tape is alive: nothing is recorded.
  const Tensor x = sequences(200, 8, 10, data);
  const th::StackResult result = model.with_weights(x);
  const Tensor right = th::equal(th::argmax(result.output), reversed(x));
  std::printf("test accuracy above 99%%: %s\n",
              th::mean(th::cast(right, th::DType::f32)).item() > 0.99 ? "yes" : "no");

  // Output t is input 7 - t, so position t attends to position 7 - t: the map is the anti-diagonal.
  const Tensor where = th::argmax(th::mean(result.weights[0], {0, 1}));  // [T]
  std::printf("strongest key of each query:");
  for (std::int64_t t = 0; t < 8; ++t) std::printf(" %lld", static_cast<long long>(where.at({t})));
  std::printf("\n");
}

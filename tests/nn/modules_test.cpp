#include <cmath>
#include <limits>

#include "nn/support.hpp"

namespace th = tapehead;
using th::DType;
using th::Tensor;

namespace {

std::vector<std::string> names_of(const th::Params& params) {
  std::vector<std::string> names;
  for (const th::Param& param : params.all()) names.push_back(param.name());
  return names;
}

double largest(const Tensor& x) { return th::max(th::abs(x)).item(); }

}  // namespace

TEST_CASE("modules name their weights by their place") {
  th::Params params(1);
  const th::EncoderModel model(params / "model", {});
  CHECK(names_of(params) == std::vector<std::string>{
                                "model.input.weight",
                                "model.input.bias",
                                "model.encoder.layers.0.attention.query.weight",
                                "model.encoder.layers.0.attention.query.bias",
                                "model.encoder.layers.0.attention.key.weight",
                                "model.encoder.layers.0.attention.key.bias",
                                "model.encoder.layers.0.attention.value.weight",
                                "model.encoder.layers.0.attention.value.bias",
                                "model.encoder.layers.0.attention.output.weight",
                                "model.encoder.layers.0.attention.output.bias",
                                "model.encoder.layers.0.norm1.gain",
                                "model.encoder.layers.0.norm1.bias",
                                "model.encoder.layers.0.norm2.gain",
                                "model.encoder.layers.0.norm2.bias",
                                "model.encoder.layers.0.ffn.up.weight",
                                "model.encoder.layers.0.ffn.up.bias",
                                "model.encoder.layers.0.ffn.down.weight",
                                "model.encoder.layers.0.ffn.down.bias",
                                "model.head.inner.weight",
                                "model.head.inner.bias",
                                "model.head.norm.gain",
                                "model.head.norm.bias",
                                "model.head.output.weight",
                                "model.head.output.bias",
                            });
  // 10*32+32, 4 (32*32+32), 2 (2*32), 32*64+64, 64*32+32, 32*32+32, 2*32, 32*10+10
  CHECK(params.size() == 352 + 4224 + 128 + 2112 + 2080 + 1056 + 64 + 330);
}

TEST_CASE("the first weights are those of the published setup") {
  th::Params params(7);
  const th::EncoderModel model(params, {});
  const auto value = [&](const std::string& name) { return params.at(name).value(); };
  // PyTorch's nn.Linear: U(-1/sqrt(in), 1/sqrt(in)) for weight and bias.
  const double bound10 = 1 / std::sqrt(10.0), bound32 = 1 / std::sqrt(32.0), bound64 = 0.125;
  const std::vector<std::pair<std::string, double>> bounds{{"input", bound10},
                                                           {"encoder.layers.0.ffn.up", bound32},
                                                           {"encoder.layers.0.ffn.down", bound64},
                                                           {"head.inner", bound32},
                                                           {"head.output", bound32}};
  for (const auto& entry : bounds) {
    INFO(entry.first);
    CHECK(largest(value(entry.first + ".weight")) <= entry.second);
    CHECK(largest(value(entry.first + ".weight")) > 0.95 * entry.second);
    CHECK(largest(value(entry.first + ".bias")) <= entry.second);
    CHECK(largest(value(entry.first + ".bias")) > 0.5 * entry.second);
  }
  // Xavier: sqrt(6 / (32 + 32)) for the attention, biases 0.
  for (const std::string name : {"query", "key", "value", "output"}) {
    const std::string path = "encoder.layers.0.attention." + name;
    CHECK(largest(value(path + ".weight")) <= std::sqrt(6.0 / 64));
    CHECK(largest(value(path + ".weight")) > 0.95 * std::sqrt(6.0 / 64));
    CHECK(largest(value(path + ".bias")) == 0);
  }
  CHECK(th::same_bits(value("head.norm.gain"), th::ones({32})));
  CHECK(th::same_bits(value("head.norm.bias"), th::zeros({32})));
}

TEST_CASE("weight decay is for matrices") {
  th::Params params(1);
  const th::EncoderModel model(params, {});
  const std::vector<unsigned char> all(static_cast<std::size_t>(params.count()), 1);
  std::int64_t decayed = 0;
  for (const th::ParamRun& run : params.runs(all)) {
    if (run.decay == th::Decay::yes) decayed += run.end - run.begin;
  }
  CHECK(decayed == 10 * 32 + 4 * 32 * 32 + 2 * 32 * 64 + 32 * 32 + 32 * 10);
}

TEST_CASE("linear by hand, with and without bias") {
  th::Params params(1);
  const th::Linear layer(params / "a", 2, 3);
  const th::Linear bare(params / "b", 2, 3, {.bias = false});
  CHECK(params.count() == 3);
  params.at("a.weight").set(th::tensor({{1, 2, 3}, {4, 5, 6}}));
  params.at("a.bias").set(th::tensor({0.5, 0, -0.5}));
  params.at("b.weight").set(th::tensor({{1, 2, 3}, {4, 5, 6}}));
  CHECK(th::same_bits(layer(th::tensor({{1, -1}})), th::tensor({{-2.5, -3, -3.5}})));
  CHECK(th::same_bits(bare(th::tensor({{1, -1}})), th::tensor({{-3, -3, -3}})));
}

TEST_CASE("copying a module shares its weights") {
  th::Params params(1);
  const th::Linear layer(params / "a", 2, 2);
  const th::Linear copy = layer;
  params.at("a.weight").set(th::zeros({2, 2}));
  CHECK(th::same_bits(layer(th::ones({1, 2})), copy(th::ones({1, 2}))));
  CHECK(params.count() == 2);
}

TEST_CASE("embedding refuses ids outside its table and names itself") {
  th::Params params(1);
  const th::Embedding tokens(params / "tokens", 3, 12);
  CHECK(tokens(test::ids({2, 0, 2}, {3})).shape() == th::Shape{3, 12});
  for (const std::int64_t id : {std::int64_t{999}, std::int64_t{3}, std::int64_t{-1}}) {
    CHECK_THROWS_AS(tokens(test::ids({0, id}, {2})), th::IndexError);
    CHECK_THROWS_WITH(tokens(test::ids({0, id}, {2})),
                      ContainsSubstring(std::to_string(id)) && ContainsSubstring("in tokens"));
  }
  CHECK_THROWS_AS(tokens(th::tensor({0, 2.7})), th::DTypeError);
}

TEST_CASE("feed-forward and its activations by hand") {
  const double x = 0.5;
  CHECK(th::activate(th::tensor({-x, x}), th::Activation::relu).at({0}) == 0);
  CHECK(th::activate(th::tensor({x}), th::Activation::gelu).item() ==
        Approx(0.5 * x * (1 + std::erf(x / std::sqrt(2.0)))));
  CHECK(
      th::activate(th::tensor({x}), th::Activation::gelu_tanh).item() ==
      Approx(0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * 0.125)))));
  CHECK(th::activate(th::tensor({x}), th::Activation::silu).item() ==
        Approx(x / (1 + std::exp(-x))));

  th::Params params(1);
  const th::FeedForward ffn(params / "ffn", {.width = 1, .hidden = 2});
  params.at("ffn.up.weight").set(th::tensor({{1, -1}}));
  params.at("ffn.up.bias").set(th::tensor({0.5, 0.25}));
  params.at("ffn.down.weight").set(th::tensor({{2}, {3}}));
  params.at("ffn.down.bias").set(th::tensor({1}));
  CHECK(ffn(th::tensor({{1}})).item() == 4);      // 2 relu(1.5) + 3 relu(-0.75) + 1
  CHECK(ffn(th::tensor({{-1}})).item() == 4.75);  // 2 relu(-0.5) + 3 relu(1.25) + 1
}

TEST_CASE("norms start as plain normalisation") {
  th::Params params(1, DType::f64);
  const th::LayerNorm layer(params / "layer", 2, 0.25);
  const th::RMSNorm rms(params / "rms", 2, 0.5);
  // [0, 1]: mean 0.5, variance 0.25, 0.5 / sqrt(0.25 + 0.25); mean square 0.5, 1 / sqrt(0.5 + 0.5).
  const Tensor x = th::tensor({{0, 1}}, DType::f64);
  CHECK(layer(x).at({0, 1}) == Approx(0.70710678118));
  CHECK(layer(x).at({0, 0}) == Approx(-0.70710678118));
  CHECK(rms(x).at({0, 1}) == Approx(1));
  CHECK_THROWS_AS(th::LayerNorm(params / "no", 2, 0.0), th::ValueError);
  CHECK_THROWS_AS(th::RMSNorm(params / "no", 2, -1e-5), th::ValueError);
}

TEST_CASE("dropout needs a stream, and its ends are exact") {
  const Tensor x = test::random({4, 33}, 3);
  th::Rng rng(1, th::Stream::dropout);
  CHECK(th::same_bits(th::Dropout(0.8)(x), x));
  CHECK(th::same_bits(th::Dropout(0)(x, &rng), x));
  CHECK(rng.counter() == 0);
  CHECK(largest(th::Dropout(1)(x, &rng)) == 0);
  for (const double p : {-0.1, -10.0, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(th::Dropout(p), th::ValueError);
  }
  CHECK_THROWS_WITH(th::Dropout(2), ContainsSubstring("p = 2") && ContainsSubstring("0..1"));
  th::Tape tape;
  const Tensor w = tape.watch(x);
  const Tensor y = th::Dropout(1)(w, &rng);
  CHECK(th::same_bits(tape.backward(th::sum(y))[w], th::zeros({4, 33})));
}

TEST_CASE("the token head is linear, norm, ReLU, linear") {
  th::Params params(1);
  const th::TokenHead head(params, 2, 1);
  params.at("inner.weight").set(th::tensor({{0, 1}, {1, 0}}));
  params.at("inner.bias").set(th::tensor({-3, 0}));
  params.at("output.weight").set(th::tensor({{5}, {7}}));
  params.at("output.bias").set(th::tensor({2}));
  // [4, 5] -> [2, 4] -> [-1, 1] -> [0, 1] -> 7 + 2, but for eps; the ReLU comes after the norm.
  CHECK(head(th::tensor({{{4, 5}}})).item() == Approx(9).epsilon(1e-4));
}

TEST_CASE("the classifier head averages over the real positions only") {
  th::Params params(1);
  const th::ClassifierHead head(params / "head", 2, 1);
  params.at("head.output.weight").set(th::tensor({{1}, {10}}));
  params.at("head.output.bias").set(th::tensor({0.5}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 1, 1, nan, nan, nan, nan};
  const Tensor x = th::tensor(std::span<const float>(values), {2, 3, 2});
  const Tensor y = head(x, {3, 1});
  CHECK(y.at({0, 0}) == 3 + 40 + 0.5);  // means 3 and 4
  CHECK(y.at({1, 0}) == 11.5);
  const Tensor first = th::slice(x, 0, 0, 1);
  CHECK(head(first).item() == 43.5);
  CHECK_THROWS_WITH(head(x, {3}), ContainsSubstring("1 lengths for a batch of 2"));
  CHECK_THROWS_WITH(head(x, {3, 0}), ContainsSubstring("sample 1 has length 0"));
  CHECK_THROWS_AS(head(x, {4, 1}), th::ValueError);

  th::Tape tape;
  const Tensor watched = tape.watch(x);
  const th::Gradients g = tape.backward(th::sum(head(watched, {3, 1})));
  const std::vector<float> wanted{1.0F / 3, 10.0F / 3, 1.0F / 3, 10.0F / 3, 1.0F / 3, 10.0F / 3,
                                  1,        10,        0,        0,         0,        0};
  test::check_close(g[watched], th::tensor(std::span<const float>(wanted), {2, 3, 2}), {1e-6, 0});
  CHECK(g[params.at("head.output.weight")].at({0, 0}) == 4);  // means 3 + 1
}

TEST_CASE("options without a meaning are refused before anything is registered") {
  th::Params params(1);
  const th::Scope s = params / "here";
  CHECK_THROWS_WITH(th::MultiHeadAttention(s, {.width = 128, .heads = 3}),
                    ContainsSubstring("width of 128") && ContainsSubstring("3 heads") &&
                        ContainsSubstring("128 mod 3 = 2") && ContainsSubstring("in here"));
  CHECK_THROWS_WITH(th::HeadwiseAttention(s, {.width = 128, .heads = 3}),
                    ContainsSubstring("128 mod 3 = 2"));
  CHECK_THROWS_WITH(th::MultiHeadAttention(s, {.width = 8, .heads = 0}),
                    ContainsSubstring("heads must be positive, got 0"));
  CHECK_THROWS_AS(th::HeadwiseAttention(s, {.width = 8, .heads = 0}), th::ValueError);
  CHECK_THROWS_AS(th::MultiHeadAttention(s, {.width = 8, .heads = -2}), th::ValueError);
  CHECK_THROWS_AS(th::MultiHeadAttention(s, {.width = 0, .heads = 1}), th::ValueError);
  CHECK_THROWS_AS(th::MultiHeadAttention(s, {.width = 8, .heads = 2, .dropout = 1.5}),
                  th::ValueError);
  CHECK_THROWS_WITH(th::Linear(s, 0, 3), ContainsSubstring("linear: in must be positive, got 0") &&
                                             ContainsSubstring("in here"));
  CHECK_THROWS_AS(th::Linear(s, 3, -1), th::ValueError);
  CHECK_THROWS_AS(th::Embedding(s, 0, 3), th::ValueError);
  CHECK_THROWS_AS(th::LayerNorm(s, 0), th::ValueError);
  CHECK_THROWS_AS(th::RMSNorm(s, 0), th::ValueError);
  CHECK_THROWS_AS(th::FeedForward(s, {.width = 3, .hidden = 0}), th::ValueError);
  CHECK_THROWS_AS(th::FeedForward(s, {.width = 3, .hidden = 4, .dropout = -1}), th::ValueError);
  CHECK_THROWS_AS(th::LearnedPositions(s, 0, 3), th::ValueError);
  CHECK_THROWS_AS(th::TokenHead(s, 3, 0), th::ValueError);
  CHECK_THROWS_AS(th::ClassifierHead(s, 3, 0), th::ValueError);
  CHECK_THROWS_AS(th::TransformerStack(s, {.layers = 0}), th::ValueError);
  CHECK_THROWS_AS(th::TransformerLayer(s, {.width = 32, .heads = 5}), th::ValueError);
  CHECK_THROWS_AS(th::TransformerLayer(s, {.hidden = 0}), th::ValueError);
  CHECK_THROWS_AS(th::TransformerLayer(s, {.dropout = {.hidden = 2}}), th::ValueError);
  CHECK_THROWS_AS(th::EncoderModel(s, {.symbols = 0}), th::ValueError);
  CHECK_THROWS_AS(th::EncoderModel(s, {.max_length = 0}), th::ValueError);
  CHECK_THROWS_AS(th::EncoderModel(s, {.encoder = {.width = 30, .heads = 4}}), th::ValueError);
  CHECK(params.count() == 0);
}

TEST_CASE("errors and tape nodes name the module") {
  th::Params params(1);
  const th::EncoderModel model(params / "model", {});
  CHECK_THROWS_WITH(
      (*model.encoder.layers[0].ffn)(th::zeros({2, 4, 31})),
      ContainsSubstring("31") && ContainsSubstring("in model.encoder.layers.0.ffn.up"));
  CHECK_THROWS_WITH(
      model.encoder(th::zeros({2, 4, 31})),
      ContainsSubstring("width 31") && ContainsSubstring("in model.encoder.layers.0.attention"));
  CHECK_THROWS_WITH(model(test::ids({1, 2, 3, 10}, {2, 2})),
                    ContainsSubstring("10") && ContainsSubstring("in model"));
  CHECK_THROWS_WITH(model(test::ids({1, 2}, {2})), ContainsSubstring("[batch, time]"));
  CHECK_THROWS_AS(model(th::zeros({2, 2})), th::DTypeError);

  th::Tape tape;
  (void)model(test::ids({1, 2, 3, 4}, {2, 2}));
  bool found = false;
  for (int i = 0; i < tape.size(); ++i) {
    const th::NodeInfo node = tape.node(i);
    if (node.op == "parameter") continue;
    INFO(i << " " << node.op << " " << node.module);
    CHECK(node.module.substr(0, 5) == "model");
    found = found || node.module == "model.encoder.layers.0.attention.query";
  }
  CHECK(found);
}

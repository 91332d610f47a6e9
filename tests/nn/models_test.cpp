// The three models: what they are made of, what may reach what, and every combination of options.
#include <cmath>

#include <tapehead/gradcheck.hpp>
#include <tapehead/models.hpp>
#include <tapehead/optim.hpp>

#include "nn/support.hpp"

namespace th = tapehead;
using test::check_close;
using th::Activation;
using th::DType;
using th::Initialiser;
using th::Mask;
using th::NormKind;
using th::NormPlace;
using th::Positions;
using th::Tensor;

namespace {

enum class Kind { classifier, language_model, encoder_decoder };

// A model of the kind with its loss on fixed ids, as a function of its parameters.
std::function<Tensor()> build(Kind kind, th::Params& params, const th::TransformerOptions& stack,
                              Positions positions, bool tied) {
  const Tensor ids = test::ids({3, 1, 4, 1, 2, 0}, {2, 3});
  if (kind == Kind::classifier) {
    th::EncoderModelOptions options{.symbols = 5, .classes = 3, .positions = positions};
    options.one_hot = tied;
    options.head = th::EncoderHead::pooled;
    options.encoder = stack;
    const th::EncoderModel model(params, options);
    return [=] { return th::cross_entropy(model.padded(ids, {3, 2}), test::ids({2, 0}, {2})); };
  }
  const Tensor targets = test::ids({1, 4, 1, 2, 0, -1}, {2, 3});
  if (kind == Kind::language_model) {
    th::LanguageModelOptions options{.symbols = 5, .positions = positions, .tied = tied};
    options.stack = stack;
    const th::LanguageModel model(params, options);
    return [=] { return th::cross_entropy(model(ids), targets, {.ignore = -1}); };
  }
  th::EncoderDecoderOptions options{
      .symbols = 6, .classes = 5, .positions = positions, .tied = tied};
  options.stack = stack;
  const th::EncoderDecoder model(params, options);
  const Tensor source = test::ids({5, 0, 2, 1, 1, 3, 4, 2}, {2, 4});
  return [=] { return th::cross_entropy(model(source, {4, 2}, ids), targets, {.ignore = -1}); };
}

void move_from_special_values(th::Params& params) {
  th::Rng rng(5, th::Stream::check);
  params.write("test", [&](std::span<double> values) {
    for (double& value : values) value += rng.uniform(-0.3, 0.3);
  });
}

}  // namespace

TEST_CASE("every combination of kind, norm, place and activation has right gradients and trains") {
  int number = 0;
  for (const Kind kind : {Kind::classifier, Kind::language_model, Kind::encoder_decoder}) {
    for (const NormKind norm : {NormKind::layer, NormKind::rms, NormKind::none}) {
      for (const NormPlace place : {NormPlace::post, NormPlace::pre}) {
        for (const Activation activation :
             {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
              Activation::silu, Activation::swiglu}) {
          // The other options take turns, in periods that have no common factor.
          th::TransformerOptions stack{.layers = 1 + number % 2, .width = 4, .heads = 2};
          stack.hidden = 5;
          stack.activation = activation;
          stack.norm = norm;
          stack.place = place;
          stack.norm_gain = number % 5 != 0;
          stack.bias = number % 7 < 4;
          stack.qkv_bias = number % 11 < 6;
          stack.init = std::array{Initialiser::standard, Initialiser::gpt, Initialiser::xavier,
                                  Initialiser::fan_in}[static_cast<std::size_t>(number % 4)];
          const Positions positions =
              std::array{Positions::none, Positions::sinusoidal,
                         Positions::learned}[static_cast<std::size_t>(number / 3 % 3)];
          const bool tied = number % 13 < 6;
          INFO("kind " << static_cast<int>(kind) << " norm " << static_cast<int>(norm) << " place "
                       << static_cast<int>(place) << " activation " << static_cast<int>(activation)
                       << " number " << number);
          ++number;
          {
            th::Params params(1, DType::f64);
            const auto loss = build(kind, params, stack, positions, tied);
            move_from_special_values(params);
            const th::GradcheckReport report = th::gradcheck(
                [&](const std::vector<Tensor>&) { return std::vector<Tensor>{loss()}; }, {}, params,
                {.fast = true});
            INFO(to_string(report));
            CHECK(report.passed());
          }
          th::Params params(2);
          const auto loss = build(kind, params, stack, positions, tied);
          th::Adam adam(params, {.lr = 1e-2});
          const double before = loss().item();
          for (int step = 0; step < 10; ++step) {
            th::Tape tape;
            adam.step(tape.backward(loss()));
          }
          CHECK(loss().item() < before);
        }
      }
    }
  }
  CHECK(number == 108);
}

TEST_CASE("a language model never sees what comes later, nor a decoder") {
  th::Params params(3);
  th::LanguageModelOptions options{.symbols = 7, .max_length = 6};
  options.stack = {.layers = 2, .width = 8, .heads = 2, .hidden = 12};
  const th::LanguageModel model(params, options);
  const Tensor a = test::ids({1, 2, 3, 4, 5, 6}, {1, 6});
  const Tensor b = test::ids({1, 2, 3, 0, 0, 2}, {1, 6});
  CHECK(th::same_bits(test::rows(model(a), 0, 0, 3), test::rows(model(b), 0, 0, 3)));
  CHECK_FALSE(th::same_bits(test::rows(model(a), 0, 3, 4), test::rows(model(b), 0, 3, 4)));

  th::Params more(3);
  th::EncoderDecoderOptions pair{.symbols = 7, .classes = 7};
  pair.stack = options.stack;
  const th::EncoderDecoder translator(more, pair);
  const Tensor source = test::ids({1, 2, 3, 0}, {1, 4});
  const Tensor y = translator(source, {3}, a);
  CHECK(th::same_bits(test::rows(y, 0, 0, 3), test::rows(translator(source, {3}, b), 0, 0, 3)));
  // The source as a whole is seen by every position, its padding by none.
  const Tensor other = test::ids({1, 2, 4, 0}, {1, 4}), padding = test::ids({1, 2, 3, 6}, {1, 4});
  CHECK_FALSE(
      th::same_bits(test::rows(translator(other, {3}, a), 0, 0, 1), test::rows(y, 0, 0, 1)));
  CHECK(th::same_bits(translator(padding, {3}, a), y));
  const th::StackResult inside = translator.with_weights(source, {3}, a);
  CHECK(th::same_bits(inside.output, y));
  CHECK(inside.weights[0].shape() == th::Shape{1, 2, 6, 6});
  CHECK(inside.cross_weights[0].shape() == th::Shape{1, 2, 6, 4});
  CHECK(inside.cross_weights[1].at({0, 0, 5, 3}) == 0);
}

TEST_CASE("a tied output is the input's table: one parameter, the gradient of both uses") {
  th::Params params(1, DType::f64);
  th::LanguageModelOptions options{.symbols = 5, .positions = Positions::none, .tied = true};
  options.final_norm = false;
  options.stack = {.width = 4, .activation = Activation::none, .place = NormPlace::pre};
  const th::LanguageModel model(params, options);
  CHECK_FALSE(model.output.has_value());
  for (const th::Param& param : params.all())
    CHECK(param.name().find("output.weight") == (param.name() == "stack.layers.0.attention."
                                                                 "output.weight"
                                                     ? 25
                                                     : std::string::npos));
  // With all attention at 0 the logits are e_i . e_j, and the loss of one token i with target j is
  // known: d/de_k = [k = i] (sum_c p_c e_c - e_j) + p_k e_i - [k = j] e_i.
  for (const char* name : {"value", "output"}) {
    for (const char* part : {"weight", "bias"}) {
      const th::Param p = params.at("stack.layers.0.attention." + std::string(name) + "." + part);
      p.set(th::zeros(p.shape(), DType::f64));
    }
  }
  const Tensor table = test::random({5, 4}, 9, DType::f64);
  params.at("input.weight").set(table);
  th::Tape tape;
  const th::Gradients g =
      tape.backward(th::cross_entropy(model(test::ids({2}, {1, 1})), test::ids({3}, {1, 1})));
  std::vector<double> scores(5), wanted(20, 0.0);
  double total = 0;
  for (std::int64_t c = 0; c < 5; ++c) {
    double dot = 0;
    for (std::int64_t d = 0; d < 4; ++d) dot += table.at({2, d}) * table.at({c, d});
    scores[static_cast<std::size_t>(c)] = std::exp(dot);
    total += std::exp(dot);
  }
  for (std::int64_t k = 0; k < 5; ++k) {
    const double p = scores[static_cast<std::size_t>(k)] / total - (k == 3 ? 1 : 0);
    for (std::int64_t d = 0; d < 4; ++d) {
      wanted[static_cast<std::size_t>(k * 4 + d)] += p * table.at({2, d});
      wanted[static_cast<std::size_t>(2 * 4 + d)] += p * table.at({k, d});
    }
  }
  check_close(g[params.at("input.weight")], th::tensor(std::span<const double>(wanted), {5, 4}),
              {1e-12, 1e-13});
}

TEST_CASE("initialisers have the spread that they promise, and residual outputs a smaller one") {
  th::Params params(4);
  th::LanguageModelOptions options{.symbols = 200, .max_length = 100};
  options.stack = {.layers = 8, .width = 64, .heads = 2, .hidden = 256};
  options.stack.init = Initialiser::gpt;
  const th::LanguageModel model(params, options);
  const auto deviation = [&](const std::string& name) {
    const Tensor x = params.at(name).value();
    return th::norm(x).item() / std::sqrt(static_cast<double>(x.size()));
  };
  // The deviation of n draws is known to 1/sqrt(2n): 5% is more than 5 of it from 4,096 draws on.
  CHECK(deviation("input.weight") == Approx(0.02).epsilon(0.05));
  CHECK(deviation("positions.weight") == Approx(0.02).epsilon(0.05));
  CHECK(deviation("stack.layers.3.attention.query.weight") == Approx(0.02).epsilon(0.06));
  CHECK(deviation("stack.layers.3.ffn.up.weight") == Approx(0.02).epsilon(0.05));
  CHECK(deviation("stack.layers.3.attention.output.weight") == Approx(0.005).epsilon(0.06));
  CHECK(deviation("stack.layers.3.ffn.down.weight") == Approx(0.005).epsilon(0.05));
  CHECK(deviation("output.bias") == 0);
  th::Params uniform(4);
  options.stack.init = Initialiser::xavier;
  const th::LanguageModel other(uniform, options);
  const double bound = std::sqrt(6.0 / (64 + 256));
  const Tensor up = uniform.at("stack.layers.0.ffn.up.weight").value();
  CHECK(th::max(th::abs(up)).item() <= bound);
  CHECK(th::max(th::abs(up)).item() > 0.99 * bound);
}

TEST_CASE("fan_in draws every projection as nn.Linear does, and tables as nn.Embedding does") {
  th::Params params(3);
  th::LanguageModelOptions options{.symbols = 64, .max_length = 64};
  options.stack = {.layers = 1, .width = 64, .heads = 4, .hidden = 256};
  options.stack.init = Initialiser::fan_in;
  const th::LanguageModel model(params, options);
  // U(-a, a), a = 1 / sqrt(in), for weights and biases: of 64 draws one is above 0.8 a but for one
  // case in 10^6.
  const auto uniform_within = [&](const char* name, double in) {
    INFO(name);
    const double most = th::max(th::abs(params.at(name).value())).item();
    CHECK(most <= 1 / std::sqrt(in));
    CHECK(most > 0.8 / std::sqrt(in));
  };
  for (const char* part : {"query", "key", "value", "output"}) {
    const std::string name = std::string("stack.layers.0.attention.") + part;
    uniform_within((name + ".weight").c_str(), 64);
    uniform_within((name + ".bias").c_str(), 64);
  }
  uniform_within("stack.layers.0.ffn.up.bias", 64);
  uniform_within("stack.layers.0.ffn.down.weight", 256);
  uniform_within("stack.layers.0.ffn.down.bias", 256);
  uniform_within("output.weight", 64);
  uniform_within("output.bias", 64);
  for (const char* name : {"input.weight", "positions.weight"}) {
    const Tensor table = params.at(name).value();
    CHECK(th::norm(table).item() / 64 == Approx(1).epsilon(0.05));  // 4,096 draws, as above
  }
}

TEST_CASE("each dropout acts in its own place and nowhere else") {
  const auto draws = [](th::DropoutOptions dropout) {
    th::Params params(1);
    th::LanguageModelOptions options{.symbols = 5, .max_length = 3};
    options.stack = {.width = 4, .heads = 2, .hidden = 6, .dropout = dropout};
    const th::LanguageModel model(params, options);
    th::Rng rng(1, th::Stream::dropout);
    (void)model(test::ids({1, 2, 3, 4, 0, 1}, {2, 3}), &rng);
    return rng.counter();
  };
  CHECK(draws({}) == 0);
  CHECK(draws({.embedding = 0.5}) == 2 * 3 * 4);
  CHECK(draws({.attention = 0.5}) == 2 * 2 * 3 * 3);
  CHECK(draws({.hidden = 0.5}) == 2 * 3 * 6);
  CHECK(draws({.branch = 0.5}) == 2 * (2 * 3 * 4));
}

TEST_CASE("a memory without cross-attention, and the other way round, is refused") {
  th::Params params(1);
  const th::TransformerOptions options{.width = 4, .hidden = 6};
  const th::TransformerLayer plain(params / "plain", options);
  const th::TransformerLayer cross(params / "cross", options, th::TransformerLayer::Cross::yes);
  const Tensor x = test::random({1, 3, 4}, 1);
  CHECK_THROWS_WITH(cross(x), ContainsSubstring("pass the encoder's output"));
  CHECK_THROWS_WITH(plain(x, Mask(), th::Memory{x}), ContainsSubstring("Cross::yes"));
  CHECK_THROWS_WITH(th::activate(x, Activation::swiglu), ContainsSubstring("swiglu"));
}

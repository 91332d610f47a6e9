#include "nn/support.hpp"

namespace th = tapehead;
using test::check_close;
using th::DType;
using th::Mask;
using th::Tensor;

TEST_CASE("an encoder layer equals nn.TransformerEncoderLayer, post- and pre-norm") {
  const Fixture fixture("encoder_layer");
  const std::vector<std::int64_t> lengths = fixture["lengths"].to_vector<std::int64_t>();
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const th::NormPlace norm : {th::NormPlace::post, th::NormPlace::pre}) {
      const std::string name = norm == th::NormPlace::post ? "post." : "pre.";
      INFO(name << th::name_of(dtype));
      th::Params params(1, dtype);
      const th::TransformerLayer layer(params,
                                       {.width = 8, .heads = 2, .hidden = 16, .place = norm});
      test::load(params, fixture);
      th::Tape tape;
      const Tensor x = tape.watch(fixture.get("input", dtype));
      const Tensor y = layer(x, Mask::lengths(lengths, 5));
      check_close(y, fixture.get(name + "output", dtype), test::reference_tolerance(dtype));
      const th::Gradients g = tape.backward(y, fixture.get("cotangent", dtype));
      check_close(g[x], fixture.get(name + "grad.input", dtype), test::reference_tolerance(dtype));
      test::check_gradients(params, g, fixture, name);
    }
  }
}

TEST_CASE("an encoder is its layers one after the other, and a last norm before pre-norm's end") {
  for (const th::NormPlace norm : {th::NormPlace::post, th::NormPlace::pre}) {
    th::Params params(1);
    const th::TransformerStack encoder(params,
                                       {.layers = 2, .width = 8, .heads = 2, .place = norm});
    CHECK(encoder.final_norm.has_value() == (norm == th::NormPlace::pre));
    const Tensor x = test::random({2, 5, 8}, 3);
    const Mask mask = Mask::causal(5);
    Tensor y = encoder.layers[1](encoder.layers[0](x, mask), mask);
    if (encoder.final_norm) y = (*encoder.final_norm)(y);
    CHECK(th::same_bits(encoder(x, mask), y));
    const th::StackResult result = encoder.with_weights(x, mask);
    CHECK(th::same_bits(result.output, y));
    REQUIRE(result.weights.size() == 2);
    const Tensor seen = encoder.layers[0](x, mask);
    CHECK(th::same_bits(result.weights[1], encoder.layers[1].with_weights(seen, mask).weights));
    CHECK(result.weights[0].shape() == th::Shape{2, 2, 5, 5});
    CHECK(result.weights[0].at({0, 0, 0, 1}) == 0);
  }
}

TEST_CASE(
    "both kinds of layer drop the attention's output, the hidden units and the ffn's output") {
  for (const th::NormPlace norm : {th::NormPlace::post, th::NormPlace::pre}) {
    th::Params params(1);
    const th::TransformerLayer layer(
        params,
        {.width = 8, .hidden = 12, .place = norm, .dropout = {.hidden = 0.5, .branch = 0.5}});
    const Tensor x = test::random({2, 5, 8}, 3);
    th::Rng rng(1, th::Stream::dropout);
    (void)layer(x, Mask(), &rng);
    CHECK(rng.counter() == 2 * 5 * (8 + 12 + 8));
    CHECK(th::same_bits(layer(x), layer(x)));
  }
}

TEST_CASE("the model is one-hot, linear, positions, encoder and head") {
  th::Params params(1, DType::f64);
  const th::EncoderModel model(params, {});
  const Tensor ids = test::ids({3, 1, 4, 1, 5, 9, 2, 6}, {2, 4});
  const Tensor table = th::reshape(th::sinusoidal_positions(4, 32, DType::f64), {1, 4, 32});
  const Tensor rows = th::embedding(model.input.weight, ids);  // one-hot times W picks rows of W
  const Tensor bias = th::reshape(model.input.bias.value(), {1, 1, 32});
  const Tensor wanted = (*model.head)(model.encoder(rows + bias + table));
  check_close(model(ids), wanted, {1e-12, 1e-13});
  CHECK(model(ids).shape() == th::Shape{2, 4, 10});
  const th::StackResult result = model.with_weights(ids);
  CHECK(th::same_bits(result.output, model(ids)));
  CHECK(result.weights[0].shape() == th::Shape{2, 1, 4, 4});
}

TEST_CASE("positions of a model can be learned or left out") {
  const Tensor ids = test::ids({3, 1, 4, 3}, {1, 4});
  th::EncoderModelOptions options;
  options.max_length = 5;
  options.positions = th::Positions::none;
  th::Params bare(1);
  const Tensor y = th::EncoderModel(bare, options)(ids);
  // Without positions, equal symbols get equal answers.
  check_close(test::rows(y, 0, 0, 1), test::rows(y, 0, 3, 4), {1e-5, 1e-6});

  options.positions = th::Positions::learned;
  th::Params params(1);
  const th::EncoderModel model(params, options);
  CHECK(params.at("positions.weight").shape() == th::Shape{5, 32});
  const Tensor z = model(ids);
  CHECK_FALSE(th::compare(test::rows(z, 0, 0, 1), test::rows(z, 0, 3, 4), {1e-4, 1e-4}).equal);
  CHECK_THROWS_WITH(model(test::ids({1, 2, 3, 4, 5, 6}, {1, 6})),
                    ContainsSubstring("length 6") && ContainsSubstring("5 positions"));
}

TEST_CASE("dropout acts in training only, and padded positions do not matter then either") {
  th::EncoderModelOptions options;
  options.encoder.dropout = {.hidden = 0.8, .branch = 0.8};
  th::Params params(1), same(1);
  const th::EncoderModel model(params, options), without(same, {});
  const Tensor ids = test::ids({3, 1, 4, 1, 5, 9, 2, 6}, {2, 4});
  CHECK(th::same_bits(model(ids), model(ids)));
  CHECK(th::same_bits(model(ids), without(ids)));
  th::Rng rng(1, th::Stream::dropout), again(1, th::Stream::dropout);
  const Tensor trained = model(ids, Mask(), &rng);
  CHECK_FALSE(th::compare(trained, model(ids), {1e-3, 1e-3}).equal);
  // 8 positions of the attention's output, the hidden units and the feed-forward's output.
  CHECK(rng.counter() == 8 * (32 + 64 + 32));
  CHECK(th::same_bits(model(ids, Mask(), &again), trained));

  // What stands in the padding changes nothing before it.
  const Mask mask = Mask::lengths({4, 2}, 4);
  const Tensor other = test::ids({3, 1, 4, 1, 5, 9, 7, 7}, {2, 4});
  const Tensor y = model(ids, mask), z = model(other, mask);
  CHECK(y.shape() == z.shape());
  CHECK(th::same_bits(test::rows(y, 0, 0, 4), test::rows(z, 0, 0, 4)));
  CHECK(th::same_bits(test::rows(y, 1, 0, 2), test::rows(z, 1, 0, 2)));
  th::Rng a(2, th::Stream::dropout), b(2, th::Stream::dropout);
  CHECK(th::same_bits(test::rows(model(ids, mask, &a), 1, 0, 2),
                      test::rows(model(other, mask, &b), 1, 0, 2)));
}

TEST_CASE("empty batches and sequences pass through the whole model") {
  th::Params params(1);
  const th::EncoderModel model(params, {});
  CHECK(model(test::ids({}, {0, 4})).shape() == th::Shape{0, 4, 10});
  CHECK(model(test::ids({}, {2, 0})).shape() == th::Shape{2, 0, 10});
  th::Tape tape;
  const th::Gradients g = tape.backward(th::sum(model(test::ids({}, {0, 4}))));
  CHECK(th::same_bits(g.flat(params), th::zeros({params.size()})));
}

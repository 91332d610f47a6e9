#include <cmath>
#include <limits>

#include "nn/support.hpp"

namespace th = tapehead;
using test::check_close;
using th::DType;
using th::Mask;
using th::Tensor;

namespace {

// A fixture's mask, 1 = visible, of rank 2 [query, key] or 4.
Mask visible(const Tensor& numbers) {
  const Tensor flags = numbers.dtype() == DType::boolean ? numbers : th::greater(numbers, 0.5);
  return Mask::keep(flags, flags.rank() == 2 ? "query key" : "batch head query key");
}

Mask case_mask(const Fixture& fixture, const std::string& name) {
  return name == "a" && !fixture.contains("a.mask") ? Mask() : visible(fixture[name + ".mask"]);
}

// Runs one case of a fixture: output, weights, and the gradients of inputs and parameters.
template <class Module>
void check_case(const Module& module, const th::Params& params, const Fixture& fixture,
                const std::string& name, const std::vector<std::string>& inputs) {
  const DType dtype = params.dtype();
  INFO("case " << name << ", " << th::name_of(dtype));
  th::Tape tape;
  std::vector<Tensor> x;
  for (const std::string& input : inputs) x.push_back(tape.watch(fixture.get(input, dtype)));
  const Mask mask = case_mask(fixture, name);
  const th::MultiHeadResult result =
      module.with_weights(x[0], x.size() > 1 ? x[1] : x[0], x.size() > 1 ? x[2] : x[0], mask);
  check_close(result.output, fixture.get(name + ".output", dtype),
              test::reference_tolerance(dtype));
  check_close(result.weights, fixture.get(name + ".weights", dtype),
              test::reference_tolerance(dtype));
  const th::Gradients g = tape.backward(result.output, fixture.get("cotangent", dtype));
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO(inputs[i]);
    check_close(g[x[i]], fixture.get(name + ".grad." + inputs[i], dtype),
                test::reference_tolerance(dtype));
  }
  test::check_gradients(params, g, fixture, name + ".");
}

// The articles block with a large negative number, so a row with every key blocked gets uniform
// weights there: all its scores are equal. Here it gets none: zero weights, and the output is the
// output bias. All other rows agree.
template <class Module>
void check_blocked_row(const Module& module, const Fixture& fixture,
                       const std::vector<std::string>& inputs, const std::string& bias) {
  const DType dtype = DType::f64;
  const th::MultiHeadResult ours =
      module.with_weights(fixture.get(inputs[0], dtype), fixture.get(inputs[1], dtype),
                          fixture.get(inputs[2], dtype), visible(fixture["c.mask"]));
  const Tensor output = fixture["c.output"], weights = fixture["c.weights"];
  const std::int64_t keys = weights.dim(3);
  for (std::int64_t b = 0; b < output.dim(0); ++b) {
    for (std::int64_t t = 0; t < output.dim(1); ++t) {
      const bool blocked = b == output.dim(0) - 1 && t == 1;
      for (std::int64_t d = 0; d < output.dim(2); ++d) {
        const double wanted = blocked ? fixture[bias].at({d}) : output.at({b, t, d});
        if (blocked) {
          CHECK(ours.output.at({b, t, d}) == wanted);
        } else {
          CHECK(ours.output.at({b, t, d}) == Approx(wanted).epsilon(1e-12).margin(1e-13));
        }
      }
      for (std::int64_t h = 0; h < weights.dim(1); ++h) {
        for (std::int64_t s = 0; s < keys; ++s) {
          if (blocked) {
            CHECK(weights.at({b, h, t, s}) == Approx(1.0 / static_cast<double>(keys)));
            CHECK(ours.weights.at({b, h, t, s}) == 0);
          } else {
            CHECK(ours.weights.at({b, h, t, s}) == Approx(weights.at({b, h, t, s})).margin(1e-13));
          }
        }
      }
    }
  }
}

const std::vector<std::string> kStandardInputs{"input.query", "input.key", "input.value"};
const std::vector<std::string> kHeadwiseInputs{"input.values", "input.keys", "input.query"};

}  // namespace

TEST_CASE("the standard attention equals PyTorch's") {
  const Fixture fixture("standard_attention");
  for (const DType dtype : {DType::f64, DType::f32}) {
    th::Params params(1, dtype);
    const th::MultiHeadAttention attention(params, {.width = 12, .heads = 3});
    test::load(params, fixture);
    check_case(attention, params, fixture, "a", kStandardInputs);
    check_case(attention, params, fixture, "b", kStandardInputs);
    if (dtype == DType::f64) check_blocked_row(attention, fixture, kStandardInputs, "output.bias");
  }
}

TEST_CASE("the head-wise attention equals PyTorch's") {
  const Fixture fixture("headwise_attention");
  for (const DType dtype : {DType::f64, DType::f32}) {
    th::Params params(1, dtype);
    const th::HeadwiseAttention attention(params, {.width = 12, .heads = 3});
    test::load(params, fixture);
    CHECK(params.count() == 5);
    check_case(attention, params, fixture, "a", kHeadwiseInputs);
    check_case(attention, params, fixture, "b", kHeadwiseInputs);
    if (dtype == DType::f64) check_blocked_row(attention, fixture, kHeadwiseInputs, "fc_out.bias");
  }
}

TEST_CASE("self-attention equals nn.MultiheadAttention, causal and padded") {
  const Fixture fixture("multihead_attention");
  for (const DType dtype : {DType::f64, DType::f32}) {
    th::Params params(1, dtype);
    const th::MultiHeadAttention attention(params, {.width = 12, .heads = 4});
    test::load(params, fixture);
    check_case(attention, params, fixture, "a", {"input"});
    check_case(attention, params, fixture, "b", {"input"});
    // The masks by name say the same.
    const Tensor x = fixture.get("input", dtype);
    CHECK(th::same_bits(attention(x, Mask::causal(5)), attention(x, visible(fixture["a.mask"]))));
    CHECK(th::same_bits(attention(x, Mask::lengths({5, 3}, 5)),
                        attention(x, visible(fixture["b.mask"]))));
  }
}

TEST_CASE("asking for the weights changes neither outputs nor gradients") {
  th::Params params(1);
  const th::MultiHeadAttention attention(params, {.width = 16, .heads = 2});
  const auto run = [&](std::int64_t length, const Mask& mask, bool with_weights) {
    th::Tape tape;
    const Tensor x = tape.watch(test::random({2, length, 16}, 4));
    const Tensor y =
        with_weights ? attention.with_weights(x, x, x, mask).output : attention(x, mask);
    const th::Gradients g = tape.backward(y, test::random(y.shape(), 5));
    return std::vector<Tensor>{y, g[x], g.flat(params)};
  };
  const Mask head1_blocked = Mask::rule(
      [](std::int64_t, std::int64_t head, std::int64_t, std::int64_t) { return head != 1; });
  const std::vector<std::pair<std::int64_t, Mask>> cases{
      {5, Mask()}, {5, head1_blocked}, {600, Mask::window(10, 10)}, {7, Mask::causal(7)}};
  for (const auto& entry : cases) {
    INFO(entry.second.name());
    const auto without = run(entry.first, entry.second, false);
    const auto with = run(entry.first, entry.second, true);
    for (std::size_t i = 0; i < without.size(); ++i) {
      CHECK(th::same_bits(without[i], with[i]));
      CHECK(th::compare(without[i], without[i] - without[i], {0, 1e3}).equal);  // all finite
    }
  }
}

TEST_CASE("dropout of the weights happens only with a stream, after what is returned") {
  th::Params params(1);
  const th::MultiHeadAttention attention(params, {.width = 8, .heads = 2, .dropout = 0.8});
  th::Params same(1);
  const th::MultiHeadAttention without(same, {.width = 8, .heads = 2});
  const Tensor x = test::random({2, 9, 8}, 4);
  CHECK(th::same_bits(attention(x), attention(x)));
  CHECK(th::same_bits(attention(x), without(x)));
  th::Rng rng(1, th::Stream::dropout);
  const th::MultiHeadResult dropped = attention.with_weights(x, x, x, Mask(), &rng);
  CHECK(rng.counter() > 0);
  CHECK_FALSE(th::same_bits(dropped.output, attention(x)));
  check_close(th::sum(dropped.weights, -1), th::ones({2, 2, 9}), {1e-6, 0});
  th::Rng again(1, th::Stream::dropout);
  CHECK(th::same_bits(attention(x, Mask(), &again), dropped.output));
  th::Rng unused(1, th::Stream::dropout);
  CHECK(th::same_bits(without(x, Mask(), &unused), without(x)));
  CHECK(unused.counter() == 0);
}

TEST_CASE("samples do not see each other") {
  th::Params params(1);
  const th::MultiHeadAttention attention(params, {.width = 8, .heads = 2});
  const Tensor x = test::random({4, 4, 8}, 4);  // as many samples as positions
  const Tensor y = attention(x);
  const Tensor swapped = attention(th::concat(
      {th::slice(x, 0, 3, 4), th::slice(x, 0, 0, 1), th::slice(x, 0, 2, 3), th::slice(x, 0, 1, 2)},
      0));
  const std::int64_t order[] = {3, 0, 2, 1};
  for (std::int64_t b = 0; b < 4; ++b) {
    check_close(test::rows(swapped, b, 0, 4), test::rows(y, order[b], 0, 4), {1e-5, 1e-6});
    check_close(attention(th::slice(x, 0, b, b + 1)), test::rows(y, b, 0, 4), {1e-5, 1e-6});
  }
}

TEST_CASE("a causal query does not see what comes later") {
  th::Params params(1);
  const th::MultiHeadAttention attention(params, {.width = 8, .heads = 2});
  const Tensor x = test::random({1, 6, 8}, 4);
  const Tensor changed = th::concat({th::slice(x, 1, 0, 4), test::random({1, 2, 8}, 9)}, 1);
  const Tensor y = attention(x, Mask::causal(6)), z = attention(changed, Mask::causal(6));
  CHECK(th::same_bits(test::rows(y, 0, 0, 4), test::rows(z, 0, 0, 4)));
  CHECK_FALSE(th::same_bits(test::rows(y, 0, 4, 6), test::rows(z, 0, 4, 6)));
}

TEST_CASE("padding is said by lengths, never guessed from the numbers") {
  // A real position whose numbers add up to 0 is attended to; the padded one, although positions
  // were added to it, is not.
  th::Params params(1, DType::f64);
  const th::MultiHeadAttention attention(params, {.width = 2, .heads = 1});
  const Tensor x = th::tensor({{{1, -1}, {0.5, 0.25}, {0.1, 0.2}}}, DType::f64);
  const Tensor weights = attention.with_weights(x, x, x, Mask::lengths({2}, 3)).weights;
  for (int t = 0; t < 3; ++t) {
    CHECK(weights.at({0, 0, t, 0}) > 0.01);
    CHECK(weights.at({0, 0, t, 2}) == 0);
  }
}

TEST_CASE("output keeps the shape of the queries, padded as they may be") {
  th::Params params(1);
  const th::MultiHeadAttention attention(params, {.width = 4, .heads = 2});
  const Tensor x = test::random({6, 200, 4}, 4);
  const Mask first_only = Mask::lengths({1, 1, 1, 1, 1, 1}, 200);
  const Tensor y = attention(x, first_only);
  CHECK(y.shape() == x.shape());
  // Each query has one visible key, so every position gets the same answer: v_0 W_O + b_O.
  const Tensor wanted = attention.output(attention.value(x));
  for (std::int64_t b = 0; b < 6; ++b) {
    check_close(test::rows(y, b, 199, 200), test::rows(wanted, b, 0, 1), {1e-5, 1e-6});
  }
}

TEST_CASE("NaN in padded keys and values reaches neither the output nor a gradient") {
  th::Params params(1);
  const th::MultiHeadAttention standard(params / "standard", {.width = 4, .heads = 2});
  const th::HeadwiseAttention headwise(params / "headwise", {.width = 4, .heads = 2});
  const Mask mask = Mask::lengths({2, 2}, 3);
  const auto run = [&](bool use_standard, double padding) {
    th::Tape tape;
    const Tensor query = tape.watch(test::random({2, 3, 4}, 4));
    const Tensor real = test::random({2, 2, 4}, 5);
    const Tensor keys = tape.watch(th::concat({real, th::full({2, 1, 4}, padding)}, 1));
    const Tensor values = tape.watch(th::concat({real * 2.0, th::full({2, 1, 4}, padding)}, 1));
    const Tensor y =
        use_standard ? standard(query, keys, values, mask) : headwise(values, keys, query, mask);
    const th::Gradients g = tape.backward(y, test::random(y.shape(), 6));
    return std::vector<Tensor>{y, g[query], g[keys], g[values], g.flat(params)};
  };
  for (const bool use_standard : {true, false}) {
    const std::vector<Tensor> wanted = run(use_standard, 0);
    for (const double padding :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      const std::vector<Tensor> found = run(use_standard, padding);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        INFO(i);
        CHECK(th::same_bits(found[i], wanted[i]));
      }
    }
  }
  // Where a query does see it, it is not hidden.
  const Tensor bad = th::full({2, 3, 4}, std::numeric_limits<double>::quiet_NaN());
  const Tensor query = test::random({2, 3, 4}, 4);
  CHECK(std::isnan(standard(query, bad, bad, mask).at({0, 0, 0})));
}

TEST_CASE("sequences of length 0 and batches of 0 go forward and back") {
  th::Params params(1);
  const th::MultiHeadAttention attention(params, {.width = 4, .heads = 2});
  struct Sizes {
    std::int64_t batch, queries, keys;
  };
  for (const Sizes& n : {Sizes{2, 0, 3}, Sizes{2, 2, 0}, Sizes{0, 3, 3}}) {
    INFO(n.batch << " " << n.queries << " " << n.keys);
    th::Tape tape;
    const Tensor q = tape.watch(test::random({n.batch, n.queries, 4}, 1));
    const Tensor k = tape.watch(test::random({n.batch, n.keys, 4}, 2));
    const Tensor y = attention(q, k, k);
    REQUIRE(y.shape() == q.shape());
    // Zero keys: an empty sum, so the output bias alone, which starts at 0.
    if (n.keys == 0) CHECK(th::same_bits(y, th::zeros(y.shape())));
    const th::Gradients g = tape.backward(th::sum(y));
    CHECK(th::same_bits(g[k], th::zeros(k.shape())));
    CHECK(th::same_bits(g[q], th::zeros(q.shape())));
  }
}

TEST_CASE("inputs that do not fit together are refused, with both sizes") {
  th::Params params(1);
  const th::MultiHeadAttention attention(params / "cross", {.width = 4, .heads = 2});
  const th::HeadwiseAttention headwise(params / "headwise", {.width = 4, .heads = 2});
  const auto x = [](std::int64_t batch, std::int64_t time, std::int64_t width) {
    return test::random({batch, time, width}, 1);
  };
  CHECK_THROWS_WITH(
      attention(x(2, 3, 4), x(2, 5, 4), x(2, 6, 4)),
      ContainsSubstring("length 5") && ContainsSubstring("6") && ContainsSubstring("in cross"));
  CHECK_THROWS_WITH(headwise(x(2, 6, 4), x(2, 5, 4), x(2, 3, 4)),
                    ContainsSubstring("length 5") && ContainsSubstring("6"));
  CHECK_THROWS_WITH(attention(x(2, 3, 4), x(3, 5, 4), x(3, 5, 4)),
                    ContainsSubstring("query 2, key 3, value 3"));
  CHECK_THROWS_WITH(attention(x(2, 3, 5)), ContainsSubstring("width 5"));
  CHECK_THROWS_AS(attention(th::zeros({3, 4})), th::ShapeError);
  CHECK_THROWS_AS(attention(Tensor()), th::ValueError);
  CHECK_THROWS_AS(attention(x(2, 3, 4), Mask::causal(4)), th::ShapeError);
  CHECK_THROWS_AS(attention(test::random({2, 3, 4}, 1, DType::f64)), th::DTypeError);
}

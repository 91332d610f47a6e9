#include <cmath>
#include <limits>

#include <tapehead/system.hpp>

#include "optim/given_gradients.hpp"
#include "support/catch.hpp"
#include "support/fixture.hpp"

namespace th = tapehead;
using th::Decay;
using th::DType;
using th::Tensor;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One weight at 1 and the weights after gradients 0.5 and -1, as in the hand recurrences below.
std::vector<double> two_steps(const th::AdamOptions& options, double first = 0.5,
                              double second = -1) {
  th::Params params(1, DType::f64);
  const th::Param w = th::Scope(params).param("w", {1}, th::init::constant(1));
  th::Adam adam(params, options);
  std::vector<double> weights;
  for (const double g : {first, second}) {
    adam.step(given({{w, th::tensor({g}, DType::f64)}}));
    weights.push_back(w.value().item());
  }
  return weights;
}

// The weights after each of the fixture's ten steps, one row a step.
template <class Optimiser, class Options>
Tensor fixture_run(const Fixture& fixture, DType dtype, const Options& options) {
  th::Params params(1, dtype);
  const Tensor initial = fixture.get("initial", dtype);
  th::Param w = th::Scope(params).param("w", initial.shape(), th::init::constant(0));
  w.set(initial);
  Optimiser optimiser(params, options);
  std::vector<Tensor> rows;
  const Tensor gradients = fixture.get("gradients", dtype);
  for (std::int64_t i = 0; i < gradients.dim(0); ++i) {
    std::vector<double> row;
    for (std::int64_t j = 0; j < gradients.dim(1); ++j) row.push_back(gradients.at({i, j}));
    const Tensor g = th::cast(th::tensor(std::span<const double>(row), initial.shape()), dtype);
    optimiser.step(given({{w, g}}));
    rows.push_back(w.value());
  }
  std::vector<double> all;
  for (const Tensor& row : rows) {
    for (std::int64_t j = 0; j < row.size(); ++j) all.push_back(row.at_flat(j));
  }
  return th::tensor(std::span<const double>(all), gradients.shape());
}

void check_close(const Tensor& found, const Tensor& wanted, th::Tolerance tolerance) {
  const th::Comparison same = th::compare(found, wanted, tolerance);
  INFO(same.message);
  CHECK(same.equal);
}

}  // namespace

TEST_CASE("Adam corrects both moments, counting steps from 1") {
  const std::vector<double> w = two_steps({.lr = 0.1});
  CHECK(w[0] == Approx(0.900000002).margin(5e-10));
  CHECK(w[1] == Approx(0.936610354).margin(5e-10));
}

TEST_CASE("Adam adds eps to the corrected root") {
  const std::vector<double> w = two_steps({.lr = 0.1, .eps = 0.1});
  CHECK(w[0] == Approx(0.916666667).margin(5e-10));
  CHECK(w[1] == Approx(0.949166674).margin(5e-10));
}

TEST_CASE("weight decay is decoupled and multiplied by the learning rate") {
  const th::AdamOptions options{.lr = 0.1, .weight_decay = 0.01};
  CHECK(two_steps(options, 0, 0)[0] == Approx(0.999).margin(1e-15));
  const std::vector<double> w = two_steps(options);
  CHECK(w[0] == Approx(0.899000002).margin(5e-10));
  CHECK(w[1] == Approx(0.934711354).margin(5e-10));
}

TEST_CASE("ten steps of Adam, AdamW and SGD equal PyTorch's") {
  const Fixture fixture("adam");
  const auto number = [&](const std::string& name) { return fixture[name].item(); };
  for (const DType dtype : {DType::f64, DType::f32}) {
    const th::Tolerance tolerance =
        dtype == DType::f64 ? th::Tolerance{1e-12, 1e-14} : th::Tolerance{1e-5, 1e-6};
    for (const std::string name : {"adam", "adamw", "adam_slow", "adamw_slow"}) {
      INFO(name << " " << th::name_of(dtype));
      const th::AdamOptions options{.lr = number(name + ".lr"),
                                    .beta1 = fixture[name + ".betas"].at({0}),
                                    .beta2 = fixture[name + ".betas"].at({1}),
                                    .eps = number(name + ".eps"),
                                    .weight_decay = number(name + ".weight_decay")};
      check_close(fixture_run<th::Adam>(fixture, dtype, options), fixture[name + ".weights"],
                  tolerance);
    }
    const th::SgdOptions sgd{.lr = number("sgd.lr"), .momentum = number("sgd.momentum")};
    check_close(fixture_run<th::Sgd>(fixture, dtype, sgd), fixture["sgd.weights"], tolerance);
  }
}

TEST_CASE("a parameter that backward did not reach is neither decayed nor moved") {
  th::Params params(3);
  const th::Param used = (params / "used").param("weight", {4}, th::init::normal(1));
  const th::Param idle = (params / "idle").param("weight", {3}, th::init::normal(1));
  const th::Param frozen = (params / "frozen").param("weight", {3}, th::init::normal(1));
  th::AdamW adam(params, {.lr = 0.1, .weight_decay = 0.1});
  const Tensor g4 = th::ones({4});
  adam.step(given({{used, g4}, {idle, th::ones({3})}, {frozen, th::ones({3})}}));
  params.freeze("frozen");
  const Tensor idle_before = idle.value();
  const Tensor frozen_before = frozen.value();
  const th::OptimiserState before = adam.state();
  for (int i = 0; i < 5; ++i) {
    const Tensor last = used.value();
    const th::Gradients g = given({{used, g4}, {frozen, th::ones({3})}});
    CHECK(th::unreached(g, params) == std::vector<std::string>{"idle.weight"});
    adam.step(g);
    CHECK_FALSE(th::same_bits(used.value(), last));
  }
  CHECK(th::same_bits(idle.value(), idle_before));
  CHECK(th::same_bits(frozen.value(), frozen_before));
  const th::OptimiserState after = adam.state();
  for (std::size_t moment = 0; moment < 2; ++moment) {
    const auto old_values = before.tensors[moment].second.to_vector<float>();
    const auto new_values = after.tensors[moment].second.to_vector<float>();
    CHECK(new_values[0] != old_values[0]);
    for (std::size_t i = 4; i < 10; ++i) {
      CHECK(old_values[i] != 0);
      CHECK(new_values[i] == old_values[i]);
    }
  }
}

TEST_CASE("weight decay spares biases and gains") {
  th::Params params(1, DType::f64);
  const th::Param matrix = th::Scope(params).param("weight", {2}, th::init::constant(1));
  const th::Param bias = th::Scope(params).param("bias", {2}, th::init::constant(1), Decay::no);
  const Tensor nothing = th::zeros({2}, DType::f64);
  th::AdamW adam(params, {.lr = 0.1, .weight_decay = 0.5});
  adam.step(given({{matrix, nothing}, {bias, nothing}}));
  CHECK(matrix.value().at({0}) == Approx(0.95).margin(1e-15));
  CHECK(bias.value().at({0}) == 1);
  th::Sgd sgd(params, {.lr = 0.1, .weight_decay = 0.5});
  sgd.step(given({{matrix, nothing}, {bias, nothing}}));
  CHECK(matrix.value().at({0}) == Approx(0.95 * 0.95).margin(1e-15));
  CHECK(bias.value().at({0}) == 1);
  th::AdamW all(params, {.lr = 0.1, .weight_decay = 0.5, .decay_all = true});
  all.step(given({{matrix, nothing}, {bias, nothing}}));
  CHECK(matrix.value().at({0}) == Approx(0.95 * 0.95 * 0.95).margin(1e-15));
  CHECK(bias.value().at({0}) == Approx(0.95).margin(1e-15));
}

TEST_CASE("a step that would move nothing is an error") {
  th::Params params(1);
  th::Params others(1);
  const th::Param w = th::Scope(params).param("w", {2}, th::init::constant(1));
  const th::Param other = th::Scope(others).param("w", {2}, th::init::constant(1));
  th::Adam adam(params);
  th::Sgd sgd(params);
  CHECK_THROWS_WITH(adam.step(th::Gradients()), ContainsSubstring("none of the 1 parameters"));
  CHECK_THROWS_AS(adam.step(given({{other, th::ones({2})}})), th::TapeError);
  CHECK_THROWS_AS(sgd.step(th::Gradients()), th::TapeError);
  const th::Gradients g = given({{w, th::ones({2})}});
  params.freeze("w");
  CHECK_THROWS_WITH(sgd.step(g), ContainsSubstring("frozen"));
  CHECK(adam.steps() == 0);
  CHECK(sgd.steps() == 0);
  CHECK(w.value().at({0}) == 1);
}

TEST_CASE("a gradient that is not finite is refused by name before anything changes") {
  th::Params params(1);
  const th::Param a = (params / "first").param("w", {2}, th::init::constant(1));
  const th::Param b = (params / "second").param("w", {2, 2}, th::init::constant(1));
  th::Adam adam(params);
  th::Sgd sgd(params, {.momentum = 0.9});
  const Tensor fine = th::ones({2});
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    const th::Gradients g = given({{a, fine}, {b, th::tensor({{0, 0}, {bad, bad}})}});
    CHECK_THROWS_AS(adam.step(g), th::NonFiniteError);
    CHECK_THROWS_WITH(adam.step(g), ContainsSubstring("second.w is ") &&
                                        ContainsSubstring("element 2 of [2, 2]"));
    CHECK_THROWS_AS(sgd.step(g), th::NonFiniteError);
  }
  // 2e19 squared is beyond f32: the second moment would be infinite and the weight stuck for good.
  const th::Gradients large = given({{a, th::tensor({1, 2e19})}});
  CHECK_THROWS_WITH(adam.step(large),
                    ContainsSubstring("first.w") && ContainsSubstring("overflows"));
  CHECK(th::same_bits(params.flat(), th::ones({6})));
  CHECK(adam.steps() == 0);
  CHECK(th::same_bits(adam.state().tensors[0].second, th::zeros({6})));
  CHECK(th::same_bits(sgd.state().tensors[0].second, th::zeros({6})));
  adam.step(given({{a, th::tensor({1, 1e19})}}));
  CHECK(a.value().at({1}) == Approx(0.999));
}

TEST_CASE("options and rates outside their range are refused") {
  th::Params params(1);
  const th::Param w = th::Scope(params).param("w", {2}, th::init::constant(1));
  CHECK_THROWS_WITH(th::Adam(params, {.lr = -1}),
                    ContainsSubstring("lr") && ContainsSubstring("-1"));
  CHECK_THROWS_AS(th::Adam(params, {.lr = kNaN}), th::ValueError);
  CHECK_THROWS_AS(th::Adam(params, {.lr = kInfinity}), th::ValueError);
  CHECK_THROWS_AS(th::Adam(params, {.beta1 = 1}), th::ValueError);
  CHECK_THROWS_AS(th::Adam(params, {.beta1 = -0.1}), th::ValueError);
  CHECK_THROWS_AS(th::Adam(params, {.beta2 = 1}), th::ValueError);
  CHECK_THROWS_AS(th::Adam(params, {.eps = 0}), th::ValueError);
  CHECK_THROWS_AS(th::Adam(params, {.eps = 1e-60}), th::ValueError);  // 0 in f32
  CHECK_THROWS_AS(th::AdamW(params, {.weight_decay = -1}), th::ValueError);
  CHECK_THROWS_AS(th::Sgd(params, {.lr = -1}), th::ValueError);
  CHECK_THROWS_AS(th::Sgd(params, {.momentum = 1}), th::ValueError);
  CHECK_THROWS_AS(th::Sgd(params, {.weight_decay = kNaN}), th::ValueError);
  th::Adam adam(params);
  const th::Gradients g = given({{w, th::ones({2})}});
  CHECK_THROWS_AS(adam.step(g, -1), th::ValueError);
  CHECK_THROWS_AS(adam.step(g, kNaN), th::ValueError);
  CHECK(adam.steps() == 0);
}

TEST_CASE("a restored optimiser and schedule go on with the same bits") {
  const auto run = [](int save_after, std::vector<double>& rates) {
    th::Params params(5);
    const th::Param w = th::Scope(params).param("w", {7}, th::init::normal(1));
    th::Rng rng(3);
    th::Adam adam(params);
    const auto steps = [&](th::Adam& optimiser, int count) {
      for (int i = 0; i < count; ++i) {
        rates.push_back(th::schedule::cosine(0.1, optimiser.steps() + 1, 3, 10));
        optimiser.step(given({{w, th::randn({7}, rng)}}), rates.back());
      }
    };
    steps(adam, save_after);
    const th::OptimiserState saved = adam.state();
    const Tensor first = saved.tensors[0].second;
    const auto numbers = first.to_vector<float>();
    adam.step(given({{w, th::ones({7})}}), 0.0);
    CHECK(first.to_vector<float>() == numbers);  // a saved state does not follow later steps
    th::Adam resumed(params);
    resumed.restore(saved);
    steps(resumed, 10 - save_after);
    return w.value();
  };
  std::vector<double> straight_rates, resumed_rates;
  const Tensor straight = run(10, straight_rates);
  const Tensor resumed = run(5, resumed_rates);
  CHECK(th::same_bits(straight, resumed));
  CHECK(straight_rates == resumed_rates);
}

TEST_CASE("restoring refuses what does not belong") {
  th::Params params(5);
  (void)th::Scope(params).param("w", {7}, th::init::normal(1));
  th::Adam adam(params);
  th::Sgd sgd(params, {.momentum = 0.5});
  CHECK_THROWS_WITH(adam.restore(sgd.state()), ContainsSubstring("sgd"));
  CHECK_THROWS_AS(sgd.restore(adam.state()), th::ValueError);
  th::OptimiserState state = adam.state();
  state.tensors[1].second = th::zeros({8});
  CHECK_THROWS_WITH(adam.restore(state), ContainsSubstring("moment2") && ContainsSubstring("[8]"));
  state.tensors[1].second = th::zeros({7}, DType::f64);
  CHECK_THROWS_AS(adam.restore(state), th::ValueError);
  state.tensors.pop_back();
  CHECK_THROWS_AS(adam.restore(state), th::ValueError);
  sgd.restore(th::Sgd(params, {.momentum = 0.1}).state());
}

TEST_CASE("optimisers give the same bits on any number of threads") {
  const auto run = [](int threads, auto make) {
    const th::UseThreads use(threads);
    th::Params params(5);
    const th::Param w = th::Scope(params).param("w", {50021}, th::init::normal(1));
    auto optimiser = make(params);
    th::Rng rng(3);
    for (int i = 0; i < 3; ++i) {
      th::Gradients g = given({{w, th::randn({50021}, rng)}});
      (void)th::clip_global_norm(g, params, 1.0);
      optimiser.step(g);
    }
    return w.value();
  };
  const auto adam = [](th::Params& p) { return th::AdamW(p, {.lr = 0.1}); };
  const auto sgd = [](th::Params& p) { return th::Sgd(p, {.lr = 0.1, .momentum = 0.9}); };
  CHECK(th::same_bits(run(1, adam), run(2, adam)));
  CHECK(th::same_bits(run(1, sgd), run(2, sgd)));
}

TEST_CASE("an update inside the life of a tape records nothing") {
  th::Params params(5);
  const th::Param w = th::Scope(params).param("w", {3}, th::init::normal(1));
  th::Adam adam(params);
  const th::Gradients g = given({{w, th::ones({3})}});
  th::Tape tape;
  const Tensor y = Tensor(w) * 2.0;
  const int nodes = tape.size();
  adam.step(g);
  CHECK(tape.size() == nodes);
}

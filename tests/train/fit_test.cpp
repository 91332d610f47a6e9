#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <tapehead/train.hpp>

#include "support/catch.hpp"

using namespace tapehead;

namespace {

// A task that an encoder of one layer learns in a second.
struct Tiny {
  Task task = make_task("reverse", {.symbols = 4, .length = 6});
  Dataset data = draw(task, {.train = 330, .validation = 70, .test = 90}, 5);
  Params params{5};
  EncoderModel model{params,
                     {.symbols = 4,
                      .classes = 4,
                      .max_length = 6,
                      .encoder = {.layers = 1, .width = 16, .heads = 2, .hidden = 32}}};
  SequenceModel forward = [this](const Batch& batch, Rng* rng) {
    return model(batch.inputs, {}, rng);
  };
  FitOptions options{.seed = 5, .epochs = 3, .batch = 32, .lr = 3e-3, .warmup = 4};
};

std::vector<float> weights(const Params& params) { return params.flat().to_vector<float>(); }

}  // namespace

TEST_CASE("a run gives the same bits every time and on any number of threads") {
  const auto run = [](int threads, std::uint64_t seed) {
    Tiny tiny;
    tiny.options.threads = threads;
    tiny.options.seed = seed;
    const FitResult result = fit(tiny.params, tiny.forward, tiny.data, tiny.options);
    return std::pair(result.fingerprint, weights(tiny.params));
  };
  const auto first = run(1, 5);
  CHECK(run(1, 5) == first);
  CHECK(run(2, 5) == first);
  CHECK(run(3, 5) == first);
  CHECK(run(1, 6).first != first.first);
}

TEST_CASE("fit is the loop that one would write by hand") {
  Tiny tiny;
  const FitResult result = fit(tiny.params, tiny.forward, tiny.data, tiny.options);

  Tiny hand;
  Adam adam(hand.params, {.lr = 3e-3});
  std::vector<double> losses;
  for (std::int64_t epoch = 1; epoch <= 3; ++epoch) {
    const std::vector<std::int64_t> order = epoch_order(5, epoch, 330);
    for (std::size_t batch = 0; batch < 10; ++batch) {  // 330 / 32, the rest dropped
      std::vector<Tensor> inputs;
      std::vector<Tensor> targets;
      for (std::size_t i = 32 * batch; i < 32 * (batch + 1); ++i) {
        inputs.push_back(slice(hand.data.train.inputs, 0, order[i], order[i] + 1));
        targets.push_back(slice(hand.data.train.targets, 0, order[i], order[i] + 1));
      }
      const auto step = static_cast<std::int64_t>(losses.size()) + 1;
      Tape tape;
      const Tensor loss = cross_entropy(hand.model(concat(inputs, 0)), concat(targets, 0));
      losses.push_back(loss.item());
      Gradients gradients = tape.backward(loss);
      (void)clip_global_norm(gradients, hand.params, 5);
      adam.step(gradients, schedule::cosine(3e-3, step, 4, 30));
    }
  }
  CHECK(result.steps == 30);
  CHECK(result.losses == losses);
  CHECK(weights(tiny.params) == weights(hand.params));
  CHECK(result.loss == losses.back());
  CHECK(result.fingerprint == fingerprint(losses, hand.params));
}

TEST_CASE("the fingerprint sees one bit of a loss, of a weight, and their order") {
  Tiny tiny;
  const std::uint64_t before = fingerprint({1.0, 2.0}, tiny.params);
  CHECK(fingerprint({1.0, 2.0}, tiny.params) == before);
  CHECK(fingerprint({2.0, 1.0}, tiny.params) != before);
  CHECK(fingerprint({1.0, std::nextafter(2.0, 3.0)}, tiny.params) != before);
  const std::function<void(std::span<float>)> nudge = [](std::span<float> flat) {
    flat.back() = std::nextafter(flat.back(), std::numeric_limits<float>::infinity());
  };
  tiny.params.write("test", nudge);
  CHECK(fingerprint({1.0, 2.0}, tiny.params) != before);
}

TEST_CASE("the tiny task is learnt, and what is reported adds up") {
  Tiny tiny;
  tiny.data = draw(tiny.task, {.train = 2000, .validation = 70, .test = 90}, 5);
  tiny.options.epochs = 10;
  std::vector<std::int64_t> steps;
  std::vector<double> losses;
  std::vector<std::int64_t> evaluated_at;
  const FitResult result =
      fit(tiny.params, tiny.forward, tiny.data, tiny.options, {[&](const StepReport& report) {
            steps.push_back(report.step);
            losses.push_back(report.loss);
            CHECK(report.steps == 620);
            CHECK(report.epoch == (report.step - 1) / 62 + 1);
            CHECK(report.tokens == report.step * 32 * 6);
            CHECK(report.logits.shape() == Shape{32, 6, 4});
            CHECK(report.targets.shape() == Shape{32, 6});
            CHECK(report.lr == learning_rate(tiny.options, report.step, 620));
            CHECK(report.grad_norm > 0);
            if (report.validation != nullptr) {
              evaluated_at.push_back(report.step);
              CHECK(report.validation->tokens == 70 * 6);
              CHECK(report.validation->sequences == 70);
            }
          }});
  std::vector<std::int64_t> counted(620);
  std::iota(counted.begin(), counted.end(), 1);
  CHECK(steps == counted);
  CHECK(losses == result.losses);
  CHECK(evaluated_at == std::vector<std::int64_t>{62, 124, 186, 248, 310, 372, 434, 496, 558, 620});
  CHECK(result.validation.size() == 10);
  REQUIRE(result.test);
  CHECK(result.test->tokens == 90 * 6);
  CHECK(result.test->accuracy() > 0.99);
  CHECK(result.losses.front() > 1.0);  // about ln 4
  CHECK(result.loss < 0.1);
  CHECK_FALSE(result.stopped);
}

TEST_CASE("splits that are left out are not evaluated") {
  Tiny tiny;
  tiny.data.validation = {};
  tiny.data.test = {};
  const FitResult result = fit(tiny.params, tiny.forward, tiny.data, tiny.options);
  CHECK(result.steps == 30);
  CHECK(result.validation.empty());
  CHECK_FALSE(result.test);
}

TEST_CASE("a stop is obeyed after the step in progress") {
  Tiny tiny;
  std::atomic<int> stop{0};
  tiny.options.stop = &stop;
  const FitCallbacks callbacks{[&](const StepReport& report) { stop = report.step == 4 ? 1 : 0; }};
  const FitResult result = fit(tiny.params, tiny.forward, tiny.data, tiny.options, callbacks);
  // Raised in the callback of step 4, the last thing in a step, it is seen after step 5.
  CHECK(result.steps == 5);
  CHECK(result.stopped);
  CHECK(result.losses.size() == 5);
  CHECK_FALSE(result.test);

  Tiny whole;
  const FitResult all = fit(whole.params, whole.forward, whole.data, whole.options);
  CHECK(std::equal(result.losses.begin(), result.losses.end(), all.losses.begin()));
  CHECK(result.fingerprint == fingerprint(result.losses, tiny.params));
}

TEST_CASE("a loss that is not finite stops the run before any weight changes") {
  Tiny tiny;
  std::vector<float> good;
  std::int64_t calls = 0;
  const SequenceModel poisoned = [&](const Batch& batch, Rng* rng) {
    const Tensor logits = tiny.model(batch.inputs, {}, rng);
    const bool now = rng != nullptr && ++calls == 7;
    return now ? logits * std::numeric_limits<double>::quiet_NaN() : logits;
  };
  const auto run = [&] {
    const FitCallbacks callbacks{[&](const StepReport&) { good = weights(tiny.params); }};
    (void)fit(tiny.params, poisoned, tiny.data, tiny.options, callbacks);
  };
  // NaN goes back to every parameter; the first in the order of Params is named.
  const std::string first = tiny.params[0].name();
  CHECK_THROWS_WITH(run(), ContainsSubstring("step 7 stopped") &&
                               ContainsSubstring("loss is nan") &&
                               ContainsSubstring("the gradient of " + first));
  CHECK(weights(tiny.params) == good);
}

TEST_CASE("a gradient that is not finite stops the run though the loss is finite") {
  Params params(1);
  const Param w = Scope(params).param("w", {4}, init::constant(0));
  const Tensor ids = zeros({2, 1}, DType::i64);
  const Dataset data{{ids, ids}, {}, {}};
  // sqrt has an infinite slope at 0; the loss is ln 4.
  const SequenceModel model = [&](const Batch&, Rng*) {
    return broadcast_to(reshape(sqrt(Tensor(w)), {1, 1, 4}), {2, 1, 4});
  };
  CHECK_THROWS_WITH(fit(params, model, data, {.epochs = 1, .batch = 2, .warmup = 0}),
                    ContainsSubstring("step 1 stopped") && ContainsSubstring("the gradient of w") &&
                        ContainsSubstring("1.386"));
  CHECK(weights(params) == std::vector<float>(4, 0.0f));
}

TEST_CASE("evaluation covers the whole split whatever the batch") {
  // The model repeats its input: at position t it is right when x_t is the target there.
  const SequenceModel repeat = [](const Batch& batch, Rng*) {
    return one_hot(batch.inputs, 3) * 2.0;
  };
  const Tensor inputs = tensor({{0, 1, 0}, {0, 1, 2}, {2, 2, 2}, {1, 1, 0}, {2, 0, 2}}, DType::i64);
  const Tensor targets =
      tensor({{0, 1, 0}, {2, 1, 0}, {2, 2, 2}, {0, 1, 1}, {2, 0, 2}}, DType::i64);
  const double right = std::log(std::exp(2.0) + 2) - 2;
  const double wrong = std::log(std::exp(2.0) + 2);
  for (const std::int64_t batch : {1, 2, 3, 5, 100}) {
    const Evaluation result = evaluate(repeat, {inputs, targets}, batch);
    CHECK(result.tokens == 15);
    CHECK(result.tokens_right == 11);
    CHECK(result.sequences == 5);
    CHECK(result.sequences_right == 3);
    CHECK(result.accuracy() == Approx(11.0 / 15));
    CHECK(result.exact() == Approx(0.6));
    CHECK(result.loss == Approx((11 * right + 4 * wrong) / 15).epsilon(1e-6));
  }
  CHECK_THROWS_AS(evaluate(repeat, {inputs, targets}, 0), ValueError);
  CHECK_THROWS_AS(count_right(zeros({1, 2, 3}), zeros({1, 3}, DType::i64)), ShapeError);
}

TEST_CASE("the order of an epoch is a permutation made of seed and epoch alone") {
  const auto order = epoch_order(3, 1, 1000);
  CHECK(order == epoch_order(3, 1, 1000));
  CHECK(order != epoch_order(3, 2, 1000));
  CHECK(order != epoch_order(4, 1, 1000));
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  CHECK(sorted == all);
  CHECK(order != all);
}

TEST_CASE("the published setup has 3,900 steps and a warm-up times half a cosine") {
  FitOptions options;
  CHECK(step_count(options, 50'000) == 3900);
  // 5e-4/2 (1 + cos(pi s/3900)) min(1, s/50), worked out in Python.
  CHECK(learning_rate(options, 1, 3900) == Approx(9.999998377777144e-06).epsilon(1e-12));
  CHECK(learning_rate(options, 50, 3900) == Approx(0.0004997972495428924).epsilon(1e-12));
  CHECK(learning_rate(options, 51, 3900) == Approx(0.0004997890595765078).epsilon(1e-12));
  CHECK(learning_rate(options, 1950, 3900) == Approx(0.00025).epsilon(1e-12));
  CHECK(learning_rate(options, 3900, 3900) == Approx(0).margin(1e-18));
  // lr sqrt(warmup / step) behind the warm-up, lr step / warmup in it.
  options.schedule = Schedule::inverse_sqrt;
  options.warmup = 4;
  CHECK(learning_rate(options, 1, 100) == Approx(options.lr / 4).epsilon(1e-14));
  CHECK(learning_rate(options, 4, 100) == Approx(options.lr).epsilon(1e-14));
  CHECK(learning_rate(options, 16, 100) == Approx(options.lr / 2).epsilon(1e-14));
  options.warmup = 0;
  CHECK(learning_rate(options, 1, 100) == Approx(options.lr).epsilon(1e-14));
  CHECK(learning_rate(options, 25, 100) == Approx(options.lr / 5).epsilon(1e-14));
}

TEST_CASE("options outside their ranges are refused before anything runs") {
  const auto refused = [](const FitOptions& options, const char* why) {
    Tiny tiny;
    const std::vector<float> before = weights(tiny.params);
    CHECK_THROWS_WITH(fit(tiny.params, tiny.forward, tiny.data, options), ContainsSubstring(why));
    CHECK(weights(tiny.params) == before);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused({.epochs = 0}, "epochs must be at least 1, got 0");
  refused({.batch = 0}, "batch must be at least 1");
  refused({.batch = 331}, "there are 330");
  refused({.lr = -1}, "lr must be");
  refused({.lr = nan}, "lr must be");
  refused({.beta1 = 1.5}, "beta1");
  refused({.clip = 0}, "clip must be above 0");
  refused({.clip = nan}, "clip must be above 0");
  refused({.threads = -1}, "threads must be");
  refused({.threads = 1025}, "threads must be");
  refused({.beta1 = 1}, "beta1 must be");
  refused({.beta2 = 1}, "beta2 must be");
  refused({.eps = 0}, "eps must be");
  refused({.label_smoothing = 1}, "label_smoothing must be");
  refused({.epochs = 1, .batch = 330}, "warm-up of 50 steps is longer than the run of 1");
  refused({.epochs = std::numeric_limits<std::int64_t>::max()}, "too many");

  Tiny tiny;
  tiny.data.train.targets = zeros({330, 5}, DType::i64);
  CHECK_THROWS_AS(fit(tiny.params, tiny.forward, tiny.data, tiny.options), ShapeError);
  tiny.data.train = {zeros({330, 6}), zeros({330, 6})};
  CHECK_THROWS_AS(fit(tiny.params, tiny.forward, tiny.data, tiny.options), DTypeError);
}

TEST_CASE("an evaluation gives half intervals, perplexity and bits") {
  const Evaluation e{.loss = 2 * std::log(2.0),
                     .tokens = 100,
                     .tokens_right = 80,
                     .sequences = 4,
                     .sequences_right = 4};
  CHECK(e.accuracy_interval() == Approx(0.0784).epsilon(1e-12));  // 1.96 sqrt(0.8 0.2 / 100)
  CHECK(e.exact_interval() == 0);
  CHECK(e.perplexity() == Approx(4).epsilon(1e-14));
  CHECK(e.bits() == Approx(2).epsilon(1e-14));
}

TEST_CASE("an evaluation comes with the norms of every parameter around its step") {
  Tiny tiny;
  tiny.options.evaluate_every = 7;
  Tensor before = tiny.params.flat();
  int evaluations = 0;
  FitCallbacks callbacks;
  callbacks.step = [&](const StepReport& report) {
    CHECK(report.norms.empty() == (report.validation == nullptr));
    if (!report.norms.empty()) {
      ++evaluations;
      const std::vector<Param> all = tiny.params.all();
      REQUIRE(report.norms.size() == all.size());
      double gradient = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Tensor now = reshape(all[i].value(), {all[i].shape().size()});
        const Tensor then = slice(before, 0, tiny.params.offset(static_cast<int>(i)),
                                  tiny.params.offset(static_cast<int>(i)) + now.size());
        gradient += report.norms[i].gradient * report.norms[i].gradient;
        CHECK(report.norms[i].weight == Approx(norm(cast(now, DType::f64)).item()).epsilon(1e-6));
        CHECK(report.norms[i].update ==
              Approx(norm(cast(now, DType::f64) - cast(then, DType::f64)).item()).epsilon(1e-6));
      }
      CHECK(std::sqrt(gradient) == Approx(report.grad_norm).epsilon(1e-5));
    }
    before = tiny.params.flat();
  };
  (void)fit(tiny.params, tiny.forward, tiny.data, tiny.options, callbacks);
  CHECK(evaluations == 5);  // 30 steps: 7, 14, 21, 28, 30
}

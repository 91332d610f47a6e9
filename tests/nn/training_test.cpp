#include <tapehead/optim.hpp>
#include <tapehead/system.hpp>

#include "nn/support.hpp"

namespace th = tapehead;
using th::Tensor;

namespace {

// Sequences of 16 of 10 symbols, and the same in reverse.
struct Batch {
  Tensor ids;
  Tensor targets;
};

Batch reversal(std::int64_t samples) {
  th::Rng rng(3, th::Stream::data);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(samples) * 16);
  std::vector<std::int64_t> targets(ids.size());
  for (std::int64_t& id : ids) id = rng.below(10);
  for (std::size_t i = 0; i < ids.size(); ++i) targets[i] = ids[i / 16 * 16 + (15 - i % 16)];
  return {test::ids(ids, {samples, 16}), test::ids(targets, {samples, 16})};
}

struct Step {
  double loss;
  int nodes;
  th::MemoryInfo memory;
};

struct Training {
  std::vector<Step> steps;
  Tensor weights;
};

Training train(int threads, int steps) {
  const th::UseThreads use(threads);
  th::Params params(1);
  const th::EncoderModel model(params, {});
  th::Adam adam(params, {.lr = 3e-3});
  const Batch batch = reversal(128);
  Training training;
  for (int i = 0; i < steps; ++i) {
    Step step{};
    {
      th::Tape tape;
      const Tensor loss = th::cross_entropy(model(batch.ids), batch.targets);
      step.loss = loss.item();
      step.nodes = tape.size();
      th::Gradients gradients = tape.backward(loss);
      (void)th::clip_global_norm(gradients, params, 5);
      adam.step(gradients);
    }
    step.memory = th::memory_info();
    training.steps.push_back(step);
  }
  training.weights = params.flat();
  return training;
}

}  // namespace

TEST_CASE("the default model learns: same bits on one and two threads, steps alike in size") {
  const Training one = train(1, 30);
  const Training two = train(2, 30);
  REQUIRE(one.steps.size() == two.steps.size());
  for (std::size_t i = 0; i < one.steps.size(); ++i) {
    CHECK(one.steps[i].loss == two.steps[i].loss);
    CHECK(one.steps[i].nodes == one.steps[0].nodes);
  }
  CHECK(th::same_bits(one.weights, two.weights));
  // Guessing costs ln 10 = 2.303.
  CHECK(one.steps.front().loss == Approx(2.303).margin(0.4));
  CHECK(one.steps.back().loss < one.steps.front().loss - 0.1);
  // A warm step gets all its memory from the pool and gives it all back.
  for (std::size_t i = 3; i < one.steps.size(); ++i) {
    CHECK(one.steps[i].memory.system_allocations == one.steps[2].memory.system_allocations);
    CHECK(one.steps[i].memory.live_bytes == one.steps[2].memory.live_bytes);
    CHECK(two.steps[i].memory.system_allocations == two.steps[2].memory.system_allocations);
  }
}

TEST_CASE("evaluation records nothing and keeps no memory") {
  th::Params params(1);
  const th::EncoderModel model(params, {});
  const Batch batch = reversal(8);
  const Tensor first = model(batch.ids);
  CHECK(first.node() == -1);
  const std::int64_t live = th::memory_info().live_bytes;
  for (int i = 0; i < 100; ++i) CHECK(th::same_bits(model(batch.ids), first));
  CHECK(th::memory_info().live_bytes == live);
}

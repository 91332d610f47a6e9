// The reproductions, and what they share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tapehead/reproduce.hpp>

namespace tapehead::detail {

[[nodiscard]] Reproduction microgpt_words_reproduction();
[[nodiscard]] Reproduction microgpt_reproduction();
[[nodiscard]] Reproduction reverse_reproduction();
[[nodiscard]] Reproduction sort_reproduction();
[[nodiscard]] Reproduction addition_reproduction();
[[nodiscard]] Reproduction copy_reproduction();
[[nodiscard]] Reproduction induction_reproduction();
[[nodiscard]] Reproduction induction_varied_reproduction();
[[nodiscard]] Reproduction shakespeare_reproduction();
[[nodiscard]] Reproduction gpt_dev_reproduction();

// minGPT's model: pre-norm, learned positions, gelu_tanh, dropout 0.1 of input, weights and
// branches, N(0, 0.02).
void mingpt(RunConfig& config);

// One seed, trained.
struct Trained {
  RunConfig config;
  Loaded problem;
  Params params;
  Model model;
  FitResult result;
};
// What a reproduction does beside training: called after each step.
using EachStep = std::function<void(const Model& model, const StepReport& report)>;
// `step` may be empty. Nullptr when it was stopped.
[[nodiscard]] std::unique_ptr<Trained> train_one(const Reproduction& reproduction,
                                                 const ReproduceOptions& options,
                                                 std::uint64_t seed, const EachStep& step = {});
// Trains every seed that is asked for, one after the other, and lists the findings of each.
[[nodiscard]] RunReproduction each_seed(
    std::function<std::vector<Finding>(const Trained& trained)> findings);
[[nodiscard]] std::int64_t seeds_of(const Reproduction& reproduction,
                                    const ReproduceOptions& options);

// Mean attention weight from a token that repeats to the one behind its earlier occurrence, of the
// head that has most of it. weights [B,H,T,T]; row b repeats what stood periods[b] before.
[[nodiscard]] double induction_score(const Tensor& weights,
                                     const std::vector<std::int64_t>& periods);
// Of examples of the tasks `repeat` and `induction`: the first position that is asked about.
[[nodiscard]] std::vector<std::int64_t> periods_of(const Batch& batch);

}  // namespace tapehead::detail

// What the kinds that have sizes are made of; gradcheck_things.cpp holds the modules and models,
// gradcheck_sized_ops.cpp the ops.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tapehead/mask.hpp>
#include <tapehead/ops.hpp>

#include "cli/gradcheck_things.hpp"

namespace tapehead::cli {

struct Kind {
  const char* name;
  ModuleCase (*make)(const Sizes&);
  std::vector<std::string> options;  // beside --batch, --time and --width
};

[[nodiscard]] std::vector<Kind> sized_ops();

[[nodiscard]] Mask mask_of(const Sizes& s, std::int64_t keys);
[[nodiscard]] Tensor random_ids(const Sizes& s, std::int64_t time,
                                std::uint64_t seed);  // [B, time]
// Biases and gains start at 0 and 1, where some wrong gradients are right.
void move_from_special_values(Params& params);

// A module by `make(scope)`, called by `call(module, inputs)` on normal inputs of these shapes.
template <class Make, class Call>
ModuleCase sized_case(const Sizes& s, const std::vector<Shape>& inputs, Make make, Call call) {
  std::string name = fmt::format("batch {}, time {}, width {}, {} head{}, mask {}", s.batch, s.time,
                                 s.width, s.heads, s.heads == 1 ? "" : "s", s.mask);
  return {std::move(name), [=](Params& params) {
            const auto module = make(Scope(params));
            move_from_special_values(params);
            ModuleSample sample;
            for (std::size_t i = 0; i < inputs.size(); ++i) {
              Rng rng = Rng(params.seed(), Stream::check).fork("input").fork(i);
              sample.inputs.push_back(randn(inputs[i], rng, params.dtype()));
            }
            sample.call = [=](const std::vector<Tensor>& x) {
              return std::vector<Tensor>{call(module, x)};
            };
            return sample;
          }};
}

}  // namespace tapehead::cli

#include "train/weights.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/access.hpp"
#include "core/message.hpp"

namespace tapehead::detail {

namespace {

// What does not fit, one sentence per tensor; "" when all fits.
std::string differences(const std::vector<NamedTensor>& weights, const Params& params) {
  const std::vector<Param> all = params.all();
  std::string text;
  const auto add = [&](const std::string& sentence) { text += fmt::format("\n  {}", sentence); };
  for (const Param& param : all) {
    const auto found = std::find_if(weights.begin(), weights.end(),
                                    [&](const auto& named) { return named.name == param.name(); });
    if (found == weights.end()) {
      add(fmt::format("{}: not in the file", param.name()));
    } else if (found->tensor.shape() != param.shape() || found->tensor.dtype() != param.dtype()) {
      add(fmt::format("{}: the file has {} {}, the model {} {}", param.name(),
                      name_of(found->tensor.dtype()), to_string(found->tensor.shape()),
                      name_of(param.dtype()), to_string(param.shape())));
    }
  }
  for (const NamedTensor& named : weights) {
    if (std::none_of(all.begin(), all.end(),
                     [&](const Param& param) { return param.name() == named.name; })) {
      add(fmt::format("{}: in the file, but not in the model", named.name));
    }
  }
  return text;
}

}  // namespace

void fill_weights(const char* op, const std::filesystem::path& path,
                  const std::vector<NamedTensor>& weights, Params& params) {
  const std::string different = differences(weights, params);
  if (!different.empty()) {
    fail<FileError>(
        fmt::format("cannot load '{}': it is not of this model:{}", path.string(), different));
  }
  with_float(op, params.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::function<void(std::span<T>)> fill = [&](std::span<T> flat) {
      for (const NamedTensor& named : weights) {
        const auto values = named.tensor.data<T>();
        const std::int64_t offset = params.offset(params.at(named.name).index());
        std::copy(values.begin(), values.end(), flat.begin() + offset);
      }
    };
    params.write(op, fill);
  });
}

}  // namespace tapehead::detail

// What `tapehead gradcheck` can build in the user's sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tapehead/catalog.hpp>

namespace tapehead::cli {

struct Sizes {
  std::int64_t batch = 2;
  std::int64_t time = 5;
  std::int64_t keys = 0;  // 0: as many as `time`
  std::int64_t width = 12;
  std::int64_t heads = 1;
  std::int64_t hidden = 24;
  std::int64_t layers = 1;
  std::int64_t symbols = 10;
  // In the words of `tapehead train`.
  std::string norm = "layer";
  std::string place = "post";
  std::string activation = "relu";
  std::string mask = "none";  // none, causal, padding, window, blocked-row; joined by +
  bool no_bias = false;
};

// "encoderlayer" for EncoderLayer and encoder-layer, "layernorm" for layer_norm.
[[nodiscard]] std::string plain(const std::string& name);
// The options behind Sizes.
[[nodiscard]] const std::vector<const char*>& size_options();
// One module of the named kind with these sizes, as a catalog entry with one case. Misuse for a
// kind that is unknown, sizes that do not fit, or a `given` option that means nothing to the kind.
[[nodiscard]] ModuleEntry sized_thing(const std::string& kind, const Sizes& sizes,
                                      const std::vector<std::string>& given);
[[nodiscard]] const std::vector<std::string>& sized_kinds();

}  // namespace tapehead::cli

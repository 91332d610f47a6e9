// Everything to go on with, as one safetensors file: "weights.NAME", "optimiser.NAME" and "losses";
// counters, config and vocabularies as one JSON text each in the metadata.
#include <charconv>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <tapehead/io.hpp>
#include <tapehead/runs.hpp>

#include "core/message.hpp"
#include "io/json.hpp"
#include "train/weights.hpp"

namespace tapehead {

using detail::fail;
using detail::Json;

namespace {

constexpr const char* kKind = "tapehead_checkpoint";
constexpr const char* kVersion = "1";
constexpr std::string_view kWeights = "weights.";
constexpr std::string_view kOptimiser = "optimiser.";

// Symbols may be single bytes of a binary file, which JSON text cannot hold: in hexadecimal.
std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string unhex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned int byte = 0;
    const std::string_view digits = text.substr(i, 2);
    const char* end = digits.data() + digits.size();
    if (digits.size() != 2 || std::from_chars(digits.data(), end, byte, 16).ptr != end)
      fail<ValueError>(fmt::format("'{}' is not the hexadecimal form of a symbol", text));
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string vocabulary_text(const Vocabulary& vocabulary) {
  Json list = Json::array();
  for (const std::string& symbol : vocabulary.symbols()) list.push(hex(symbol));
  return to_string(list);
}

Vocabulary vocabulary_from(const std::string& text) {
  std::vector<std::string> symbols;
  const Json json = detail::parse_json(text);
  const auto* list = json.get<Json::Array>();
  if (list == nullptr) fail<ValueError>("a vocabulary is not a list");
  for (const Json& item : *list) {
    const auto* symbol = item.get<std::string>();
    if (symbol == nullptr) fail<ValueError>("a symbol of a vocabulary is not text");
    symbols.push_back(unhex(*symbol));
  }
  return Vocabulary(std::move(symbols));
}

std::string counters_text(const FitState& state) {
  Json json;
  json.set("step", state.step).set("tokens", state.tokens).set("seconds", state.seconds);
  json.set("dropout", state.dropout).set("optimiser", state.optimiser.kind);
  json.set("optimiser_steps", state.optimiser.steps).set("best", state.best);
  json.set("best_step", state.best_step).set("since_best", state.since_best);
  return to_string(json);
}

template <class T>
T number(const Json& json, const char* name) {
  const Json* value = json.find(name);
  if (value != nullptr) {
    const auto* whole = value->get<std::int64_t>();
    const auto* positive = value->get<std::uint64_t>();
    if constexpr (std::is_floating_point_v<T>) {
      if (const auto* found = value->get<double>()) return *found;
      if (whole != nullptr) return static_cast<T>(*whole);
      if (positive != nullptr) return static_cast<T>(*positive);
      if (value->is_null()) return std::numeric_limits<T>::infinity();
    } else {
      if (whole != nullptr && std::in_range<T>(*whole)) return static_cast<T>(*whole);
      if (positive != nullptr && std::in_range<T>(*positive)) return static_cast<T>(*positive);
    }
  }
  fail<ValueError>(fmt::format("counter '{}' is missing or not a number of its kind", name));
}

void read_counters(const std::string& text, FitState& state) {
  const Json json = detail::parse_json(text);
  state.step = number<std::int64_t>(json, "step");
  state.tokens = number<std::int64_t>(json, "tokens");
  state.seconds = number<double>(json, "seconds");
  state.dropout = number<std::uint64_t>(json, "dropout");
  state.optimiser.steps = number<std::int64_t>(json, "optimiser_steps");
  state.best = number<double>(json, "best");
  state.best_step = number<std::int64_t>(json, "best_step");
  state.since_best = number<std::int64_t>(json, "since_best");
  const Json* kind = json.find("optimiser");
  if (kind != nullptr && kind->get<std::string>() != nullptr) {
    state.optimiser.kind = *kind->get<std::string>();
  }
}

TensorFile read(const std::filesystem::path& path) {
  TensorFile file = read_tensors(path);
  const auto version = file.metadata.find(kKind);
  if (version == file.metadata.end() || version->second != kVersion) {
    fail<FileError>(
        fmt::format("cannot load '{}': it is not a checkpoint of this version", path.string()));
  }
  return file;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const RunConfig& config, const Task& task,
                     const Params& params, const FitState& state) {
  TensorFile file;
  for (const Param& param : params.all()) {
    file.tensors.push_back({std::string(kWeights) + param.name(), param.value()});
  }
  for (const auto& [name, value] : state.optimiser.tensors) {
    file.tensors.push_back({std::string(kOptimiser) + name, value});
  }
  file.tensors.push_back({"losses", tensor(std::span<const double>(state.losses),
                                           {static_cast<std::int64_t>(state.losses.size())})});
  file.metadata = {{kKind, kVersion},
                   {"config", to_json(config)},
                   {"counters", counters_text(state)},
                   {"inputs", vocabulary_text(task.inputs)},
                   {"outputs", vocabulary_text(task.outputs)}};
  write_tensors(path, file);
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  TensorFile file = read(path);
  Checkpoint checkpoint;
  try {
    checkpoint.config = config_from_json(file.metadata["config"]);
    checkpoint.inputs = vocabulary_from(file.metadata["inputs"]);
    checkpoint.outputs = vocabulary_from(file.metadata["outputs"]);
    read_counters(file.metadata["counters"], checkpoint.state);
  } catch (const std::exception& error) {
    fail<FileError>(fmt::format("cannot load '{}': {}", path.string(), error.what()));
  }
  for (NamedTensor& named : file.tensors) {
    if (named.name == "losses") checkpoint.state.losses = named.tensor.to_vector<double>();
    if (named.name.starts_with(kOptimiser)) {
      checkpoint.state.optimiser.tensors.emplace_back(named.name.substr(kOptimiser.size()),
                                                      std::move(named.tensor));
    }
  }
  return checkpoint;
}

void load_weights(const std::filesystem::path& path, Params& params) {
  std::vector<NamedTensor> weights;
  for (NamedTensor& named : read(path).tensors) {
    if (named.name.starts_with(kWeights))
      weights.push_back({named.name.substr(kWeights.size()), std::move(named.tensor)});
  }
  detail::fill_weights("load_weights", path, weights, params);
}

}  // namespace tapehead

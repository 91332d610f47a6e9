#include "cli/gradcheck_things.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <tapehead/models.hpp>

#include "cli/cli.hpp"
#include "cli/gradcheck_sized.hpp"
#include "train/names.hpp"

namespace tapehead::cli {

namespace {

using Tensors = std::vector<Tensor>;

Mask one_mask(const std::string& name, const Sizes& s, std::int64_t keys) {
  if (name == "none") return Mask();
  if (name == "causal") {
    return keys == s.time ? Mask::causal(s.time) : Mask::causal(s.time, keys, Align::last);
  }
  if (name == "window") return Mask::window(1, 1);
  if (name == "padding") {
    // Sample 0 is full, each further one a key shorter, down to one.
    std::vector<std::int64_t> lengths;
    for (std::int64_t b = 0; b < s.batch; ++b)
      lengths.push_back(std::max(keys - b, std::min<std::int64_t>(keys, 1)));
    return Mask::lengths(std::move(lengths), keys);
  }
  if (name == "blocked-row") {
    return Mask::rule([last = s.batch - 1](std::int64_t batch, std::int64_t, std::int64_t query,
                                           std::int64_t) { return batch != last || query != 0; },
                      "query 0 of the last sample sees nothing");
  }
  throw Misuse(fmt::format(
      "--mask: '{}' is unknown; known are none, causal, padding, window and blocked-row, joined by "
      "+ as in causal+padding",
      name));
}

template <class T>
T choice(const char* option, const std::string& word) {
  T value{};
  as_misuse([&] { value = detail::choice_of<T>(option, word); });
  return value;
}

Activation activation_of(const Sizes& s) {
  return choice<Activation>("--activation", s.activation);
}

TransformerOptions stack_options(const Sizes& s) {
  TransformerOptions o;
  o.layers = s.layers;
  o.width = s.width;
  o.heads = s.heads;
  o.hidden = s.hidden;
  o.activation = activation_of(s);
  o.norm = choice<NormKind>("--norm", s.norm);
  o.place = choice<NormPlace>("--place", s.place);
  o.bias = !s.no_bias;
  return o;
}

ModuleCase attention_case(const Sizes& s) {
  const std::int64_t keys = s.keys > 0 ? s.keys : s.time;
  MultiHeadOptions o;
  o.width = s.width;
  o.heads = s.heads;
  o.bias = !s.no_bias;
  const auto make = [o](const Scope& scope) { return MultiHeadAttention(scope, o); };
  const Mask mask = mask_of(s, keys);
  return sized_case(
      s, {{s.batch, s.time, s.width}, {s.batch, keys, s.width}, {s.batch, keys, s.width}}, make,
      [mask](const MultiHeadAttention& m, const Tensors& x) { return m(x[0], x[1], x[2], mask); });
}

ModuleCase headwise_case(const Sizes& s) {
  const std::int64_t keys = s.keys > 0 ? s.keys : s.time;
  HeadwiseOptions o;
  o.width = s.width;
  o.heads = s.heads;
  const auto make = [o](const Scope& scope) { return HeadwiseAttention(scope, o); };
  const Mask mask = mask_of(s, keys);
  return sized_case(
      s, {{s.batch, keys, s.width}, {s.batch, keys, s.width}, {s.batch, s.time, s.width}}, make,
      [mask](const HeadwiseAttention& m, const Tensors& x) { return m(x[0], x[1], x[2], mask); });
}

ModuleCase layer_case(const Sizes& s) {
  const Mask mask = mask_of(s, s.time);
  return sized_case(
      s, {{s.batch, s.time, s.width}},
      [o = stack_options(s)](const Scope& scope) { return TransformerLayer(scope, o); },
      [mask](const TransformerLayer& m, const Tensors& x) { return m(x[0], mask); });
}

ModuleCase encoder_case(const Sizes& s) {
  const Mask mask = mask_of(s, s.time);
  return sized_case(
      s, {{s.batch, s.time, s.width}},
      [o = stack_options(s)](const Scope& scope) { return TransformerStack(scope, o); },
      [mask](const TransformerStack& m, const Tensors& x) { return m(x[0], mask); });
}

ModuleCase model_case(const Sizes& s) {
  EncoderModelOptions o;
  o.symbols = s.symbols;
  o.classes = s.symbols;
  o.max_length = s.time;
  o.encoder = stack_options(s);
  const Tensor in = random_ids(s, s.time, 1);
  const Tensor target = random_ids(s, s.time, 2);
  const Mask mask = mask_of(s, s.time);
  return sized_case(
      s, {}, [o](const Scope& scope) { return EncoderModel(scope, o); },
      [=](const EncoderModel& m, const Tensors&) { return cross_entropy(m(in, mask), target); });
}

ModuleCase language_case(const Sizes& s) {
  LanguageModelOptions o;
  o.symbols = s.symbols;
  o.max_length = s.time;
  o.stack = stack_options(s);
  const Tensor in = random_ids(s, s.time, 1);
  const Tensor target = random_ids(s, s.time, 2);
  const Mask mask = mask_of(s, s.time);
  return sized_case(
      s, {}, [o](const Scope& scope) { return LanguageModel(scope, o); },
      [=](const LanguageModel& m, const Tensors&) { return cross_entropy(m(in, mask), target); });
}

// The mask is that of the decoder over the encoder's output.
ModuleCase encoder_decoder_case(const Sizes& s) {
  const std::int64_t keys = s.keys > 0 ? s.keys : s.time;
  EncoderDecoderOptions o;
  o.symbols = s.symbols;
  o.classes = s.symbols;
  o.stack = stack_options(s);
  const Tensor source = random_ids(s, keys, 1);
  const Tensor in = random_ids(s, s.time, 2);
  const Tensor target = random_ids(s, s.time, 3);
  const Mask mask = mask_of(s, keys);
  return sized_case(
      s, {}, [o](const Scope& scope) { return EncoderDecoder(scope, o); },
      [=](const EncoderDecoder& m, const Tensors&) {
        return cross_entropy(m.decode(in, {m.encode(source), mask}), target);
      });
}

ModuleCase feed_forward_case(const Sizes& s) {
  FeedForwardOptions o;
  o.width = s.width;
  o.hidden = s.hidden;
  o.activation = activation_of(s);
  return sized_case(
      s, {{s.batch, s.time, s.width}}, [o](const Scope& scope) { return FeedForward(scope, o); },
      [](const FeedForward& m, const Tensors& x) { return m(x[0]); });
}

void check_sizes(const Sizes& s) {
  const auto at_least_one = [](const char* option, std::int64_t value) {
    if (value < 1) throw Misuse(fmt::format("{} must be 1 or more, got {}", option, value));
  };
  at_least_one("--batch", s.batch);
  at_least_one("--time", s.time);
  at_least_one("--width", s.width);
  at_least_one("--heads", s.heads);
  at_least_one("--hidden", s.hidden);
  at_least_one("--layers", s.layers);
  at_least_one("--symbols", s.symbols);
  if (s.keys < 0) throw Misuse(fmt::format("--keys must be 0 or more, got {}", s.keys));
}

std::vector<std::string> stack_options_and(std::vector<std::string> options) {
  for (const char* one : {"--heads", "--hidden", "--norm", "--place", "--activation", "--no-bias"})
    options.emplace_back(one);
  return options;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = [] {
    std::vector<Kind> list{
        {"attention", attention_case, {"--keys", "--heads", "--mask", "--no-bias"}},
        {"headwise", headwise_case, {"--keys", "--heads", "--mask"}},
        {"encoder-layer", layer_case, stack_options_and({"--mask"})},
        {"encoder", encoder_case, stack_options_and({"--layers", "--mask"})},
        {"encoder-model", model_case, stack_options_and({"--layers", "--symbols", "--mask"})},
        {"language-model", language_case, stack_options_and({"--layers", "--symbols", "--mask"})},
        {"encoder-decoder", encoder_decoder_case,
         stack_options_and({"--keys", "--layers", "--symbols", "--mask"})},
        {"feed-forward", feed_forward_case, {"--hidden", "--activation"}},
    };
    for (const Kind& op : sized_ops()) list.push_back(op);
    return list;
  }();
  return all;
}

}  // namespace

Mask mask_of(const Sizes& s, std::int64_t keys) {
  Mask mask;
  for (const std::string& name : split(s.mask, '+')) mask = mask & one_mask(name, s, keys);
  return mask;
}

void move_from_special_values(Params& params) {
  Rng rng = Rng(params.seed(), Stream::check).fork("start");
  const auto move = [&](auto flat) {
    using T = typename decltype(flat)::value_type;
    for (T& value : flat) value += static_cast<T>(rng.uniform(-0.3, 0.3));
  };
  if (params.dtype() == DType::f32) {
    params.write("gradcheck", [&](std::span<float> flat) { move(flat); });
  } else {
    params.write("gradcheck", [&](std::span<double> flat) { move(flat); });
  }
}

Tensor random_ids(const Sizes& s, std::int64_t time, std::uint64_t seed) {
  Rng rng(seed, Stream::check);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < s.batch * time; ++i) ids.push_back(rng.below(s.symbols));
  return tensor(std::span<const std::int64_t>(ids), {s.batch, time});
}

std::string plain(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c == '_' || c == '-') continue;
    text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

const std::vector<const char*>& size_options() {
  static const std::vector<const char*> options{
      "--batch",   "--time", "--keys",  "--width",      "--heads", "--hidden", "--layers",
      "--symbols", "--norm", "--place", "--activation", "--mask",  "--no-bias"};
  return options;
}

const std::vector<std::string>& sized_kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Kind& kind : kinds()) list.emplace_back(kind.name);
    return list;
  }();
  return names;
}

ModuleEntry sized_thing(const std::string& name, const Sizes& sizes,
                        const std::vector<std::string>& given) {
  const auto kind = std::find_if(kinds().begin(), kinds().end(),
                                 [&](const Kind& one) { return plain(one.name) == plain(name); });
  if (kind == kinds().end()) {
    throw Misuse(fmt::format("'{}' has no sizes to choose; with sizes, name one of {}", name,
                             fmt::join(sized_kinds(), ", ")));
  }
  for (const std::string& option : given) {
    if (option == "--batch" || option == "--time" || option == "--width") continue;
    if (std::find(kind->options.begin(), kind->options.end(), option) == kind->options.end())
      throw Misuse(fmt::format("{} means nothing to {}", option, name));
  }
  check_sizes(sizes);
  ModuleEntry entry;
  entry.name = name;
  as_misuse([&] { entry.cases.push_back(kind->make(sizes)); });
  // Sizes that do not fit each other are found by building the module once.
  as_misuse([&] {
    Params params(1, DType::f64);
    const ModuleSample sample = entry.cases.front().build(params);
    (void)sample.call(sample.inputs);
  });
  return entry;
}

}  // namespace tapehead::cli

// A run's settings: defaults by task, as JSON and back. One list of members serves writing, reading
// and comparing, so that none of them can forget one.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <tapehead/runs.hpp>
#include <tapehead/system.hpp>
#include <tapehead/trials.hpp>

#include "core/message.hpp"
#include "io/json.hpp"
#include "train/names.hpp"

namespace tapehead {

using detail::fail;
using detail::Json;

namespace {

template <class Visitor, class Config>
void visit_task(Visitor& visit, Config& c) {
  visit("name", c.task);
  visit("symbols", c.options.symbols);
  visit("length", c.options.length);
  visit("depth", c.options.depth);
  visit("bytes", c.options.bytes);
  visit("data", c.data);
  visit("train_sequences", c.sizes.train);
  visit("validation_sequences", c.sizes.validation);
  visit("test_sequences", c.sizes.test);
}

// All but the modifier, which is code.
template <class Visitor, class Variant>
void visit_variant(Visitor& visit, Variant& v) {
  visit.added("kv_heads", v.kv_heads);
  visit.added("head_width", v.head_width);
  visit.added("value_width", v.value_width);
  visit.added("attention_positions", v.positions);
  visit.added("rope_base", v.rope_base);
  visit.added("rope_dims", v.rope_dims);
  visit.added("rope_halves", v.rope_halves);
  visit.added("t5_buckets", v.t5_buckets);
  visit.added("t5_both_ways", v.t5_both_ways);
  visit.added("max_distance", v.max_distance);
  visit.added("window", v.window);
  visit.added("qk_norm", v.qk_norm);
  visit.added("qk_norm_eps", v.qk_norm_eps);
  visit.added("scale", v.scale);
  visit.added("log_length", v.log_length);
  visit.added("soft_cap", v.soft_cap);
  visit.added("sinks", v.sinks);
}

template <class Visitor, class Config>
void visit_model(Visitor& visit, Config& m) {
  visit("kind", m.kind);
  visit("symbols", m.symbols);
  visit("classes", m.classes);
  visit("max_length", m.max_length);
  visit("positions", m.positions);
  visit("one_hot", m.one_hot);
  visit("mlp_head", m.mlp_head);
  visit("tied", m.tied);
  visit("output_bias", m.output_bias);
  visit("scaled", m.scaled);
  visit("input_norm", m.input_norm);
  visit("final_norm", m.final_norm);
  visit("layers", m.stack.layers);
  visit("width", m.stack.width);
  visit("heads", m.stack.heads);
  visit("hidden", m.stack.hidden);
  visit("activation", m.stack.activation);
  visit("norm", m.stack.norm);
  visit("place", m.stack.place);
  visit("norm_eps", m.stack.norm_eps);
  visit("norm_gain", m.stack.norm_gain);
  visit("bias", m.stack.bias);
  visit("qkv_bias", m.stack.qkv_bias);
  visit("dropout_embedding", m.stack.dropout.embedding);
  visit("dropout_attention", m.stack.dropout.attention);
  visit("dropout_hidden", m.stack.dropout.hidden);
  visit("dropout_branch", m.stack.dropout.branch);
  visit("init", m.stack.init);
  visit_variant(visit, m.stack.variant);
}

template <class Visitor, class Config>
void visit_fit(Visitor& visit, Config& f) {
  visit("seed", f.seed);
  visit("epochs", f.epochs);
  visit("steps", f.steps);
  visit("batch", f.batch);
  visit("keep_last", f.keep_last);
  visit("accumulate", f.accumulate);
  visit("lr", f.lr);
  visit("lr_end", f.lr_end);
  visit("schedule", f.schedule);
  visit("warmup", f.warmup);
  visit("warmup_tokens", f.warmup_tokens);
  visit("beta1", f.beta1);
  visit("beta2", f.beta2);
  visit("eps", f.eps);
  visit("weight_decay", f.weight_decay);
  visit("decay_all", f.decay_all);
  visit("clip", f.clip);
  visit("label_smoothing", f.label_smoothing);
  visit("evaluate_every", f.evaluate_every);
  visit("patience", f.patience);
  visit("minutes", f.minutes);
}

template <class T>
inline constexpr bool kOptional = false;
template <class T>
inline constexpr bool kOptional<std::optional<T>> = true;

class Writer {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      json_.set(name, detail::word_for(value));
    } else if constexpr (kOptional<T>) {
      json_.set(name, value ? Json(*value) : Json());
    } else {
      json_.set(name, value);  // infinity becomes null
    }
  }
  template <class T>
  void added(const char* name, const T& value) {
    (*this)(name, value);
  }
  [[nodiscard]] Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

class Reader {
 public:
  Reader(const Json& whole, const char* part) : part_(part), json_(whole.find(part)) {
    if (json_ == nullptr) fail<ValueError>(fmt::format("config: '{}' is missing", part));
  }

  // What is there and was not asked for is a setting of another version, or misspelt.
  void finish() const {
    const auto* members = json_->get<Json::Object>();
    if (members == nullptr) fail<ValueError>(fmt::format("config: '{}' is no object", part_));
    for (const Json::Member& member : *members) {
      if (std::find(known_.begin(), known_.end(), member.name) == known_.end())
        bad(member.name.c_str(), "unknown");
    }
  }

  template <class T>
  void operator()(const char* name, T& to) {
    known_.emplace_back(name);
    const Json* value = json_->find(name);
    if (value == nullptr) bad(name, "missing");
    if constexpr (std::is_enum_v<T>) {
      to = detail::choice_of<T>(fmt::format("config: {}.{}", part_, name),
                                as<std::string>(*value, name));
    } else if constexpr (kOptional<T>) {
      to = std::nullopt;
      if (!value->is_null()) (*this)(name, to.emplace());
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      const auto* large = value->get<std::uint64_t>();
      if (large == nullptr && as<std::int64_t>(*value, name) < 0) bad(name, "negative");
      to = large != nullptr ? *large : static_cast<T>(as<std::int64_t>(*value, name));
    } else if constexpr (std::is_same_v<T, double>) {
      const auto* whole = value->get<std::int64_t>();
      to = value->is_null()   ? std::numeric_limits<double>::infinity()
           : whole != nullptr ? static_cast<double>(*whole)
                              : as<double>(*value, name);
    } else {
      to = as<T>(*value, name);
    }
  }
  // A setting that older files lack: they mean its default.
  template <class T>
  void added(const char* name, T& to) {
    if (json_->find(name) != nullptr) (*this)(name, to);
  }

 private:
  template <class T>
  const T& as(const Json& value, const char* name) {
    const T* found = value.get<T>();
    if (found == nullptr) bad(name, "of another type");
    return *found;
  }
  [[noreturn]] void bad(const char* name, const char* what) const {
    fail<ValueError>(fmt::format("config: {}.{} is {}", part_, name, what));
  }

  const char* part_;
  const Json* json_;
  std::vector<std::string> known_;
};

Json json_of(const RunConfig& config) {
  Writer task, model, training;
  visit_task(task, config);
  visit_model(model, config.model);
  visit_fit(training, config.fit);
  Json json;
  json.set("tapehead", version()).set("task", task.take()).set("model", model.take());
  json.set("train", training.take());
  return json;
}

}  // namespace

std::string to_json(const RunConfig& config, int indent) {
  return to_string(json_of(config), indent);
}

RunConfig config_from_json(std::string_view text) {
  const Json json = detail::parse_json(text);
  RunConfig config;
  Reader task(json, "task"), model(json, "model"), training(json, "train");
  visit_task(task, config);
  visit_model(model, config.model);
  visit_fit(training, config.fit);
  for (const Reader* part : {&task, &model, &training}) part->finish();
  return config;
}

std::vector<std::string> differences(const RunConfig& a, const RunConfig& b) {
  const Json left = json_of(a), right = json_of(b);
  std::vector<std::string> list;
  for (const char* part : {"task", "model", "train"}) {
    for (const Json::Member& member : *left.find(part)->get<Json::Object>()) {
      const std::string one = to_string(member.value);
      const std::string two = to_string(*right.find(part)->find(member.name));
      if (one != two) list.push_back(fmt::format("{}.{}: {} and {}", part, member.name, one, two));
    }
  }
  return list;
}

void change_setting(RunConfig& config, std::string_view name, std::string_view value) {
  const Json json = json_of(config);
  Json changed;
  std::vector<std::string> found;
  std::vector<std::string> known;
  for (const char* part : {"task", "model", "train"}) {
    Json members = *json.find(part);
    for (const Json::Member& member : *json.find(part)->get<Json::Object>()) {
      const std::string full = fmt::format("{}.{}", part, member.name);
      known.push_back(member.name);
      if (name != member.name && name != full) continue;
      found.push_back(full);
      Json to = std::string(value);
      try {
        if (const Json parsed = detail::parse_json(value); !parsed.is_null()) to = parsed;
      } catch (const ValueError&) {  // a word
      }
      members.set(member.name, std::move(to));
    }
    changed.set(part, std::move(members));
  }
  if (found.empty()) {
    fail<ValueError>(
        fmt::format("there is no setting '{}'; did you mean '{}'? config.json of a run lists them",
                    name, detail::nearest(name, known)));
  }
  if (found.size() > 1)
    fail<ValueError>(
        fmt::format("'{}' is more than one setting: {}", name, fmt::join(found, ", ")));
  try {
    config = config_from_json(to_string(changed));
  } catch (const ValueError& error) {
    fail<ValueError>(fmt::format("'{}' is no value for {} ({})", value, name, error.what()));
  }
}

}  // namespace tapehead

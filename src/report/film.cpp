#include "report/film.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/access.hpp"
#include "report/film_file.hpp"
#include "report/samples.hpp"

namespace tapehead::report {

using detail::Json;

namespace {

constexpr std::int64_t kBudget = 360 * 1024;  // bytes of maps; a third more in base64
constexpr std::int64_t kFewestFrames = 12;
constexpr std::int64_t kScored = 32;  // sequences

// Of numbers that may be absent: null where there is none.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json texts(const std::vector<std::string>& list) { return Json::Array(list.begin(), list.end()); }

std::string map_bytes(const Tensor& weights, std::int64_t probe, std::int64_t head,
                      std::int64_t positions) {
  std::string bytes;
  for (std::int64_t t = 0; t < std::min(positions, weights.dim(2)); ++t) {
    for (std::int64_t s = 0; s < std::min(positions, weights.dim(3)); ++s) {
      const double p = std::clamp(weights.at({probe, head, t, s}), 0.0, 1.0);
      bytes += static_cast<char>(std::lround(255 * p));
    }
  }
  return bytes;
}

struct Layer {
  const Tensor* weights;
  std::string name;
  bool cross;
};

std::vector<Layer> layers_of(const StackResult& inside) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < inside.weights.size(); ++i) {
    layers.push_back({&inside.weights[i], fmt::format("layer {}", i), false});
    if (i < inside.cross_weights.size() && inside.cross_weights[i].defined())
      layers.push_back({&inside.cross_weights[i], fmt::format("layer {}, cross", i), true});
  }
  return layers;
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63u] : '=';
  }
  return text;
}

std::string group_of(std::string_view parameter) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t layers = parameter.find(kLayers);
  if (layers == std::string_view::npos)
    return std::string(parameter.substr(0, parameter.find('.')));
  const std::size_t number = parameter.find('.', layers + kLayers.size());
  return std::string(parameter.substr(0, parameter.find('.', number + 1)));
}

HeadScores head_scores(const Tensor& weights, std::int64_t head, const Tensor& ids,
                       const std::vector<std::int64_t>& lengths) {
  const std::int64_t heads = weights.dim(1);
  const std::int64_t most = weights.dim(2);
  const std::int64_t keys = weights.dim(3);
  HeadScores sums;
  std::int64_t queries = 0;
  std::int64_t with_previous = 0;
  std::int64_t repeated = 0;
  detail::with_float("head_scores", weights.dtype(), [&](auto zero) {
    const auto* all = detail::in<decltype(zero)>(weights);
    const std::int64_t* tokens = ids.defined() ? detail::in<std::int64_t>(ids) : nullptr;
    for (std::int64_t b = 0; b < weights.dim(0); ++b) {
      const std::int64_t count = lengths.empty() ? most : lengths[static_cast<std::size_t>(b)];
      for (std::int64_t t = 0; t < count; ++t) {
        const auto* row = all + ((b * heads + head) * most + t) * keys;
        ++queries;
        for (std::int64_t s = 0; s < keys; ++s) {
          const auto p = static_cast<double>(row[s]);
          if (p > 0) sums.entropy -= p * std::log(p);
        }
        if (keys > 0) sums.first += static_cast<double>(row[0]);
        if (tokens == nullptr || t == 0) continue;
        ++with_previous;
        sums.previous += static_cast<double>(row[t - 1]);
        for (std::int64_t s = t - 2; s >= 0; --s) {
          if (tokens[b * most + s] != tokens[b * most + t]) continue;
          ++repeated;
          sums.induction += static_cast<double>(row[s + 1]);
          break;
        }
      }
    }
  });
  const auto mean = [](double sum, std::int64_t count) {
    return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
  };
  return {mean(sums.entropy, queries), mean(sums.previous, with_previous),
          mean(sums.first, queries), mean(sums.induction, repeated)};
}

Film::Film(const Task& task, const Sequences& split)
    : task_(task),
      probes_(split.take(0, std::min<std::int64_t>(3, split.count()))),
      scored_(split.take(0, std::min(kScored, split.count()))),
      maps_(Json::array()),
      heads_(Json::array()) {}

// Fewer probes, then fewer positions, until a dozen frames fit.
void Film::describe(const StackResult& inside) {
  const std::vector<Layer> layers = layers_of(inside);
  shown_ = probes_.inputs.dim(0);
  positions_ = std::min<std::int64_t>(
      48, std::max(inside.weights.front().dim(2), layers.back().weights->dim(3)));
  const auto bytes = [&] {
    std::int64_t sum = 0;
    for (const Layer& layer : layers) {
      const Tensor& w = *layer.weights;
      sum += shown_ * w.dim(1) * std::min(positions_, w.dim(2)) * std::min(positions_, w.dim(3));
    }
    return sum;
  };
  while (bytes() * kFewestFrames > kBudget && shown_ > 1) --shown_;
  while (bytes() * kFewestFrames > kBudget && positions_ > 8) positions_ = positions_ * 3 / 4;
  bytes_ = std::max<std::int64_t>(bytes(), 1);
  for (std::int64_t probe = 0; probe < shown_; ++probe) {
    for (const Layer& layer : layers) {
      const Tensor& w = *layer.weights;
      for (std::int64_t h = 0; h < w.dim(1); ++h) {
        Json map;
        map.set("name", fmt::format("{}, head {}", layer.name, h)).set("probe", probe);
        map.set("cross", layer.cross).set("rows", std::min(positions_, w.dim(2)));
        map.set("columns", std::min(positions_, w.dim(3)));
        if (probe == 0) heads_.push(*map.find("name"));
        maps_.push(std::move(map));
      }
    }
  }
  // Frames of another model, or of other positions, cannot be shown with these.
  if (!earlier_maps_.is_null() && to_string(earlier_maps_) != to_string(maps_)) frames_.clear();
}

void Film::add(std::int64_t step, const Model& model, const Params& params,
               std::span<const ParamNorms> norms) {
  const StackResult inside = model.with_weights(scored_);
  if (inside.weights.empty() || probes_.inputs.dim(0) == 0) return;
  if (shown_ == 0) describe(inside);
  const bool decoder = model.encoder_decoder() != nullptr;
  Frame frame;
  frame.index = next_++;
  frame.content.set("index", frame.index).set("step", step);
  Json maps = Json::array();
  const std::vector<Layer> layers = layers_of(inside);
  for (std::int64_t probe = 0; probe < shown_; ++probe) {
    for (const Layer& layer : layers) {
      for (std::int64_t h = 0; h < layer.weights->dim(1); ++h)
        maps.push(base64(map_bytes(*layer.weights, probe, h, positions_)));
    }
  }
  Json scores = Json::array();
  for (const Layer& layer : layers) {
    const Tensor ids = layer.cross ? Tensor() : decoder ? scored_.decoder : scored_.inputs;
    const auto lengths = decoder ? std::vector<std::int64_t>() : scored_.lengths;
    for (std::int64_t h = 0; h < layer.weights->dim(1); ++h) {
      const HeadScores s = head_scores(*layer.weights, h, ids, lengths);
      scores.push(
          Json::Array{number(s.entropy), number(s.previous), number(s.first), number(s.induction)});
    }
  }
  frame.content.set("maps", std::move(maps));
  frame.content.set("scores", std::move(scores));

  Json groups = Json::array();
  std::vector<ParamNorms> sums;
  std::string last;
  const std::vector<Param> all = params.all();
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const std::string group = group_of(all[i].name());
    if (sums.empty() || group != last) {
      sums.emplace_back();
      groups.push(group);
      last = group;
    }
    sums.back().gradient += norms[i].gradient * norms[i].gradient;
    sums.back().weight += norms[i].weight * norms[i].weight;
    sums.back().update += norms[i].update * norms[i].update;
  }
  Json list = Json::array();
  for (const ParamNorms& sum : sums) {
    list.push(Json::Array{number(std::sqrt(sum.gradient)), number(std::sqrt(sum.weight)),
                          number(std::sqrt(sum.update))});
  }
  frame.content.set("groups", std::move(groups));
  frame.content.set("norms", std::move(list));
  keep(std::move(frame));
}

// The last frame always stays until the next one comes; the others are every `every_`th.
void Film::keep(Frame frame) {
  if (!frames_.empty() && frames_.back().index % every_ != 0) frames_.pop_back();
  frames_.push_back(std::move(frame));
  const std::int64_t most = std::max<std::int64_t>(2, std::min<std::int64_t>(kBudget / bytes_, 60));
  if (std::ssize(frames_) <= most) return;
  every_ *= 2;
  const std::int64_t last = frames_.back().index;
  std::erase_if(frames_,
                [&](const Frame& one) { return one.index % every_ != 0 && one.index != last; });
}

void Film::restore(std::string_view json, std::int64_t step) {
  const std::optional<Json> film = read_film(json);
  if (!film) return;
  every_ = *film->find("every")->natural();
  earlier_maps_ = *film->find("maps");
  for (const Json& frame : *film->find("frames")->get<Json::Array>()) {
    if (*frame.find("step")->natural() > step) break;
    next_ = *frame.find("index")->natural() + 1;
    frames_.push_back({next_ - 1, frame});
  }
}

std::string Film::json() const {
  const bool decoder = task_.model == ModelKind::encoder_decoder;
  Json film;
  film.set("every", every_).set("positions", positions_).set("of", task_.length);
  Json probes = Json::array();
  for (std::int64_t probe = 0; probe < shown_; ++probe) {
    Json one;
    one.set("source", texts(labels(task_.inputs, probes_.inputs, probe, positions_)));
    if (decoder)
      one.set("target", texts(labels(task_.outputs, probes_.decoder, probe, positions_)));
    probes.push(std::move(one));
  }
  Json frames = Json::array();
  for (const Frame& frame : frames_) frames.push(frame.content);
  film.set("probes", std::move(probes));
  film.set("maps", maps_).set("heads", heads_);
  film.set("frames", std::move(frames));
  return to_string(film) + "\n";
}

}  // namespace tapehead::report

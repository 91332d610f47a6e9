#include "report/film_file.hpp"

#include <algorithm>

#include <tapehead/error.hpp>

namespace tapehead::report {

using detail::Json;

namespace {

constexpr std::size_t kLongest = 1'000'000;  // characters
constexpr std::int64_t kMostCount = std::int64_t{1} << 40;
constexpr std::int64_t kMostCells = 64;  // along one side of a map

const std::int64_t* natural(const Json& json, const char* name, std::int64_t low,
                            std::int64_t high) {
  const Json* value = json.find(name);
  const std::int64_t* number = value != nullptr ? value->natural() : nullptr;
  return number != nullptr && *number >= low && *number <= high ? number : nullptr;
}

const Json::Array* list(const Json& json, const char* name) {
  const Json* value = json.find(name);
  return value != nullptr ? value->get<Json::Array>() : nullptr;
}

bool is_text(const Json& json) { return json.get<std::string>() != nullptr; }

bool texts(const Json& json, const char* name) {
  const Json::Array* items = list(json, name);
  return items != nullptr && std::all_of(items->begin(), items->end(), is_text);
}

// `count` lists of `width` numbers or nulls.
bool numbers(const Json& json, const char* name, std::size_t count, std::size_t width) {
  const auto number = [](const Json& item) {
    return item.is_null() || item.get<double>() != nullptr || item.get<std::int64_t>() != nullptr;
  };
  const Json::Array* rows = list(json, name);
  return rows != nullptr && rows->size() == count &&
         std::all_of(rows->begin(), rows->end(), [&](const Json& row) {
           const auto* items = row.get<Json::Array>();
           return items != nullptr && items->size() == width &&
                  std::all_of(items->begin(), items->end(), number);
         });
}

bool is_probe(const Json& probe) {
  return texts(probe, "source") && (probe.find("target") == nullptr || texts(probe, "target"));
}

bool is_map(const Json& map, std::size_t probes) {
  const Json* name = map.find("name");
  const Json* cross = map.find("cross");
  return name != nullptr && is_text(*name) && cross != nullptr && cross->get<bool>() != nullptr &&
         natural(map, "probe", 0, static_cast<std::int64_t>(probes) - 1) != nullptr &&
         natural(map, "rows", 1, kMostCells) != nullptr &&
         natural(map, "columns", 1, kMostCells) != nullptr;
}

// Base64 of rows x columns bytes.
bool is_picture(const Json& text, const Json& map) {
  const auto* digits = text.get<std::string>();
  const std::int64_t bytes = *map.find("rows")->natural() * *map.find("columns")->natural();
  return digits != nullptr && std::ssize(*digits) == (bytes + 2) / 3 * 4 &&
         std::all_of(digits->begin(), digits->end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  c == '+' || c == '/' || c == '=';
         });
}

bool is_frame(const Json& frame, const Json::Array& maps, std::size_t heads) {
  const Json::Array* pictures = list(frame, "maps");
  return natural(frame, "index", 0, kMostCount) != nullptr &&
         natural(frame, "step", 0, kMostCount) != nullptr && pictures != nullptr &&
         std::equal(pictures->begin(), pictures->end(), maps.begin(), maps.end(), is_picture) &&
         numbers(frame, "scores", heads, 4) && texts(frame, "groups") &&
         numbers(frame, "norms", list(frame, "groups")->size(), 3);
}

bool is_film(const Json& film) {
  const Json::Array* probes = list(film, "probes");
  const Json::Array* maps = list(film, "maps");
  const Json::Array* frames = list(film, "frames");
  if (probes == nullptr || maps == nullptr || frames == nullptr || frames->empty()) return false;
  if (natural(film, "every", 1, kMostCount) == nullptr || !texts(film, "heads") ||
      natural(film, "positions", 1, kMostCount) == nullptr ||
      natural(film, "of", 0, kMostCount) == nullptr)
    return false;
  if (!std::all_of(probes->begin(), probes->end(), is_probe)) return false;
  if (!std::all_of(maps->begin(), maps->end(),
                   [&](const Json& map) { return is_map(map, probes->size()); }))
    return false;
  std::int64_t index = -1;
  std::int64_t step = -1;
  for (const Json& frame : *frames) {
    if (!is_frame(frame, *maps, list(film, "heads")->size())) return false;
    if (*frame.find("index")->natural() <= index || *frame.find("step")->natural() <= step)
      return false;
    if (to_string(*frame.find("groups")) != to_string(*frames->front().find("groups")))
      return false;
    index = *frame.find("index")->natural();
    step = *frame.find("step")->natural();
  }
  // Frames before the last are every so many; one alone says nothing of it.
  return *film.find("every")->natural() <= std::max<std::int64_t>(1, index);
}

}  // namespace

std::optional<Json> read_film(std::string_view text) {
  if (text.size() > kLongest) return std::nullopt;
  try {
    Json film = detail::parse_json(text);
    if (is_film(film)) return film;
  } catch (const Error&) {  // no JSON
  }
  return std::nullopt;
}

}  // namespace tapehead::report

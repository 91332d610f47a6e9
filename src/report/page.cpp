#include "report/page.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <tapehead/gradcheck.hpp>
#include <tapehead/system.hpp>

#include "io/json.hpp"
#include "report/film_file.hpp"
#include "report/markup.hpp"
#include "report/page_files.hpp"
#include "report/progress_line.hpp"
#include "report/samples.hpp"
#include "train/names.hpp"

namespace tapehead::report {

using detail::Json;

namespace {

// Text for the page's script element: nothing in it can end the element.
std::string for_script(std::string text) {
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

Json parsed(std::string_view text) {
  try {
    return detail::parse_json(text);
  } catch (const Error&) {
    return {};
  }
}

Json samples_of(const Task& task, const Batch& batch, const Tensor& predicted) {
  Json list = Json::array();
  for (const SampleRow& row : sample_rows(task, batch, predicted, 80)) {
    Json sample;
    sample.set("input", row.input).set("found", row.found).set("wanted", row.wanted);
    sample.set("right", row.right);
    list.push(std::move(sample));
  }
  return list;
}

// Share of right answers at each target position, over at most 1,000 sequences.
Json accuracy_by_position(const Model& model, const Sequences& split, std::int64_t& sequences) {
  sequences = std::min<std::int64_t>(1000, split.count());
  std::vector<std::int64_t> right;
  std::vector<std::int64_t> asked;
  constexpr std::int64_t kBatch = 250;
  for (std::int64_t begin = 0; begin < sequences; begin += kBatch) {
    const Batch batch = split.take(begin, std::min(begin + kBatch, sequences));
    const Tensor predicted = argmax(model(batch));
    const auto found = predicted.data<std::int64_t>();
    const auto wanted = batch.targets.data<std::int64_t>();
    const auto length = static_cast<std::size_t>(batch.targets.dim(1));
    right.resize(std::max(right.size(), length));
    asked.resize(std::max(asked.size(), length));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == kIgnored) continue;
      ++asked[i % length];
      right[i % length] += found[i] == wanted[i] ? 1 : 0;
    }
  }
  Json list = Json::array();
  for (std::size_t t = 0; t < asked.size(); ++t) {
    list.push(asked[t] == 0 ? Json()
                            : Json(static_cast<double>(right[t]) / static_cast<double>(asked[t])));
  }
  return list;
}

// A quick check of the trained model's gradients: random directions in f64, on two sequences. A
// word in place of it where it would take long: each tensor is moved a few dozen times.
Json gradients_of(const PageInputs& in, const Sequences& split) {
  constexpr std::int64_t kMostWork = 100'000'000;  // about two seconds
  const std::int64_t tokens = 2 * split.length();
  if (in.params.size() > kMostWork / (in.params.count() * std::max<std::int64_t>(tokens, 1)))
    return "left out, as it would take long for this model; tapehead gradcheck checks its parts";
  Params wide(in.params.seed(), DType::f64);
  const Model model(wide, in.config.model);
  const std::vector<Param> from = in.params.all();
  for (std::size_t i = 0; i < from.size(); ++i)
    wide[static_cast<int>(i)].set(cast(from[i].value(), DType::f64));
  const Batch batch = split.take(0, std::min<std::int64_t>(2, split.count()));
  GradcheckOptions options;
  options.name = in.config.task;
  options.fast = true;
  options.kinks_expected = true;
  const GradcheckReport report = gradcheck(
      [&](const std::vector<Tensor>&) {
        return std::vector<Tensor>{
            cross_entropy(model(batch), batch.targets, {.ignore = kIgnored})};
      },
      {}, wide, options);
  Json json;
  json.set("status", name_of(report.status)).set("worst", report.worst_relative());
  json.set("compared", report.compared).set("evaluations", report.evaluations);
  json.set("seconds", report.seconds);
  Json tensors = Json::array();
  for (const GradcheckTensor& tensor : report.tensors) {
    Json one;
    one.set("name", tensor.name).set("shape", to_string(tensor.shape));
    one.set("compared", tensor.compared).set("worst", tensor.worst_relative);
    one.set("bar", tensor.widest_relative);
    tensors.push(std::move(one));
  }
  json.set("tensors", std::move(tensors));
  return json;
}

Json facts_of(const PageInputs& in, const Json& result) {
  const ModelConfig& model = in.config.model;
  const BlasInfo blas = blas_info();
  Json facts = Json::array();
  const auto add = [&](const char* name, Json value) {
    facts.push(Json::Array{name, std::move(value)});
  };
  const auto text = [&](const char* key) -> std::string {
    const Json* found = result.find(key);
    const auto* value = found != nullptr ? found->get<std::string>() : nullptr;
    return value != nullptr ? *value : "";
  };
  add("task", fmt::format("{}: {}", in.problem.task.name, in.problem.task.summary));
  add("model", fmt::format("{}, {}, {}, width {}; {} parameters", detail::word_for(model.kind),
                           plural(model.stack.layers, "layer"), plural(model.stack.heads, "head"),
                           model.stack.width, thousands(in.params.size())));
  add("seed", fmt::format("{}", in.config.fit.seed));
  if (!text("status").empty()) add("status", text("status"));
  if (!text("fingerprint").empty()) add("fingerprint", text("fingerprint"));
  add("program", fmt::format("Tapehead {}", version()));
  add("machine", fmt::format("{}, kernel {}, {} flavour; {} threads", blas.name, blas.kernel,
                             blas.flavour, threads()));
  return facts;
}

}  // namespace

std::string html_report(const PageInputs& in) {
  const Task& task = in.problem.task;
  const Sequences& split = in.problem.data.last();
  const Batch samples = split.take(0, std::min<std::int64_t>(12, split.count()));
  const Json result = parsed(in.result);
  const std::string title = fmt::format("{}, seed {}", task.name, in.config.fit.seed);
  Json data;
  data.set("title", title).set("facts", facts_of(in, result)).set("result", result);
  data.set("chance", task.chance).set("curves", parsed(curves_json(in.metrics, 500)));
  if (std::optional<Json> film = read_film(in.film)) data.set("film", *std::move(film));
  data.set("samples", samples_of(task, samples, argmax(in.model(samples))));
  std::int64_t sequences = 0;
  data.set("positions", accuracy_by_position(in.model, split, sequences));
  data.set("position_sequences", sequences);
  data.set("gradcheck", gradients_of(in, split)).set("config", to_json(in.config, 2));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{} - Tapehead</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n"
      "<h1>{}</h1>\n<noscript><p>The pictures need JavaScript; the numbers are in the run's folder:"
      " config.json, metrics.csv, result.json.</p></noscript>\n</main>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n"
      "</body>\n</html>\n",
      escaped(title), kPageStyle, escaped(title), for_script(to_string(data)), kPageScript);
}

}  // namespace tapehead::report

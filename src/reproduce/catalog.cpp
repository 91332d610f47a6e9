#include "reproduce/catalog.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "core/message.hpp"
#include "io/file.hpp"
#include "io/hash.hpp"

namespace tapehead {

namespace fs = std::filesystem;
using detail::fail;

namespace {

// The files of data/README.md; `hash` is FNV-1a of the bytes.
struct KnownFile {
  const char* name;
  std::uint64_t bytes;
  std::uint64_t hash;
};
constexpr KnownFile kFiles[] = {{"names.txt", 228'145, 0x28355ad75543d943u},
                                {"tinyshakespeare.txt", 1'115'394, 0x4016c93c3be74c18u}};

}  // namespace

namespace detail {

std::unique_ptr<Trained> train_one(const Reproduction& reproduction,
                                   const ReproduceOptions& options, std::uint64_t seed,
                                   const EachStep& step) {
  RunConfig config = reproduction.config;
  config.fit.seed = seed;
  if (!reproduction.data.empty()) config.data = options.data.string();
  Loaded problem = load(config);
  Params params(seed);
  const Model model(params, config.model);
  auto trained = std::make_unique<Trained>(
      Trained{config, std::move(problem), std::move(params), model, FitResult()});

  FitOptions fit_options = config.fit;
  fit_options.stop = options.stop;
  FitCallbacks callbacks;
  callbacks.step = [&](const StepReport& report) {
    if (step) step(model, report);
    if (report.validation == nullptr || !options.note) return;
    options.note(fmt::format("{} seed {}: step {}/{}, {:.0f} s: validation loss {:.4f}, {:.2f}%",
                             reproduction.name, seed, report.step, report.steps, report.seconds,
                             report.validation->loss, 100 * report.validation->accuracy()));
  };
  trained->result =
      fit(trained->params, std::cref(model), trained->problem.data, fit_options, callbacks);
  if (trained->result.stopped) return nullptr;
  return trained;
}

std::int64_t seeds_of(const Reproduction& reproduction, const ReproduceOptions& options) {
  return options.seeds > 0 ? options.seeds : reproduction.seeds;
}

RunReproduction each_seed(std::function<std::vector<Finding>(const Trained& trained)> findings) {
  return
      [findings = std::move(findings)](const Reproduction& self, const ReproduceOptions& options) {
        std::vector<Finding> all;
        for (std::int64_t i = 0; i < seeds_of(self, options); ++i) {
          const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(i);
          const std::unique_ptr<Trained> trained = train_one(self, options, seed);
          if (!trained) return std::vector<Finding>();
          for (Finding& finding : findings(*trained)) {
            finding.what += fmt::format(", seed {}", seed);
            all.push_back(std::move(finding));
          }
        }
        return all;
      };
}

}  // namespace detail

const std::vector<Reproduction>& reproductions() {
  static const std::vector<Reproduction> list{
      detail::microgpt_words_reproduction(), detail::microgpt_reproduction(),
      detail::reverse_reproduction(),        detail::sort_reproduction(),
      detail::addition_reproduction(),       detail::copy_reproduction(),
      detail::induction_reproduction(),      detail::induction_varied_reproduction(),
      detail::shakespeare_reproduction(),    detail::gpt_dev_reproduction()};
  return list;
}

const Reproduction& find_reproduction(std::string_view name) {
  std::vector<std::string> names;
  for (const Reproduction& one : reproductions()) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  fail<ValueError>(
      fmt::format("no reproduction '{}'; did you mean '{}'?", name, detail::nearest(name, names)));
}

fs::path data_file(const Reproduction& reproduction, const fs::path& given) {
  if (reproduction.data.empty()) return {};
  const auto known = std::find_if(std::begin(kFiles), std::end(kFiles), [&](const KnownFile& file) {
    return file.name == reproduction.data;
  });
  if (given.empty()) {
    fail<ValueError>(fmt::format(
        "{} needs {}: name it, or a folder that it is in, with --data; data/README.md says where "
        "it is from",
        reproduction.name, reproduction.data));
  }
  std::error_code error;
  fs::path path = fs::is_directory(given, error) ? given / known->name : given;
  if (!fs::is_regular_file(path, error)) {
    fail<ValueError>(fmt::format("{}: there is no file '{}'; {} is wanted: see data/README.md",
                                 reproduction.name, path.string(), known->name));
  }
  const std::string text = detail::read_file(path);
  detail::Fnv1a hash;
  hash.add(text.data(), text.size());
  if (text.size() != known->bytes || hash.value() != known->hash) {
    fail<ValueError>(fmt::format(
        "{}: '{}' ({} bytes) is not the {} of {} bytes that the published result is from: see "
        "data/README.md",
        reproduction.name, path.string(), text.size(), known->name, known->bytes));
  }
  return path;
}

}  // namespace tapehead

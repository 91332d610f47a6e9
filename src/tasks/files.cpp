// The user's own files: text, lines, pairs, labels.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/message.hpp"
#include "io/file.hpp"
#include "tasks/catalog.hpp"

namespace tapehead {

using detail::fail;

namespace {

using Words = std::vector<std::string_view>;

// The distinct characters in order, behind what has to come first.
Vocabulary vocabulary_of(const std::vector<Words>& texts, std::vector<std::string> first = {}) {
  std::set<std::string> seen;
  for (const Words& words : texts) {
    for (const std::string_view word : words) seen.emplace(word);
  }
  for (const std::string& symbol : first) seen.erase(symbol);
  first.insert(first.end(), seen.begin(), seen.end());
  return Vocabulary(std::move(first));
}

std::vector<std::int64_t> ids_of(const Vocabulary& vocabulary, const Words& words) {
  std::vector<std::int64_t> ids;
  ids.reserve(words.size());
  for (const std::string_view word : words) ids.push_back(*vocabulary.find(word));
  return ids;
}

// Share of targets that are the commonest one.
double commonest_share(const Dataset& data, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes), 0);
  std::int64_t total = 0;
  const Tensor& targets = data.train.block > 0 ? data.train.inputs : data.train.targets;
  for (const std::int64_t id : targets.data<std::int64_t>()) {
    if (id == kIgnored) continue;
    ++counts[static_cast<std::size_t>(id)];
    ++total;
  }
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  return static_cast<double>(most) / static_cast<double>(std::max<std::int64_t>(total, 1));
}

void set_vocabularies(Task& task, Vocabulary inputs, Vocabulary outputs) {
  task.symbols = inputs.size();
  task.classes = outputs.size();
  task.inputs = std::move(inputs);
  task.outputs = std::move(outputs);
}

Sequences window(const Tensor& text, std::int64_t block, std::int64_t stride) {
  Sequences part;
  part.inputs = text;
  part.block = block;
  part.stride = stride;
  return part;
}

Tensor ids_tensor(std::span<const std::int64_t> ids) {
  return tensor(ids, {static_cast<std::int64_t>(ids.size())});
}

// Line ends within a text are LF; a file of bytes stays as it is.
Loaded load_text(const std::string& name, const std::string& raw, const TaskOptions& options) {
  Loaded loaded;
  Task& task = loaded.task;
  const std::int64_t block = detail::option_in("text", "length", options.length, 64, 1, 4096);
  task.model = ModelKind::language_model;
  task.options = {.length = block, .bytes = options.bytes};
  task.length = block;
  std::vector<std::int64_t> ids;
  if (options.bytes) {
    std::vector<std::string> bytes;
    for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
    for (const char c : raw) ids.push_back(static_cast<unsigned char>(c));
    Vocabulary all(std::move(bytes));
    set_vocabularies(task, all, all);
  } else {
    std::string text;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\r' || i + 1 == raw.size() || raw[i + 1] != '\n') text += raw[i];
    }
    if (text.find('\n') == std::string::npos) std::replace(text.begin(), text.end(), '\r', '\n');
    const Words words = detail::characters(text, name);
    Vocabulary all = vocabulary_of({words});
    ids = ids_of(all, words);
    set_vocabularies(task, all, all);
  }
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const std::int64_t train = tokens - tokens / 10;
  if (train < block + 1 || task.symbols < 2) {
    // n - floor(n / 10) >= block + 1
    std::int64_t needed = block + 1;
    while (needed - needed / 10 < block + 1) ++needed;
    fail<ValueError>(fmt::format(
        "text: '{}' holds {} {} of {} kinds; sequences of {} need at least {}, of 2 kinds: give a "
        "longer file or a smaller --length",
        name, tokens, options.bytes ? "bytes" : "characters", tokens == 0 ? 0 : task.symbols, block,
        needed));
  }
  const auto cut = static_cast<std::size_t>(train);
  loaded.data.train = window(ids_tensor(std::span(ids).first(cut)), block, 1);
  if (tokens - train >= 2) {
    loaded.data.validation = window(ids_tensor(std::span(ids).subspan(cut)), block, block);
  }
  return loaded;
}

// A tenth of the examples validates, a tenth tests; nothing does when that is none.
Dataset split_of(const std::string& name, const char* kind, std::vector<Example> examples,
                 std::uint64_t seed) {
  if (examples.size() < 2) {
    fail<ValueError>(
        fmt::format("{}: '{}' holds {} lines that are not empty; at least 2 are needed", kind, name,
                    examples.size()));
  }
  Rng(seed, Stream::data).fork("split").shuffle(std::span(examples));
  const std::size_t part = examples.size() / 10;
  const auto all = std::span(examples);
  Dataset data;
  data.train = collate(all.subspan(2 * part));
  if (part > 0) {
    data.validation = collate(all.first(part));
    data.test = collate(all.subspan(part, part));
  }
  return data;
}

Loaded load_lines(const std::string& name, const std::string& raw, std::uint64_t seed) {
  std::vector<Words> texts;
  for (const std::string_view line : detail::lines_of(raw)) {
    if (!line.empty()) texts.push_back(detail::characters(line, name));
  }
  Loaded loaded;
  const Vocabulary all = vocabulary_of(texts, {"\n"});
  set_vocabularies(loaded.task, all, all);
  loaded.task.model = ModelKind::language_model;
  std::vector<Example> examples;
  for (const Words& text : texts) {
    Example example;
    example.target = ids_of(all, text);
    example.input = example.target;
    example.input.insert(example.input.begin(), 0);
    example.target.push_back(0);
    examples.push_back(std::move(example));
  }
  loaded.data = split_of(name, "lines", std::move(examples), seed);
  return loaded;
}

struct Columns {
  std::vector<std::string_view> left, right;
};

Columns columns_of(const std::string& name, const char* kind, std::string_view raw) {
  Columns columns;
  std::int64_t number = 0;
  for (const std::string_view line : detail::lines_of(raw)) {
    ++number;
    if (line.empty()) continue;
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || tab == 0 || tab + 1 == line.size() ||
        line.find('\t', tab + 1) != std::string_view::npos) {
      fail<ValueError>(fmt::format("{}: line {} of '{}' is not two texts with one tab between them",
                                   kind, number, name));
    }
    columns.left.push_back(line.substr(0, tab));
    columns.right.push_back(line.substr(tab + 1));
  }
  return columns;
}

std::vector<Words> characters_of(const std::vector<std::string_view>& texts,
                                 const std::string& name) {
  std::vector<Words> list;
  for (const std::string_view text : texts) list.push_back(detail::characters(text, name));
  return list;
}

Loaded load_pairs(const std::string& name, const std::string& raw, std::uint64_t seed) {
  const Columns columns = columns_of(name, "pairs", raw);
  const std::vector<Words> sources = characters_of(columns.left, name);
  const std::vector<Words> targets = characters_of(columns.right, name);
  Loaded loaded;
  loaded.task.model = ModelKind::encoder_decoder;
  set_vocabularies(loaded.task, vocabulary_of(sources), vocabulary_of(targets, {"\n"}));
  std::vector<Example> examples;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Example example;
    example.input = ids_of(loaded.task.inputs, sources[i]);
    example.target = ids_of(loaded.task.outputs, targets[i]);
    example.decoder = example.target;
    example.decoder.insert(example.decoder.begin(), 0);
    example.target.push_back(0);
    examples.push_back(std::move(example));
  }
  loaded.data = split_of(name, "pairs", std::move(examples), seed);
  return loaded;
}

Loaded load_labels(const std::string& name, const std::string& raw, std::uint64_t seed) {
  const Columns columns = columns_of(name, "labels", raw);
  const std::vector<Words> texts = characters_of(columns.left, name);
  Loaded loaded;
  loaded.task.model = ModelKind::classifier;
  set_vocabularies(loaded.task, vocabulary_of(texts), vocabulary_of({columns.right}));
  if (loaded.task.classes < 2) {
    fail<ValueError>(fmt::format("labels: '{}' names {} classes; at least 2 are needed", name,
                                 loaded.task.classes));
  }
  std::vector<Example> examples;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    examples.push_back(
        {ids_of(loaded.task.inputs, texts[i]), {*loaded.task.outputs.find(columns.right[i])}, {}});
  }
  loaded.data = split_of(name, "labels", std::move(examples), seed);
  return loaded;
}

}  // namespace

Loaded load_task(std::string_view name, const std::filesystem::path& file,
                 const TaskOptions& options, std::uint64_t seed) {
  const TaskEntry& entry = find_task(name);
  if (entry.make) fail<ValueError>(fmt::format("{}: draws its data and takes no file", name));
  const std::string raw = detail::read_file(file);
  const std::string shown = file.string();
  Loaded loaded = name == "text"    ? load_text(shown, raw, options)
                  : name == "lines" ? load_lines(shown, raw, seed)
                  : name == "pairs" ? load_pairs(shown, raw, seed)
                                    : load_labels(shown, raw, seed);
  Task& task = loaded.task;
  task.name = entry.name;
  task.summary = entry.summary;
  if (task.length == 0) {
    for (const Sequences* part : {&loaded.data.train, &loaded.data.validation, &loaded.data.test}) {
      if (!part->defined()) continue;
      task.length = std::max({task.length, part->inputs.dim(1), part->targets.dim(1)});
    }
    task.options = {.length = task.length};
  }
  task.chance = commonest_share(loaded.data, task.classes);
  loaded.leaked = leaked(loaded.data);
  return loaded;
}

}  // namespace tapehead

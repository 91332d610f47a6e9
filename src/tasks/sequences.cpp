// From examples to padded tables, from tables to batches.
#include <algorithm>
#include <numeric>
#include <unordered_set>

#include <fmt/format.h>

#include "core/access.hpp"
#include "core/message.hpp"
#include "tasks/catalog.hpp"

namespace tapehead {

using detail::fail;

namespace {

using Ids = std::vector<std::int64_t>;

// The rows, padded to `length` with `padding`.
template <class Row>
Tensor table(std::int64_t count, std::int64_t length, std::int64_t padding, const Row& row) {
  Tensor x = detail::empty({count, length}, DType::i64);
  std::int64_t* to = detail::out<std::int64_t>(x);
  for (std::int64_t i = 0; i < count; ++i, to += length) {
    const std::span<const std::int64_t> ids = row(i);
    const std::size_t taken = std::min(ids.size(), static_cast<std::size_t>(length));
    std::fill(std::copy_n(ids.begin(), taken, to), to + length, padding);
  }
  return x;
}

std::span<const std::int64_t> row_of(const Tensor& x, std::int64_t row) {
  const auto length = static_cast<std::size_t>(x.dim(1));
  return x.data<std::int64_t>().subspan(static_cast<std::size_t>(row) * length, length);
}

std::int64_t longest(std::span<const Example> examples, Ids Example::*part) {
  std::size_t most = 0;
  for (const Example& example : examples) most = std::max(most, (example.*part).size());
  return static_cast<std::int64_t>(most);
}

// The tokens from row * stride on, and those one further on.
Batch windows(const Sequences& text, std::span<const std::int64_t> rows) {
  const auto all = text.inputs.data<std::int64_t>();
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto from = [&](std::int64_t i, std::int64_t shift) {
    const std::int64_t begin = rows[static_cast<std::size_t>(i)] * text.stride + shift;
    const auto end =
        std::min(static_cast<std::int64_t>(all.size()) - 1 + shift, begin + text.block);
    return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  };
  Batch batch;
  batch.inputs = table(count, text.block, 0, [&](std::int64_t i) { return from(i, 0); });
  batch.targets = table(count, text.block, kIgnored, [&](std::int64_t i) { return from(i, 1); });
  return batch;
}

}  // namespace

std::int64_t Sequences::count() const {
  if (!defined()) return 0;
  if (block == 0) return inputs.dim(0);
  const std::int64_t tokens = inputs.dim(0);
  return stride == 1 ? tokens - block : (tokens - 2) / stride + 1;
}

Batch Sequences::take(std::span<const std::int64_t> rows) const {
  if (block > 0) return windows(*this, rows);
  const auto wanted = static_cast<std::int64_t>(rows.size());
  const auto pick = [&](const Tensor& x, std::int64_t length) {
    return table(wanted, length, 0,
                 [&](std::int64_t i) { return row_of(x, rows[static_cast<std::size_t>(i)]); });
  };
  Batch batch;
  std::int64_t time = inputs.dim(1);
  if (!lengths.empty()) {
    for (const std::int64_t row : rows)
      batch.lengths.push_back(lengths[static_cast<std::size_t>(row)]);
    if (!batch.lengths.empty())
      time = *std::max_element(batch.lengths.begin(), batch.lengths.end());
  }
  batch.inputs = pick(inputs, time);
  // Targets at the positions of the input are as long as it, others as their longest row.
  std::int64_t answers = targets.dim(1);
  if (decoder.defined() && answers > 0) {
    const auto real = [&](std::int64_t t) {
      return std::any_of(rows.begin(), rows.end(), [&](std::int64_t row) {
        return row_of(targets, row)[static_cast<std::size_t>(t)] != kIgnored;
      });
    };
    while (answers > 1 && !real(answers - 1)) --answers;
    batch.decoder = pick(decoder, answers);
  } else if (answers == inputs.dim(1)) {
    answers = time;
  }
  batch.targets = pick(targets, answers);
  return batch;
}

Batch Sequences::take(std::int64_t begin, std::int64_t end) const {
  Ids rows(static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin)));
  std::iota(rows.begin(), rows.end(), begin);
  return take(rows);
}

Sequences collate(std::span<const Example> examples) {
  const auto count = static_cast<std::int64_t>(examples.size());
  const auto fill = [&](Ids Example::*part, std::int64_t padding) {
    return table(count, longest(examples, part), padding, [&](std::int64_t i) {
      return std::span<const std::int64_t>(examples[static_cast<std::size_t>(i)].*part);
    });
  };
  Sequences all;
  all.inputs = fill(&Example::input, 0);
  all.targets = fill(&Example::target, kIgnored);
  if (longest(examples, &Example::decoder) > 0) all.decoder = fill(&Example::decoder, 0);
  const auto padded = [&](const Example& example) {
    return static_cast<std::int64_t>(example.input.size()) < all.inputs.dim(1);
  };
  if (std::any_of(examples.begin(), examples.end(), padded)) {
    for (const Example& example : examples) {
      all.lengths.push_back(static_cast<std::int64_t>(example.input.size()));
    }
  }
  return all;
}

namespace {

// `wanted`: of held-out examples, or of the others; nothing when any will do.
Sequences draw_split(const Task& task, std::int64_t count, Rng rng, std::optional<bool> wanted) {
  if (count < 1) {
    fail<ValueError>(
        fmt::format("{}: a split needs at least 1 sequence, got {}", task.name, count));
  }
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;  // 16 GiB of ids
  if (count > kMostTokens / task.length) {
    fail<ValueError>(fmt::format("{}: {} sequences of {} tokens are too many: at most {} fit",
                                 task.name, count, task.length, kMostTokens / task.length));
  }
  if (!task.draw) {
    fail<ValueError>(fmt::format("{}: nothing to draw: its examples are a list", task.name));
  }
  std::vector<Example> examples(static_cast<std::size_t>(count));
  // With small options a task may hold out nothing, or everything, that it can draw: then any
  // example will do, and leaked() tells.
  bool choosy = task.held_out && wanted;
  for (Example& example : examples) {
    int tries = 0;
    do {
      task.draw(rng, example);
    } while (choosy && task.held_out(example) != *wanted && ++tries < 10'000);
    choosy = choosy && tries < 10'000;
  }
  return collate(examples);
}

}  // namespace

Sequences draw(const Task& task, std::int64_t count, Rng rng) {
  return draw_split(task, count, rng, std::nullopt);
}

Dataset draw(const Task& task, const SplitSizes& sizes, std::uint64_t seed) {
  const Rng rng(seed, Stream::data);
  if (!task.all) {
    return {draw_split(task, sizes.train, rng.fork("train"), false),
            draw_split(task, sizes.validation, rng.fork("validation"), true),
            draw_split(task, sizes.test, rng.fork("test"), true)};
  }
  std::vector<Example> all = task.all();
  rng.fork("split").shuffle(std::span(all));
  const auto train = static_cast<std::size_t>(task.train_share * static_cast<double>(all.size()));
  Dataset data;
  data.train = collate(std::span(all).first(train));
  data.validation = collate(std::span(all).subspan(train));
  data.test = data.validation;
  return data;
}

const Sequences& Dataset::last() const {
  return test.defined() ? test : validation.defined() ? validation : train;
}

std::int64_t leaked(const Dataset& data) {
  if (!data.test.defined() || data.train.block > 0) return 0;
  const auto key = [](const Sequences& split, std::int64_t row) {
    const auto ids = row_of(split.inputs, row);
    const auto length =
        split.lengths.empty()
            ? ids.size()
            : static_cast<std::size_t>(split.lengths[static_cast<std::size_t>(row)]);
    return std::string(reinterpret_cast<const char*>(ids.data()), length * sizeof(std::int64_t));
  };
  std::unordered_set<std::string> known;
  for (std::int64_t row = 0; row < data.train.count(); ++row) known.insert(key(data.train, row));
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < data.test.count(); ++row) {
    count += known.count(key(data.test, row)) > 0 ? 1 : 0;
  }
  return count;
}

}  // namespace tapehead

// Transformers whose weights are set by hand, so that what they compute is known at any length:
// nothing is trained. The numbers of the input's columns are features, in the order given.
#include <cmath>
#include <numeric>

#include <tapehead/models.hpp>

#include "nn/support.hpp"

namespace th = tapehead;
using th::DType;
using th::Mask;
using th::Tensor;

namespace {

struct Entry {
  std::int64_t row, column;
  double value;
};

// All of a parameter 0 but for these.
void set(th::Params& params, const std::string& name, const std::vector<Entry>& entries) {
  const th::Param p = params.at(name);
  std::vector<double> values(static_cast<std::size_t>(p.shape().size()), 0.0);
  const std::int64_t columns = p.shape()[-1];
  for (const Entry& e : entries)
    values[static_cast<std::size_t>(e.row * columns + e.column)] = e.value;
  p.set(th::tensor(std::span<const double>(values), p.shape()));
}

void clear(th::Params& params) {
  for (const th::Param& p : params.all()) p.set(th::zeros(p.shape(), DType::f64));
}

// One sequence [1,T,D] of features.
Tensor features(std::int64_t length, std::int64_t width,
                const std::function<std::vector<double>(std::int64_t)>& at) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < length; ++i) {
    std::vector<double> row = at(i);
    row.resize(static_cast<std::size_t>(width), 0.0);
    values.insert(values.end(), row.begin(), row.end());
  }
  return th::tensor(std::span<const double>(values), {1, length, width});
}

th::TransformerOptions plain(std::int64_t layers, std::int64_t width, std::int64_t heads) {
  return {.layers = layers,
          .width = width,
          .heads = heads,
          .activation = th::Activation::none,
          .norm = th::NormKind::none,
          .place = th::NormPlace::pre};
}

// Short ones all, then ever rarer up to 1000.
std::vector<std::int64_t> lengths() {
  std::vector<std::int64_t> list;
  for (std::int64_t n = 1; n < 1000; n += n < 60 ? 1 : n / 9) list.push_back(n);
  list.push_back(999);
  list.push_back(1000);
  return list;
}

std::vector<std::int64_t> random_string(th::Rng& rng, std::int64_t length, std::int64_t symbols) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(length));
  const double share = rng.uniform();  // all kinds of strings, also nearly constant ones
  for (std::int64_t& x : list)
    x = symbols == 2 ? (rng.bernoulli(share) ? 1 : 0) : rng.below(symbols);
  return list;
}

std::int64_t largest(const Tensor& y, std::int64_t row, std::int64_t first, std::int64_t count) {
  return static_cast<std::int64_t>(
      th::argmax(th::slice(test::rows(y, 0, row, row + 1), 2, first, first + count)).item());
}

}  // namespace

TEST_CASE("hand-set weights tell the parity of any string") {
  // Chiang & Cholak, "Overcoming a theoretical limitation of self-attention" (2022). A class token
  // at position 0, n the length with it, k the number of ones. Columns: 0 is a one, 1 is the class
  // token, 2 i/n, 3 cos(i pi); then 4 k/n, 5 1/n, 6 the bump, 7 the answer.
  th::TransformerOptions options = plain(2, 8, 2);
  options.activation = th::Activation::relu;
  options.hidden = 3;
  th::Params params(1, DType::f64);
  const th::TransformerStack stack(params, options);
  clear(params);
  // Layer 0: scores are all 0, so each position holds the means of columns 0 and 1.
  set(params, "layers.0.attention.value.weight", {{0, 0, 1}, {1, 1, 1}});
  set(params, "layers.0.attention.output.weight", {{0, 4, 1}, {1, 5, 1}});
  // relu((k-i-1)/n) - 2 relu((k-i)/n) + relu((k-i+1)/n): 1/n at i = k and 0 elsewhere.
  set(params, "layers.0.ffn.up.weight",
      {{4, 0, 1}, {2, 0, -1}, {5, 0, -1}, {4, 1, 1}, {2, 1, -1}, {4, 2, 1}, {2, 2, -1}, {5, 2, 1}});
  set(params, "layers.0.ffn.down.weight", {{0, 6, 1}, {1, 6, -2}, {2, 6, 1}});
  // Layer 1: heads with scores +cos(i pi) and -cos(i pi) read the bump; the answer is their
  // difference. d = 4, so a query of 2 makes scores of 1.
  set(params, "layers.1.attention.query.bias", {{0, 0, 2}, {0, 4, -2}});
  set(params, "layers.1.attention.key.weight", {{3, 0, 1}, {3, 4, 1}});
  set(params, "layers.1.attention.value.weight", {{6, 0, 1}, {6, 4, 1}});
  set(params, "layers.1.attention.output.weight", {{0, 7, 1}, {4, 7, -1}});
  th::Rng rng(21, th::Stream::check);
  for (const std::int64_t length : lengths()) {
    const std::vector<std::int64_t> bits = random_string(rng, length, 2);
    const std::int64_t ones = std::accumulate(bits.begin(), bits.end(), std::int64_t{0});
    const auto n = static_cast<double>(length + 1);
    const Tensor y = stack(features(length + 1, 8, [&](std::int64_t i) {
      const double one = i > 0 ? static_cast<double>(bits[static_cast<std::size_t>(i - 1)]) : 0;
      return std::vector<double>{one, i == 0 ? 1.0 : 0.0, static_cast<double>(i) / n,
                                 i % 2 == 0 ? 1.0 : -1.0};
    }));
    INFO(ones << " ones of " << length);
    CHECK((y.at({0, 0, 7}) > 0) == (ones % 2 == 0));
    // The answer is (1/n) tanh(1)-like: far above rounding, whatever the length.
    CHECK(std::abs(y.at({0, 0, 7})) > 1 / (n * n));
  }
}

TEST_CASE("hand-set weights tell the first symbol of any string, as scores grow with ln n") {
  // Chiang & Cholak 2022 again. Columns: 0 symbol as -1 or 1, 1 is position 1, 2 the answer. The
  // score 2 ln n of position 1 against 0 of the n - 1 others gives it n^2 / (n^2 + n - 1) > 1/2.
  th::TransformerOptions options = plain(1, 4, 1);
  options.variant.log_length = std::exp(1.0);
  options.variant.scale = 1;
  th::Params params(1, DType::f64);
  const th::TransformerStack stack(params, options);
  clear(params);
  set(params, "layers.0.attention.query.bias", {{0, 0, 2}});
  set(params, "layers.0.attention.key.weight", {{1, 0, 1}});
  set(params, "layers.0.attention.value.weight", {{0, 0, 1}});
  set(params, "layers.0.attention.output.weight", {{0, 2, 1}});
  th::Rng rng(22, th::Stream::check);
  for (const std::int64_t length : lengths()) {
    std::vector<std::int64_t> bits = random_string(rng, length, 2);
    // Also the hardest string: all others are different.
    for (const bool hardest : {false, true}) {
      if (hardest) {
        for (std::size_t i = 1; i < bits.size(); ++i) bits[i] = 1 - bits[0];
      }
      const Tensor y = stack(features(length + 1, 4, [&](std::int64_t i) {
        const double sign = i > 0 && bits[static_cast<std::size_t>(i - 1)] == 0 ? -1 : 1;
        return std::vector<double>{i == 0 ? 0 : sign, i == 1 ? 1.0 : 0.0};
      }));
      INFO(length << (hardest ? ", hardest" : ""));
      CHECK((y.at({0, 0, 2}) > 0) == (bits[0] == 1));
    }
  }
}

TEST_CASE("a hand-set previous-token head and induction head continue any string") {
  // Olsson et al., "In-context learning and induction heads" (2022). Columns: 0..5 the symbol (5
  // begins the string), 6..11 the symbol before, 12..17 the answer, 18 p, 19 p^2, 20 one. The score
  // -c (p_j - (p_i - 1))^2 picks the position before, with c = 50.
  constexpr std::int64_t kSymbols = 6, kWidth = 21, kC = 50;
  th::TransformerOptions options = plain(2, kWidth, 1);
  options.variant.scale = 1;
  th::Params params(1, DType::f64);
  const th::TransformerStack stack(params, options);
  clear(params);
  const auto copy = [](std::int64_t from, std::int64_t to) {
    std::vector<Entry> entries;
    for (std::int64_t i = 0; i < kSymbols; ++i) entries.push_back({from + i, to + i, 1});
    return entries;
  };
  set(params, "layers.0.attention.query.weight", {{18, 0, 2 * kC}, {20, 0, -2 * kC}, {20, 1, -kC}});
  set(params, "layers.0.attention.key.weight", {{18, 0, 1}, {19, 1, 1}});
  set(params, "layers.0.attention.value.weight", copy(0, 0));
  set(params, "layers.0.attention.output.weight", copy(0, 6));
  // Layer 1: the symbol against the symbols before, and the latest match first.
  constexpr double kMatch = 1e5, kLater = 40;
  std::vector<Entry> asks = copy(0, 0);
  for (Entry& e : asks) e.value = kMatch;
  asks.push_back({20, 6, kLater});
  std::vector<Entry> offers = copy(6, 0);
  offers.push_back({18, 6, 1});
  set(params, "layers.1.attention.query.weight", asks);
  set(params, "layers.1.attention.key.weight", offers);
  set(params, "layers.1.attention.value.weight", copy(0, 0));
  set(params, "layers.1.attention.output.weight", copy(0, 12));
  th::Rng rng(23, th::Stream::check);
  int asked = 0;
  for (const std::int64_t length : lengths()) {
    std::vector<std::int64_t> text = random_string(rng, length, kSymbols - 1);
    text.insert(text.begin(), kSymbols - 1);
    const std::int64_t n = length + 1;
    const Tensor y =
        stack(features(n, kWidth,
                       [&](std::int64_t i) {
                         std::vector<double> row(kWidth, 0.0);
                         row[static_cast<std::size_t>(text[static_cast<std::size_t>(i)])] = 1;
                         row[18] = static_cast<double>(i);
                         row[19] = static_cast<double>(i * i);
                         row[20] = 1;
                         return row;
                       }),
              Mask::causal(n));
    INFO("length " << length);
    for (std::int64_t t = std::max<std::int64_t>(1, n - 40); t < n; ++t) {
      std::int64_t wanted = -1;
      for (std::int64_t j = 1; j <= t; ++j) {
        if (text[static_cast<std::size_t>(j - 1)] == text[static_cast<std::size_t>(t)])
          wanted = text[static_cast<std::size_t>(j)];
      }
      if (wanted < 0) continue;  // it did not occur before
      ++asked;
      CHECK(largest(y, t, 12, kSymbols) == wanted);
    }
  }
  CHECK(asked > 2000);
}

TEST_CASE("hand-set weights reverse any string") {
  // Columns: 0..4 the symbol, 5..9 the answer, 10 p, 11 p^2, 12 n - 1, 13 one. The score
  // -c (p_j - (n - 1 - p_i))^2 picks the mirrored position.
  constexpr std::int64_t kSymbols = 5, kWidth = 14, kC = 50;
  th::TransformerOptions options = plain(1, kWidth, 1);
  options.variant.scale = 1;
  th::Params params(1, DType::f64);
  const th::TransformerStack stack(params, options);
  clear(params);
  std::vector<Entry> values, outputs;
  for (std::int64_t i = 0; i < kSymbols; ++i) {
    values.push_back({i, i, 1});
    outputs.push_back({i, kSymbols + i, 1});
  }
  set(params, "layers.0.attention.query.weight", {{12, 0, 2 * kC}, {10, 0, -2 * kC}, {13, 1, -kC}});
  set(params, "layers.0.attention.key.weight", {{10, 0, 1}, {11, 1, 1}});
  set(params, "layers.0.attention.value.weight", values);
  set(params, "layers.0.attention.output.weight", outputs);
  th::Rng rng(24, th::Stream::check);
  for (const std::int64_t length : lengths()) {
    const std::vector<std::int64_t> text = random_string(rng, length, kSymbols);
    const Tensor y = stack(features(length, kWidth, [&](std::int64_t i) {
      std::vector<double> row(kWidth, 0.0);
      row[static_cast<std::size_t>(text[static_cast<std::size_t>(i)])] = 1;
      row[10] = static_cast<double>(i);
      row[11] = static_cast<double>(i * i);
      row[12] = static_cast<double>(length - 1);
      row[13] = 1;
      return row;
    }));
    INFO("length " << length);
    const Tensor found = th::argmax(th::slice(y, 2, kSymbols, 2 * kSymbols));  // [1,T]
    std::vector<std::int64_t> reversed(text.rbegin(), text.rend());
    CHECK(found.to_vector<std::int64_t>() == reversed);
  }
}

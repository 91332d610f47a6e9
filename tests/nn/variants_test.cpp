// Every variant of attention against a textbook loop, and what a call may be given.
#include <cmath>

#include <tapehead/models.hpp>

#include "nn/score_positions.hpp"
#include "nn/support.hpp"
#include "nn/variant_oracle.hpp"
#include "nn/variants.hpp"

namespace th = tapehead;
using test::check_close;
using th::DType;
using th::Mask;
using th::Tensor;
using variants::Named;

namespace {

constexpr std::int64_t kWidth = 16, kHeads = 4;

variant_oracle::Numbers tensor_numbers(const Tensor& x) { return variant_oracle::numbers(x); }

void check_numbers(const Tensor& found, const variant_oracle::Numbers& wanted, double tolerance) {
  REQUIRE(found.size() == static_cast<std::int64_t>(wanted.size()));
  double scale = 0, worst = 0;
  for (const double w : wanted) scale = std::max(scale, std::abs(w));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double off = std::abs(found.at_flat(static_cast<std::int64_t>(i)) - wanted[i]);
    worst = std::isnan(off) ? INFINITY : std::max(worst, off);
  }
  CHECK(worst <= tolerance * scale);
}

}  // namespace

TEST_CASE("every variant of attention equals the textbook") {
  const Tensor x = test::random({2, 9, kWidth}, 4, DType::f64);
  const Tensor y = test::random({2, 7, kWidth}, 6, DType::f64);
  const Mask causal = Mask::causal(9) & Mask::lengths({9, 6}, 9);
  for (const Named& one : variants::all()) {
    for (const bool cross : {false, true}) {
      INFO(one.name << (cross ? ", cross" : ", self"));
      th::Params params(1, DType::f64);
      const th::MultiHeadAttention attention(
          params, {.width = kWidth, .heads = kHeads, .variant = one.variant});
      variants::perturb(params);
      const Tensor& keys = cross ? y : x;
      const Mask mask = cross ? Mask() : causal;
      variant_oracle::Call call{one.variant, 2, kHeads, 9, keys.dim(1), kWidth, nullptr};
      call.sees = [&](std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) {
        return mask.sees(b, h, t, s);
      };
      const auto bucket = [&](std::int64_t distance) {
        return th::detail::t5_bucket(distance, one.variant.t5_buckets, one.variant.max_distance,
                                     one.variant.t5_both_ways);
      };
      const auto wanted = variant_oracle::attend(
          params, call, tensor_numbers(x), tensor_numbers(keys), tensor_numbers(keys), bucket);
      const th::MultiHeadResult found = attention.with_weights(x, keys, keys, mask);
      check_numbers(found.output, wanted.output, 1e-12);
      check_numbers(found.weights, wanted.weights, 1e-12);
      CHECK(th::same_bits(attention(x, keys, keys, mask), found.output));
      // Averaged over the heads.
      const th::MultiHeadResult averaged =
          attention.run(x, keys, keys, {.mask = mask, .weights = th::Weights::averaged});
      CHECK(th::same_bits(averaged.output, found.output));
      variant_oracle::Numbers mean(static_cast<std::size_t>(2 * 9 * keys.dim(1)), 0.0);
      for (std::size_t i = 0; i < wanted.weights.size(); ++i) {
        const std::size_t sheet = static_cast<std::size_t>(9 * keys.dim(1));
        mean[i / (kHeads * sheet) * sheet + i % sheet] += wanted.weights[i] / kHeads;
      }
      CHECK(averaged.weights.shape() == th::Shape{2, 9, keys.dim(1)});
      check_numbers(averaged.weights, mean, 1e-12);
    }
  }
}

TEST_CASE("keys and values may come in widths of their own, and scores get a bias") {
  th::Params params(1, DType::f64);
  const th::MultiHeadAttention attention(
      params, {.width = 8, .heads = 2, .key_width = 5, .value_width = 3});
  CHECK(params.at("key.weight").shape() == th::Shape{5, 8});
  CHECK(params.at("value.weight").shape() == th::Shape{3, 8});
  const Tensor q = test::random({2, 3, 8}, 1, DType::f64);
  const Tensor k = test::random({2, 4, 5}, 2, DType::f64),
               v = test::random({2, 4, 3}, 3, DType::f64);
  const Tensor y = attention(q, k, v);
  CHECK_THROWS_WITH(attention(q, q, q), ContainsSubstring("width 5"));
  // A bias that leaves one key only: its value goes through.
  std::vector<double> far(2 * 3 * 4, -1e4);
  for (std::size_t row = 0; row < 6; ++row) far[row * 4 + 2] = 0;
  th::AttentionRun how;
  how.bias = th::tensor(std::span<const double>(far), {2, 1, 3, 4});
  const Tensor picked = attention.run(q, k, v, how).output;
  const Tensor alone = attention(q, th::slice(k, 1, 2, 3), th::slice(v, 1, 2, 3));
  check_close(picked, alone, {1e-12, 1e-13});
  CHECK_FALSE(th::compare(picked, y, {1e-3, 1e-3}).equal);
}

TEST_CASE("T5's buckets are those of its source") {
  // The distance at which each run of one bucket begins, from -200 to 200, computed with the
  // published function in PyTorch.
  struct Run {
    std::int64_t from, bucket;
  };
  struct Case {
    bool both_ways;
    std::int64_t buckets, max_distance;
    std::vector<Run> runs;
  };
  const std::vector<Case> cases{
      {true, 32, 128, {{-200, 15}, {-90, 14}, {-63, 13}, {-45, 12}, {-31, 11}, {-22, 10}, {-15, 9},
                       {-11, 8},   {-7, 7},   {-6, 6},   {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},
                       {-1, 1},    {0, 0},    {1, 17},   {2, 18},   {3, 19},   {4, 20},   {5, 21},
                       {6, 22},    {7, 23},   {8, 24},   {12, 25},  {16, 26},  {23, 27},  {32, 28},
                       {46, 29},   {64, 30},  {91, 31}}},
      {false, 32, 128, {{-200, 31}, {-112, 30}, {-98, 29}, {-86, 28}, {-76, 27}, {-66, 26},
                        {-58, 25},  {-51, 24},  {-45, 23}, {-39, 22}, {-34, 21}, {-30, 20},
                        {-26, 19},  {-23, 18},  {-20, 17}, {-18, 16}, {-15, 15}, {-14, 14},
                        {-13, 13},  {-12, 12},  {-11, 11}, {-10, 10}, {-9, 9},   {-8, 8},
                        {-7, 7},    {-6, 6},    {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},
                        {-1, 1},    {0, 0}}},
      {true, 8, 20, {{-200, 3}, {-6, 2}, {-1, 1}, {0, 0}, {1, 5}, {2, 6}, {7, 7}}},
  };
  for (const Case& c : cases) {
    for (std::size_t i = 0; i < c.runs.size(); ++i) {
      const std::int64_t end = i + 1 < c.runs.size() ? c.runs[i + 1].from : 201;
      for (std::int64_t r = c.runs[i].from; r < end; ++r) {
        INFO(r << " of " << c.buckets);
        CHECK(th::detail::t5_bucket(r, c.buckets, c.max_distance, c.both_ways) == c.runs[i].bucket);
      }
    }
  }
}

TEST_CASE("ALiBi's slopes are those of its source, for any number of heads") {
  // Press et al. 2022: 8 heads 1/2, 1/4 .. 1/256; 16 heads 2^-0.5, 2^-1, 2^-1.5 ..; 3 heads: those
  // of 2 heads (1/16, 1/256), then the first of 4 (1/4).
  const std::vector<std::pair<std::int64_t, std::vector<double>>> cases{
      {1, {1.0 / 256}},
      {8, {0.5, 0.25, 0.125, 1.0 / 16, 1.0 / 32, 1.0 / 64, 1.0 / 128, 1.0 / 256}},
      {3, {1.0 / 16, 1.0 / 256, 0.25}},
      {6, {0.25, 1.0 / 16, 1.0 / 64, 1.0 / 256, 0.5, 0.125}},
  };
  for (const auto& entry : cases) {
    for (std::size_t h = 0; h < entry.second.size(); ++h)
      CHECK(th::detail::alibi_slope(static_cast<std::int64_t>(h), entry.first) == entry.second[h]);
  }
  CHECK(th::detail::alibi_slope(2, 16) == Approx(std::pow(2.0, -1.5)).epsilon(1e-15));
}

TEST_CASE("options of attention without a meaning are refused") {
  const auto refuse = [](th::MultiHeadOptions options, const std::string& part) {
    options.width = 8;
    options.heads = 4;
    th::Params params(1);
    CHECK_THROWS_WITH(th::MultiHeadAttention(params, options), ContainsSubstring(part));
    CHECK(params.count() == 0);
  };
  refuse({.variant = {.kv_heads = 3}}, "4 mod 3 = 1");
  refuse({.variant = {.kv_heads = -1}}, "at least 0");
  refuse({.variant = {.positions = th::Positions::learned}}, "added to a model's input");
  refuse({.variant = {.head_width = 5, .positions = th::Positions::rope}}, "5 of its 5 cannot");
  refuse({.variant = {.positions = th::Positions::rope, .rope_dims = 4}}, "even number in 0..2");
  refuse({.variant = {.positions = th::Positions::rope, .rope_base = 0}}, "rope_base");
  refuse({.variant = {.positions = th::Positions::t5, .t5_buckets = 2}}, "too few or odd");
  refuse({.variant = {.positions = th::Positions::t5, .max_distance = 8}}, "max_distance 8");
  refuse({.variant = {.window = -2}}, "window");
  refuse({.variant = {.qk_norm = th::NormKind::rms, .qk_norm_eps = 0}}, "eps");
  refuse({.variant = {.log_length = 1}}, "log_length");
  refuse({.variant = {.soft_cap = -1}}, "soft_cap");
  refuse({.key_width = -1}, "key_width");
  th::Params params(1);
  th::LanguageModelOptions options{.positions = th::Positions::rope};
  options.stack.variant.positions = th::Positions::alibi;
  CHECK_THROWS_WITH(th::LanguageModel(params, options), ContainsSubstring("say them once"));
}

TEST_CASE("heads can be silenced and replaced, and patterns too") {
  th::Params params(1, DType::f64);
  const th::MultiHeadAttention attention(
      params, {.width = 8, .heads = 4, .dropout = 0.4, .variant = {.kv_heads = 2}});
  variants::perturb(params);
  const Tensor x = test::random({2, 5, 8}, 4, DType::f64);
  const Mask mask = Mask::causal(5);
  // Silencing heads 1 and 3 is the same as an output projection that does not read them.
  th::AttentionRun silenced{.mask = mask};
  silenced.patch.heads = [](const Tensor& heads) { return th::without_heads(heads, {1, 3}); };
  const Tensor y = attention.run(x, x, x, silenced).output;
  th::Params other(1, DType::f64);
  const th::MultiHeadAttention half(other, {.width = 8, .heads = 4, .variant = {.kv_heads = 2}});
  for (const th::Param& p : params.all()) other.at(p.name()).set(p.value());
  std::vector<double> rows = variant_oracle::numbers(params.at("output.weight").value());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i / 8 / 2 % 2 == 1) rows[i] = 0;
  }
  other.at("output.weight").set(th::tensor(std::span<const double>(rows), {8, 8}));
  check_close(y, half(x, mask), {1e-12, 1e-13});
  // What another input gave, in head 2 alone.
  const Tensor z = test::random({2, 5, 8}, 9, DType::f64);
  Tensor kept;
  th::AttentionRun keeping{.mask = mask};
  keeping.patch.heads = [&](const Tensor& heads) { return kept = heads; };
  (void)attention.run(z, z, z, keeping);
  th::AttentionRun all{.mask = mask};
  all.patch.heads = [&](const Tensor& heads) {
    Tensor h = heads;
    for (std::int64_t i = 0; i < 4; ++i) h = th::with_head(h, i, th::slice(kept, 1, i, i + 1));
    return h;
  };
  CHECK(th::same_bits(attention.run(x, x, x, all).output, attention(z, mask)));
  // A uniform pattern is the mean of the values; the pattern as it is changes nothing.
  th::AttentionRun uniform;
  uniform.patch.weights = [](const Tensor& w) { return th::full(w.shape(), 0.2, w.dtype()); };
  const th::MultiHeadResult flat = attention.run(x, x, x, uniform);
  const Tensor values = attention.value(x);  // [B,T,G e]
  const Tensor mean = th::broadcast_to(th::mean(values, 1, th::keep), values.shape());
  std::vector<Tensor> shared;
  for (const std::int64_t g : {0, 0, 1, 1}) shared.push_back(th::slice(mean, 2, 2 * g, 2 * g + 2));
  check_close(flat.output, attention.output(th::concat(shared, 2)), {1e-12, 1e-13});
  th::AttentionRun same{.mask = mask, .weights = th::Weights::per_head};
  same.patch.weights = [](const Tensor& w) { return w; };
  check_close(attention.run(x, x, x, same).output, attention(x, mask), {1e-12, 1e-13});
  // Dropout comes after the patch, with the draws of the plain call.
  th::Rng a(3, th::Stream::dropout), b(3, th::Stream::dropout);
  same.rng = &a;
  check_close(attention.run(x, x, x, same).output, attention(x, mask, &b), {1e-12, 1e-13});
  CHECK(a.counter() == b.counter());
  // Gradients go through a patch.
  th::Tape tape;
  const Tensor watched = tape.watch(x);
  const th::Gradients g =
      tape.backward(th::sum(attention.run(watched, watched, watched, silenced).output * 2.0));
  CHECK(g.reached(params.at("query.weight")));
  same.patch.weights = [](const Tensor& w) { return th::sum(w, -1); };
  CHECK_THROWS_WITH(attention.run(x, x, x, same), ContainsSubstring("patched weights"));
  CHECK_THROWS_AS(th::without_heads(kept, {4}), th::IndexError);
  CHECK_THROWS_AS(th::with_head(kept, 0, kept), th::ShapeError);
}

TEST_CASE("a model's heads are patched by layer") {
  th::Params params(1, DType::f64);
  th::LanguageModelOptions options{.symbols = 5, .max_length = 6};
  options.stack = {.layers = 2, .width = 8, .heads = 2, .hidden = 12};
  const th::LanguageModel model(params, options);
  variants::perturb(params);
  const Tensor x = variants::ids(5, 2, 6, 1);
  // Both heads of layer 1 silenced: as if its W_O were 0.
  th::StackRun run;
  std::vector<std::int64_t> asked;
  run.patch = [&](std::int64_t layer) {
    asked.push_back(layer);
    th::LayerPatch patch;
    if (layer == 1) patch.own.heads = [](const Tensor& h) { return th::without_heads(h, {0, 1}); };
    return patch;
  };
  const Tensor y = model.run(x, run).output;
  CHECK(asked == std::vector<std::int64_t>{0, 1});
  CHECK_FALSE(th::compare(y, model(x), {1e-3, 1e-3}).equal);
  const th::Param weight = params.at("stack.layers.1.attention.output.weight");
  weight.set(th::zeros(weight.shape(), DType::f64));
  check_close(y, model(x), {1e-12, 1e-13});
}

TEST_CASE("models take positions that belong to the attention") {
  for (const th::Positions positions :
       {th::Positions::rope, th::Positions::alibi, th::Positions::t5, th::Positions::relative}) {
    th::Params a(1), b(2), c(3);
    th::LanguageModelOptions language{.symbols = 5, .positions = positions};
    language.stack = {.width = 8, .heads = 2, .hidden = 12};
    const th::LanguageModel one(a, language);
    CHECK_FALSE(one.input.positions.defined());
    CHECK(one.stack.layers[0].attention.variant.positions == positions);
    CHECK_FALSE(one.stack.layers[0].attention.variant.t5_both_ways);
    // Longer than any table, and order matters: two equal tokens are told apart by their place.
    const Tensor y =
        one(test::ids({1, 2, 1, 1, 2, 3, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1}, {1, 18}));
    CHECK(y.dim(1) == 18);
    th::EncoderModelOptions encoding{.positions = positions};
    encoding.encoder = {.width = 8, .heads = 2, .hidden = 12};
    const th::EncoderModel two(b, encoding);
    variants::perturb(b);
    const Tensor forth = two(test::ids({1, 2, 3}, {1, 3})),
                 back = two(test::ids({1, 3, 2}, {1, 3}));
    CHECK_FALSE(
        th::compare(test::rows(forth, 0, 0, 1), test::rows(back, 0, 0, 1), {1e-3, 1e-4}).equal);
    th::EncoderDecoderOptions pair{.positions = positions};
    pair.stack = {.width = 8, .heads = 2, .hidden = 12};
    const th::EncoderDecoder three(c, pair);
    CHECK(three.decoder.layers[0].attention.variant.positions == positions);
    CHECK(three.decoder.layers[0].cross->variant.positions == th::Positions::none);
    CHECK(three.encoder.layers[0].attention.variant.positions == positions);
  }
}

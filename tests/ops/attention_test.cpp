// What users of other libraries ran into, by hand-made numbers.
#include "ops/attention_support.hpp"

#include <atomic>
#include <limits>
#include <stdexcept>
#include <thread>

#include <tapehead/system.hpp>

using namespace attention_test;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// One sample, one head: rows of numbers as [1, 1, rows, width].
Tensor one_head(const NestedList& rows, DType dtype = DType::f64) {
  const Tensor x = tensor(rows, dtype);
  return reshape(x, {1, 1, x.dim(0), x.dim(1)});
}

Tensor column(const std::vector<double>& values, DType dtype = DType::f64) {
  const Tensor x = tensor(std::span<const double>(values),
                          Shape{1, 1, static_cast<std::int64_t>(values.size()), 1});
  return cast(x, dtype);
}

Tensor blocked(const std::vector<bool>& values, const Shape& shape) {
  return tensor(values, shape);
}

// Uniform scores, so that the output is the mean of the visible values.
std::vector<double> means(const Mask& mask, std::int64_t queries,
                          const std::vector<double>& values) {
  const Tensor v = column(values);
  return numbers(
      attention(zeros({1, 1, queries, 1}, DType::f64), zeros(v.shape(), DType::f64), v, mask));
}

// x with row `row` of [.., rows, width] filled with `value`, in every head.
Tensor with_row(const Tensor& x, std::int64_t row, double value) {
  std::vector<double> values = numbers(x);
  const std::int64_t rows = x.dim(2);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (i / x.dim(3) % rows == row) values[static_cast<std::size_t>(i)] = value;
  }
  return cast(tensor(std::span<const double>(values), x.shape()), x.dtype());
}

std::vector<double> row_of(const Tensor& x, std::int64_t row) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (i / x.dim(3) % x.dim(2) == row) values.push_back(x.at_flat(i));
  }
  return values;
}

bool all_nan(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

}  // namespace

TEST_CASE("A query that sees nothing gives 0 and passes nothing back") {
  const BothKernels kernel;
  for (const DType dtype : {DType::f32, DType::f64}) {
    Inputs in;
    in.q = one_head({{1, 0}, {0, 1}}, dtype);
    in.k = in.q;
    in.v = one_head({{1, 2}, {3, 4}}, dtype);
    in.dy = one_head({{0.5, -2}, {7, 9}}, dtype);
    const Mask mask = Mask::block(blocked({false, true}, {2, 1}), "query key");
    const Outputs found = run(in, mask);
    // softmax([1/sqrt 2, 0]) by hand.
    CHECK(found.weights.at({0, 0, 0, 0}) == Approx(0.669762).epsilon(1e-5));
    CHECK(found.weights.at({0, 0, 0, 1}) == Approx(0.330238).epsilon(1e-5));
    CHECK(found.output.at({0, 0, 0, 0}) == Approx(1.660477).epsilon(1e-5));
    CHECK(found.output.at({0, 0, 0, 1}) == Approx(2.660477).epsilon(1e-5));
    CHECK(row_of(found.weights, 1) == std::vector<double>{0, 0});
    CHECK(row_of(found.output, 1) == std::vector<double>{0, 0});
    CHECK(row_of(found.dq, 1) == std::vector<double>{0, 0});
    CHECK(all_finite(found));
    // The blind query's own numbers and cotangent make no difference at all, even if they are NaN.
    Inputs other = in;
    other.q = with_row(in.q, 1, kNaN);
    other.dy = with_row(in.dy, 1, kNaN);
    check_same_bits(run(other, mask), found);
  }
}

TEST_CASE("keep and block mean what their names say") {
  const BothKernels kernel;
  const Tensor lower = blocked({true, false, false, true, true, false, true, true, true}, {3, 3});
  CHECK(means(Mask::keep(lower, "query key"), 3, {1, 2, 3}) == std::vector<double>{1, 1.5, 2});
  CHECK(means(Mask::block(lower, "query key"), 3, {1, 2, 3}) == std::vector<double>{2.5, 3, 0});
  CHECK(means(Mask::causal(3), 3, {1, 2, 3}) == std::vector<double>{1, 1.5, 2});
  // Padding flags: a numeric mask added to the scores would give weights 0.27 and 0.73.
  CHECK(means(Mask::block(blocked({false, true}, {2}), "key"), 1, {1, 2}) ==
        std::vector<double>{1});
}

TEST_CASE("Causal with fewer queries than keys, both ways") {
  const BothKernels kernel;
  const std::vector<double> v{1, 2, 3, 4};
  CHECK(means(Mask::causal(1, 4, Align::first), 1, v) == std::vector<double>{1});
  CHECK(means(Mask::causal(1, 4, Align::last), 1, v) == std::vector<double>{2.5});
  CHECK(means(Mask::causal(2, 4, Align::first), 2, v) == std::vector<double>{1, 1.5});
  CHECK(means(Mask::causal(2, 4, Align::last), 2, v) == std::vector<double>{2, 2.5});
  CHECK_THROWS_AS(means(Mask::causal(2), 2, v), ShapeError);
}

TEST_CASE("One query at a time equals the last rows of the whole") {
  const BothKernels kernel;
  const Inputs in = random_inputs({1, 2, 9, 9, 4, 4}, DType::f64, 3, false);
  const Tensor whole = attention(in.q, in.k, in.v, Mask::causal(9));
  for (std::int64_t t = 0; t < 9; ++t) {
    const Tensor step = attention(slice(in.q, 2, t, t + 1), slice(in.k, 2, 0, t + 1),
                                  slice(in.v, 2, 0, t + 1), Mask::causal(1, t + 1, Align::last));
    CHECK(compare(step, slice(whole, 2, t, t + 1), {1e-12, 1e-12}).message == "");
  }
}

TEST_CASE("Attention refuses sizes that do not fit, naming them") {
  const BothKernels kernel;
  const auto t = [](std::int64_t b, std::int64_t h, std::int64_t rows, std::int64_t width) {
    return zeros({b, h, rows, width});
  };
  CHECK_THROWS_WITH(attention(t(1, 1, 3, 4), t(1, 1, 5, 4), t(1, 1, 6, 4)),
                    ContainsSubstring("keys differs from the number of values") &&
                        ContainsSubstring("keys 5") && ContainsSubstring("keys 6") &&
                        ContainsSubstring("5 is not 6"));
  CHECK_THROWS_AS(attention(t(1, 1, 3, 4), t(1, 1, 5, 4), t(1, 1, 6, 4)), ShapeError);
  CHECK_THROWS_WITH(attention(t(2, 1, 3, 4), t(1, 1, 5, 4), t(1, 1, 5, 4)),
                    ContainsSubstring("batches differ") && ContainsSubstring("2 is not 1"));
  CHECK_THROWS_WITH(attention(t(1, 1, 3, 4), t(1, 1, 5, 4), t(2, 1, 5, 4)),
                    ContainsSubstring("batches differ") && ContainsSubstring("1 is not 2"));
  CHECK_THROWS_WITH(attention(t(1, 2, 3, 4), t(1, 4, 5, 4), t(1, 4, 5, 4)),
                    ContainsSubstring("heads differ") && ContainsSubstring("2 is not 4"));
  CHECK_THROWS_WITH(attention(t(1, 2, 3, 4), t(1, 2, 5, 8), t(1, 2, 5, 4)),
                    ContainsSubstring("width") && ContainsSubstring("4 is not 8"));
  CHECK_THROWS_WITH(attention(zeros({3, 4}), t(1, 2, 5, 4), t(1, 2, 5, 4)),
                    ContainsSubstring("q must be [batch, heads, queries, width], got [3, 4]"));
  CHECK_THROWS_WITH(
      attention(t(1, 1, 3, 4), t(1, 1, 5, 4), t(1, 1, 5, 4), Mask::lengths({4, 5}, 5)),
      ContainsSubstring("attention: mask lengths({4, 5}, 5)") &&
          ContainsSubstring("batch 2 is not 1"));
  CHECK_THROWS_AS(attention(t(1, 1, 3, 4), cast(t(1, 1, 5, 4), DType::f64), t(1, 1, 5, 4)),
                  DTypeError);
  CHECK_THROWS_AS(attention(Tensor(), t(1, 1, 5, 4), t(1, 1, 5, 4)), ValueError);
  AttentionOptions options;
  options.scale = kInf;
  CHECK_THROWS_WITH(attention(t(1, 1, 3, 4), t(1, 1, 5, 4), t(1, 1, 5, 4), {}, options),
                    ContainsSubstring("scale must be finite, got inf"));
  options = {};
  for (const double p : {-0.1, 1.1, kNaN}) {
    options.dropout = p;
    CHECK_THROWS_AS(attention(t(1, 1, 3, 4), t(1, 1, 5, 4), t(1, 1, 5, 4), {}, options),
                    ValueError);
  }
}

TEST_CASE("A refused call draws nothing, and a user's exception passes through") {
  const BothKernels kernel;
  Rng rng(1, Stream::dropout);
  AttentionOptions options;
  options.dropout = 0.5;
  options.rng = &rng;
  const Tensor x = ones({1, 1, 3, 2});
  CHECK_THROWS_AS(attention(x, x, x, Mask::causal(4), options), ShapeError);
  const Mask thrower = Mask::rule([](std::int64_t, std::int64_t, std::int64_t,
                                     std::int64_t) -> bool { throw std::runtime_error("mine"); });
  CHECK_THROWS_WITH(attention(x, x, x, thrower, options), ContainsSubstring("mine"));
  CHECK(rng.counter() == 0);
}

TEST_CASE("A user's rule is called once for each pair, on the calling thread") {
  const BothKernels kernel;
  const UseThreads guard(2);
  std::atomic<int> calls = 0;
  std::atomic<int> elsewhere = 0;
  const Mask counted = Mask::rule([&, here = std::this_thread::get_id()](
                                      std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) {
    ++calls;
    if (std::this_thread::get_id() != here) ++elsewhere;
    return k <= q;
  });
  const Inputs in = random_inputs({4, 4, 64, 64, 16, 16}, DType::f32, 2, true);
  check_same_bits(run(in, counted), run(in, Mask::causal(64)));
  CHECK(calls == 4 * 4 * 64 * 64);
  CHECK(elsewhere == 0);
}

TEST_CASE("Returned weights are those before dropout") {
  const BothKernels kernel;
  const Inputs in = random_inputs({2, 2, 5, 7, 3, 3}, DType::f32, 9, false);
  Rng rng(1, Stream::dropout);
  AttentionOptions options;
  options.dropout = 0.6;
  options.rng = &rng;
  const Mask mask = Mask::lengths({7, 0}, 7);
  const Outputs dropped = run(in, mask, options);
  const Outputs plain = run(in, mask);
  CHECK(same_bits(dropped.weights, plain.weights));
  CHECK_FALSE(same_bits(dropped.output, plain.output));
  for (std::int64_t row = 0; row < 2 * 2 * 5; ++row) {
    double total = 0;
    for (std::int64_t s = 0; s < 7; ++s) total += dropped.weights.at_flat(row * 7 + s);
    CHECK(total == (row < 10 ? Approx(1).margin(1e-6) : Approx(0).margin(0)));
  }
}

TEST_CASE("Without a probability or without a stream there is no dropout and no draw") {
  const BothKernels kernel;
  const Inputs in = random_inputs({1, 2, 5, 7, 3, 3}, DType::f32, 9, false);
  const Outputs plain = run(in, Mask());
  AttentionOptions options;
  options.dropout = 0.8;
  check_same_bits(run(in, Mask(), options), plain);
  check_same_bits(run(in, Mask(), options), plain);
  Rng rng(1, Stream::dropout);
  options.rng = &rng;
  options.dropout = 0;
  check_same_bits(run(in, Mask(), options), plain);
  CHECK(rng.counter() == 0);
  options.dropout = 1;
  const Outputs gone = run(in, Mask(), options);
  CHECK(all_zero(gone.output));
  CHECK(all_zero(gone.dq));
  CHECK(all_zero(gone.dk));
  CHECK(all_zero(gone.dv));
  CHECK(rng.counter() == 2 * 5 * 7);
}

TEST_CASE("Asking for the weights changes no bit of the output or of a gradient") {
  const BothKernels kernel;
  const auto one_head_blind =
      Mask::rule([](std::int64_t, std::int64_t h, std::int64_t, std::int64_t) { return h != 1; });
  const Inputs some = random_inputs({2, 3, 9, 9, 5, 5}, DType::f32, 1, false);
  const Inputs large = random_inputs({1, 1, 600, 600, 8, 8}, DType::f32, 2, false);
  for (const auto& [in, mask] : {std::pair{some, one_head_blind}, {large, Mask::window(10, 0)}}) {
    const Outputs with = run(in, mask, {}, true);
    const Outputs without = run(in, mask, {}, false);
    check_same_bits(with, without);
    CHECK(all_finite(with));
  }
}

TEST_CASE("What stands at a blocked position reaches nothing") {
  const BothKernels kernel;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double poison : {kNaN, kInf, -kInf, 1e38}) {
      INFO(name_of(dtype) << " " << poison);
      // Key 1 is blocked for both queries.
      Inputs in = random_inputs({1, 2, 2, 2, 3, 3}, dtype, 5, true);
      const Mask mask = Mask::block(blocked({false, true}, {2}), "key");
      in.k = with_row(in.k, 1, 0);
      in.v = with_row(in.v, 1, 0);
      const Outputs clean = run(in, mask);
      CHECK(row_of(clean.dk, 1) == std::vector<double>(6, 0.0));
      CHECK(row_of(clean.dv, 1) == std::vector<double>(6, 0.0));
      Inputs other = in;
      other.v = with_row(in.v, 1, poison);
      check_same_bits(run(other, mask), clean);
      other.k = with_row(in.k, 1, poison);
      check_same_bits(run(other, mask), clean);
      // With a large cotangent, dy v^T overflows at the blocked key.
      other.dy = in.dy * 1e30;
      CHECK(all_finite(run(other, mask)));
    }
  }
}

TEST_CASE("A bad key or value harms exactly the queries that see it") {
  const BothKernels kernel;
  // Query t of 70 sees keys 0..t, key 66 is bad: queries 66..69 see it.
  const Mask mask = Mask::causal(70);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Inputs in = random_inputs({1, 2, 70, 70, 4, 4}, dtype, 6, false);
    Inputs zeroed = in;
    zeroed.v = with_row(in.v, 66, 0);
    Inputs bad = in;
    bad.v = with_row(in.v, 66, kNaN);
    const Outputs clean = run(zeroed, mask);
    const Outputs found = run(bad, mask);
    for (std::int64_t t = 0; t < 70; ++t) {
      if (t < 66) {
        CHECK(row_of(found.output, t) == row_of(clean.output, t));
        CHECK(row_of(found.dq, t) == row_of(clean.dq, t));
      } else {
        CHECK(all_nan(row_of(found.output, t)));
        CHECK(all_nan(row_of(found.dq, t)));
      }
    }
    // Gradients of keys and values that only the bad queries see too: dv needs no v.
    CHECK(same_bits(found.dv, clean.dv));
    CHECK(all_nan(row_of(found.dk, 0)));
    CHECK_FALSE(all_finite(slice(found.dk, 2, 67, 70)));

    // A bad key poisons the weights of those who see it, so their share of every gradient as well.
    bad = in;
    bad.k = with_row(in.k, 66, kNaN);
    zeroed = in;
    zeroed.k = with_row(in.k, 66, 0);
    const Outputs bad_key = run(bad, mask);
    const Outputs clean_key = run(zeroed, mask);
    // In the row of NaN weights, those of blocked keys are 0 all the same.
    CHECK(bad_key.weights.at({0, 0, 66, 67}) == 0);
    CHECK(bad_key.weights.at({0, 1, 66, 69}) == 0);
    CHECK(std::isnan(bad_key.weights.at({0, 0, 66, 0})));
    for (std::int64_t t = 0; t < 70; ++t) {
      if (t < 66) {
        CHECK(row_of(bad_key.output, t) == row_of(clean_key.output, t));
        CHECK(row_of(bad_key.dq, t) == row_of(clean_key.dq, t));
      } else {
        CHECK(all_nan(row_of(bad_key.output, t)));
        CHECK(all_nan(row_of(bad_key.dq, t)));
      }
    }
  }
}

TEST_CASE("A bad cotangent or query reaches the keys that its query sees, and no others") {
  const BothKernels kernel;
  // Query 3 of 5 sees keys 0..3.
  const Inputs in = random_inputs({1, 1, 5, 5, 4, 4}, DType::f64, 6, false);
  Inputs bad = in;
  bad.dy = with_row(in.dy, 3, kNaN);
  Outputs found = run(bad, Mask::causal(5));
  for (std::int64_t s = 0; s < 5; ++s) {
    CHECK(all_nan(row_of(found.dv, s)) == (s <= 3));
    CHECK(all_nan(row_of(found.dk, s)) == (s <= 3));
    CHECK(all_nan(row_of(found.dq, s)) == (s == 3));
  }
  bad = in;
  bad.q = with_row(in.q, 3, kNaN);
  found = run(bad, Mask::causal(5));
  for (std::int64_t s = 0; s < 5; ++s) {
    CHECK(all_nan(row_of(found.output, s)) == (s == 3));
    CHECK(all_nan(row_of(found.dv, s)) == (s <= 3));
    CHECK(all_nan(row_of(found.dk, s)) == (s <= 3));
    CHECK(all_nan(row_of(found.dq, s)) == (s == 3));
  }
}

TEST_CASE("An infinite value gives infinity to those who see it, not NaN to the others") {
  const BothKernels kernel;
  Inputs in;
  in.q = zeros({1, 1, 2, 1}, DType::f64);
  in.k = zeros({1, 1, 2, 1}, DType::f64);
  in.v = one_head({{1, 2}, {kInf, 4}});
  in.dy = ones({1, 1, 2, 2}, DType::f64);
  const Outputs found = run(in, Mask::causal(2));
  CHECK(row_of(found.output, 0) == std::vector<double>{1, 2});
  CHECK(row_of(found.output, 1) == std::vector<double>{kInf, 3});
}

TEST_CASE("Huge scores stay finite") {
  const BothKernels kernel;
  Inputs in;
  in.q = one_head({{1e15}, {-1e15}}, DType::f32);
  in.k = one_head({{1e15}, {-1e15}, {2e14}}, DType::f32);
  in.v = one_head({{1}, {2}, {3}}, DType::f32);
  in.dy = one_head({{1}, {1}}, DType::f32);
  const Outputs found = run(in, Mask());
  CHECK(numbers(found.weights) == std::vector<double>{1, 0, 0, 0, 1, 0});
  CHECK(numbers(found.output) == std::vector<double>{1, 2});
  CHECK(all_finite(found));
}

TEST_CASE("The output has the queries' shape, and padding only changes padded keys") {
  const BothKernels kernel;
  const Inputs in = random_inputs({6, 1, 200, 200, 4, 4}, DType::f32, 2, false);
  Rng rng(1, Stream::dropout);
  AttentionOptions training;
  training.rng = &rng;  // with p = 0
  const Mask mask = Mask::lengths({200, 1, 1, 1, 1, 1}, 200);
  const Outputs a = run(in, mask, training);
  check_same_bits(a, run(in, mask));
  CHECK(a.output.shape() == in.q.shape());
  // One visible key: its value for every query.
  for (std::int64_t t = 0; t < 200; ++t) CHECK(a.output.at({1, 0, t, 3}) == in.v.at({1, 0, 0, 3}));
}

TEST_CASE("Samples do not look at one another: permuting a batch permutes the result") {
  const BothKernels kernel;
  const std::int64_t n = 5;  // as many samples as positions, so that swapped axes would fit
  const Inputs in = random_inputs({5, 2, 5, 5, 4, 4}, DType::f32, 2, false);
  const std::vector<std::int64_t> order{3, 0, 4, 2, 1};
  const auto permuted = [&](const Tensor& x) {
    std::vector<Tensor> parts;
    for (std::int64_t i : order) parts.push_back(slice(x, 0, i, i + 1));
    return concat(parts, 0);
  };
  const Inputs moved{permuted(in.q), permuted(in.k), permuted(in.v), permuted(in.dy), Tensor()};
  const Outputs a = run(in, Mask::causal(n));
  const Outputs b = run(moved, Mask::causal(n));
  check_same_bits(
      {permuted(a.output), permuted(a.weights), permuted(a.dq), permuted(a.dk), permuted(a.dv)}, b);
  // Alone or in a batch: the same within rounding.
  const Inputs alone{slice(in.q, 0, 2, 3), slice(in.k, 0, 2, 3), slice(in.v, 0, 2, 3),
                     slice(in.dy, 0, 2, 3), Tensor()};
  CHECK(
      compare(run(alone, Mask::causal(n)).output, slice(a.output, 0, 2, 3), {1e-6, 1e-6}).message ==
      "");
}

TEST_CASE("Empty sizes give empty or zero results and gradients") {
  const BothKernels kernel;
  const std::vector<oracle::AttentionSizes> sizes{
      {0, 2, 3, 4, 5, 5}, {2, 0, 3, 4, 5, 5}, {2, 2, 0, 3, 5, 5}, {2, 2, 3, 0, 5, 5},
      {2, 2, 3, 4, 0, 5}, {2, 2, 3, 4, 5, 0}, {0, 0, 0, 0, 0, 0},
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const oracle::AttentionSizes& n : sizes) {
      INFO(n.batch << n.heads << n.queries << n.keys << n.width << n.value_width);
      const Inputs in = random_inputs(n, dtype, 1, true);
      const auto none = Mask::causal(in.q.dim(2), in.k.dim(2), Align::last);
      for (const Mask& mask : {Mask(), none}) {
        const Outputs found = run(in, mask);
        CHECK(found.output.shape() == in.dy.shape());
        CHECK(found.weights.shape() == in.dp.shape());
        CHECK(found.dq.shape() == in.q.shape());
        CHECK(found.dk.shape() == in.k.shape());
        CHECK(found.dv.shape() == in.v.shape());
        check_close(found, oracle_of(in, mask, n.width == 0 ? 1 : 1 / std::sqrt(double(n.width))),
                    5e-6);
      }
    }
  }
  // Nothing to see: the empty sum.
  const Outputs found = run(random_inputs({2, 2, 3, 0, 5, 5}, DType::f32, 1, false), Mask());
  CHECK(all_zero(found.output));
  CHECK(all_zero(found.dq));
}

TEST_CASE("Outside a tape nothing is recorded") {
  const BothKernels kernel;
  const Inputs in = random_inputs({1, 1, 2, 2, 2, 2}, DType::f32, 1, false);
  const Attention a = attention_with_weights(in.q, in.k, in.v);
  CHECK(a.output.tape_id() == 0);
  CHECK(a.weights.tape_id() == 0);
  Tape tape;
  CHECK(attention(in.q, in.k, in.v).tape_id() == 0);
}

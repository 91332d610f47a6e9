// What must hold whatever the sizes, the mask and the variant: random cases, of which a failing one
// is named by its seed.
#include "ops/attention_problem.hpp"

#include <limits>

#include <tapehead/system.hpp>

using namespace attention_test;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// The cases of one property: each from a seed of its own, which is printed when a check fails.
template <class F>
void for_random_cases(std::uint64_t property, int count, F check) {
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = property * 1000 + static_cast<std::uint64_t>(i);
    INFO("seed " << seed);
    Rng rng(seed, Stream::check);
    const BothKernels::Force force(rng.below(2) == 0 ? BothKernels::Force::direct
                                                     : BothKernels::Force::streaming);
    check(rng);
  }
}

std::int64_t between(Rng& rng, std::int64_t low, std::int64_t high) {
  return low + rng.below(high - low + 1);
}

// Mostly short, now and then past a block or tile.
std::int64_t length(Rng& rng) {
  return rng.below(8) == 0 ? between(rng, 90, 140) : between(rng, 1, 20);
}

Tensor random_table(Rng& rng, const Shape& shape) {
  const double share = rng.uniform();
  std::vector<bool> bits(static_cast<std::size_t>(shape.size()));
  for (auto&& bit : bits) bit = rng.bernoulli(share);
  return tensor(bits, shape);
}

Mask random_mask(Rng& rng, std::int64_t batch, std::int64_t heads, std::int64_t queries,
                 std::int64_t keys) {
  switch (rng.below(9)) {
    case 0: return {};
    case 1: return Mask::causal(queries, keys, Align::last);
    case 2: return Mask::causal(queries, keys, Align::first);
    case 3: {
      std::vector<std::int64_t> lengths;
      for (std::int64_t b = 0; b < batch; ++b) lengths.push_back(rng.below(keys + 1));
      return Mask::lengths(lengths, keys);
    }
    case 4: return Mask::window(rng.below(5), rng.below(5), queries, keys, Align::last);
    case 5:
      return Mask::keep(random_table(rng, {batch, heads, queries, keys}), "batch head query key");
    case 6: return Mask::block(random_table(rng, {heads, keys}), "head key");
    case 7: {
      const std::int64_t by = between(rng, 2, 4);
      return Mask::rule([by](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
        return (b + h * k + q) % by == 0;
      });
    }
    default: break;
  }
  const Mask a = random_mask(rng, batch, heads, queries, keys);
  const Mask b = random_mask(rng, batch, heads, queries, keys);
  return rng.below(2) == 0 ? a & b : a | !b;
}

struct Limits {
  bool weights = false;  // whether the weights' gradient may be used
  bool dropout = false;
};

Problem random_problem(Rng& rng, DType dtype, const Limits& limits = {}) {
  const std::int64_t batch = between(rng, 1, 3);
  Problem p;
  p.group = between(rng, 1, 3);
  const std::int64_t key_heads = between(rng, 1, 2), heads = key_heads * p.group;
  const std::int64_t queries = length(rng), keys = length(rng);
  const std::int64_t width = between(rng, 1, 9), value_width = between(rng, 1, 9);
  p.in.q = randn({batch, heads, queries, width}, rng, dtype);
  p.in.k = randn({batch, key_heads, keys, width}, rng, dtype);
  p.in.v = randn({batch, key_heads, keys, value_width}, rng, dtype);
  p.in.dy = randn({batch, heads, queries, value_width}, rng, dtype);
  if (limits.weights && rng.below(2) == 0)
    p.in.dp = randn({batch, heads, queries, keys}, rng, dtype);
  p.mask = random_mask(rng, batch, heads, queries, keys);
  if (rng.below(3) == 0) p.cap = rng.uniform(0.5, 3);
  if (rng.below(3) == 0) {
    p.bias = randn({rng.below(2) == 0 ? 1 : batch, rng.below(2) == 0 ? 1 : heads, queries, keys},
                   rng, dtype);
  }
  if (rng.below(3) == 0)
    p.relative = randn({rng.below(2) == 0 ? 1 : heads, queries + keys - 1}, rng, dtype);
  if (rng.below(3) == 0) p.sinks = randn({heads}, rng, dtype);
  if (limits.dropout && rng.below(4) == 0) p.dropout = 0.3;
  return p;
}

DType random_dtype(Rng& rng) { return rng.below(2) == 0 ? DType::f32 : DType::f64; }

Mask table_mask(const Tensor& table) { return Mask::keep(table, "batch head query key"); }
Tensor table_of(const Problem& p) {
  return p.mask.dense(p.in.q.dim(0), p.in.q.dim(1), p.in.q.dim(2), p.in.k.dim(2));
}

// x with its slices along an axis in another order.
Tensor reordered(const Tensor& x, int axis, const std::vector<std::int64_t>& order) {
  if (!x.defined() || x.dim(axis) == 1) return x;
  std::vector<Tensor> parts;
  for (const std::int64_t i : order) {
    Tensor part = x.dtype() == DType::boolean ? cast(x, DType::f32) : x;
    parts.push_back(slice(part, axis, i, i + 1));
  }
  const Tensor y = concat(parts, axis);
  return x.dtype() == DType::boolean ? greater(y, 0.5) : y;
}

std::vector<std::int64_t> random_order(Rng& rng, std::int64_t n) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < n; ++i) order.push_back(i);
  for (std::int64_t i = n - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(rng.below(i + 1))]);
  return order;
}

// Within `tolerance` of the largest element.
void check_equal(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.defined() || b.defined()) check_close("moved", a, numbers(b), tolerance, 1);
}
void check_equal(const Solution& a, const Solution& b, double tolerance) {
  check_equal(a.main.output, b.main.output, tolerance);
  check_equal(a.main.weights, b.main.weights, tolerance);
  check_equal(a.main.dq, b.main.dq, tolerance);
  check_equal(a.main.dk, b.main.dk, tolerance);
  check_equal(a.main.dv, b.main.dv, tolerance);
}

double tolerance_of(DType dtype) { return dtype == DType::f32 ? 5e-6 : 1e-12; }

}  // namespace

TEST_CASE("random attention equals the textbook") {
  for_random_cases(1, 150, [](Rng& rng) {
    const DType dtype = random_dtype(rng);
    const Problem p = random_problem(rng, dtype, {.weights = true, .dropout = true});
    INFO(p.mask.name());
    // All inputs are of size 1; where a query sees one key only, gradients of scores are 0.
    check_close(solve(p), truth_of(p), tolerance_of(dtype), 1);
  });
}

TEST_CASE("a random sample alone equals the same sample in its batch") {
  for_random_cases(2, 80, [](Rng& rng) {
    const Problem p = random_problem(rng, DType::f32);
    INFO(p.mask.name());
    const Solution whole = solve(p);
    const std::int64_t b = rng.below(p.in.q.dim(0));
    const auto alone = [b](const Tensor& x) {
      if (!x.defined() || x.dim(0) == 1) return x;
      return slice(x, 0, b, b + 1);
    };
    Problem one = p;
    one.in = {alone(p.in.q), alone(p.in.k), alone(p.in.v), alone(p.in.dy), Tensor()};
    one.bias = alone(p.bias);
    const Tensor table = cast(table_of(p), DType::f32);
    one.mask = table_mask(greater(alone(table), 0.5));
    const Solution single = solve(one);
    check_equal(single,
                {{alone(whole.main.output), alone(whole.main.weights), alone(whole.main.dq),
                  alone(whole.main.dk), alone(whole.main.dv)},
                 {},
                 {},
                 {}},
                1e-6);
  });
}

TEST_CASE("permuting samples, heads or keys permutes the result") {
  for_random_cases(3, 120, [](Rng& rng) {
    Problem p = random_problem(rng, DType::f32);
    const int axis = static_cast<int>(rng.below(3));  // samples, heads, keys
    if (axis == 1) {  // heads that share keys move together: each with keys of its own is enough
      p.in.q = slice(p.in.q, 1, 0, p.in.k.dim(1));
      p.in.dy = slice(p.in.dy, 1, 0, p.in.k.dim(1));
      p.group = 1;
      p.bias = p.relative = p.sinks = Tensor();
      p.mask = random_mask(rng, p.in.q.dim(0), p.in.q.dim(1), p.in.q.dim(2), p.in.k.dim(2));
    }
    if (axis == 2) p.relative = Tensor();  // keys that move change their distances
    p.mask = table_mask(table_of(p));
    INFO("axis " << axis);
    const std::int64_t n = axis == 2 ? p.in.k.dim(2) : p.in.q.dim(axis);
    const std::vector<std::int64_t> order = random_order(rng, n);
    const Tensor table = table_of(p);
    Problem moved = p;
    if (axis < 2) {
      moved.in.q = reordered(p.in.q, axis, order);
      moved.in.dy = reordered(p.in.dy, axis, order);
    }
    moved.in.k = reordered(p.in.k, axis, order);
    moved.in.v = reordered(p.in.v, axis, order);
    moved.bias = reordered(p.bias, axis == 2 ? 3 : axis, order);
    moved.mask = table_mask(reordered(table, axis == 2 ? 3 : axis, order));
    const Solution a = solve(p), b = solve(moved);
    const auto there = [&](const Tensor& x) { return axis < 2 ? reordered(x, axis, order) : x; };
    check_equal(
        b,
        {{there(a.main.output), reordered(a.main.weights, axis == 2 ? 3 : axis, order),
          there(a.main.dq), reordered(a.main.dk, axis, order), reordered(a.main.dv, axis, order)},
         {},
         {},
         {}},
        2e-6);
  });
}

TEST_CASE("what stands at a random blocked key changes no bit, and its gradients are exactly 0") {
  for_random_cases(4, 120, [](Rng& rng) {
    const DType dtype = random_dtype(rng);
    Problem p = random_problem(rng, dtype, {.weights = true, .dropout = true});
    const std::int64_t key = rng.below(p.in.k.dim(2));
    std::vector<bool> hidden(static_cast<std::size_t>(p.in.k.dim(2)), false);
    hidden[static_cast<std::size_t>(key)] = true;
    p.mask = p.mask & Mask::block(tensor(hidden, {p.in.k.dim(2)}), "key");
    INFO(p.mask.name() << ", key " << key);
    const Solution clean = solve(p);
    const auto row = [&](const Tensor& x) { return slice(x, 2, key, key + 1); };
    CHECK(all_zero(row(clean.main.dk)));
    CHECK(all_zero(row(clean.main.dv)));
    CHECK(all_zero(slice(clean.main.weights, 3, key, key + 1)));
    const double poisons[] = {kNaN, kInf, -kInf, 1e38, -7};
    const double poison = poisons[rng.below(5)];
    INFO("poison " << poison);
    const auto with_poison = [&](const Tensor& x) {
      const Tensor bad = full(row(x).shape(), poison, dtype);
      return concat({slice(x, 2, 0, key), bad, slice(x, 2, key + 1, x.dim(2))}, 2);
    };
    Problem bad = p;
    if (rng.below(3) > 0) bad.in.k = with_poison(p.in.k);
    if (rng.below(3) > 0) bad.in.v = with_poison(p.in.v);
    check_same_bits(solve(bad), clean);
  });
}

TEST_CASE("random causal attention: what comes later changes no bit of what is before") {
  for_random_cases(5, 80, [](Rng& rng) {
    const DType dtype = random_dtype(rng);
    Problem p = random_problem(rng, dtype);
    const std::int64_t n = std::min(p.in.q.dim(2), p.in.k.dim(2));
    const auto cut = [n](const Tensor& x) { return slice(x, 2, 0, n); };
    p.in = {cut(p.in.q), cut(p.in.k), cut(p.in.v), cut(p.in.dy), Tensor()};
    p.mask = Mask::causal(n);
    if (p.bias.defined()) p.bias = slice(cut(p.bias), 3, 0, n);
    if (p.relative.defined()) p.relative = slice(p.relative, 1, 0, 2 * n - 1);
    const std::int64_t from = rng.below(n);
    INFO("changed from " << from << " of " << n);
    const auto changed = [&](const Tensor& x) {
      const Tensor rest = slice(x, 2, from, n);
      return concat({slice(x, 2, 0, from), rest * 3.0 + 1.0}, 2);
    };
    Problem other = p;
    other.in = {changed(p.in.q), changed(p.in.k), changed(p.in.v), p.in.dy, Tensor()};
    const Tensor a = solve(p).main.output, b = solve(other).main.output;
    CHECK(same_bits(slice(a, 2, 0, from), slice(b, 2, 0, from)));
    CHECK_FALSE(same_bits(a, b));
  });
}

TEST_CASE("rows of random weights sum to 1, or are exactly 0 where nothing is visible") {
  for_random_cases(6, 80, [](Rng& rng) {
    const DType dtype = random_dtype(rng);
    const Problem p = random_problem(rng, dtype, {.weights = false, .dropout = true});
    INFO(p.mask.name());
    const Tensor weights = solve(p).main.weights;
    const std::vector<double> w = numbers(weights), table = numbers(table_of(p));
    const auto keys = static_cast<std::size_t>(weights.dim(3));
    for (std::size_t row = 0; row < w.size() / keys; ++row) {
      double total = 0, visible = 0;
      for (std::size_t i = row * keys; i < (row + 1) * keys; ++i) {
        if (table[i] == 0) CHECK(w[i] == 0);
        total += w[i];
        visible += table[i];
      }
      if (visible == 0) {
        CHECK(total == 0);
      } else if (p.sinks.defined()) {
        CHECK(total < 1);
        CHECK(total > 0);
      } else {
        CHECK(total == Approx(1).margin(dtype == DType::f32 ? 1e-6 : 1e-14));
      }
    }
  });
}

TEST_CASE("huge random scores stay finite") {
  for_random_cases(7, 80, [](Rng& rng) {
    Problem p = random_problem(rng, DType::f32, {.weights = true, .dropout = true});
    // q . k is about 1e30, of either sign.
    p.in.q = p.in.q * 1e15;
    p.in.k = p.in.k * 1e15;
    if (p.sinks.defined() && rng.below(2) == 0) p.sinks = p.sinks * 1e30;
    if (p.bias.defined() && rng.below(2) == 0) p.bias = p.bias * 1e30;
    INFO(p.mask.name());
    const Solution s = solve(p);
    CHECK(all_finite(s));
    CHECK(all_finite(s.main.weights));
  });
}

TEST_CASE("asking for random weights and the number of threads change no bit") {
  for_random_cases(8, 60, [](Rng& rng) {
    const Problem p = random_problem(rng, DType::f32, {.weights = false, .dropout = true});
    INFO(p.mask.name());
    const UseThreads one(1);
    const Solution a = solve(p, false);
    const UseThreads three(3);
    check_same_bits(a, solve(p, true));
  });
}

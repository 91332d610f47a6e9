// The checker itself: each verdict, names, restored parameters, and that it sees what others miss.
#include <tapehead/gradcheck.hpp>

#include <cmath>
#include <limits>

#include <tapehead/ops.hpp>

#include "support/catch.hpp"

using namespace tapehead;

namespace {

using Tensors = std::vector<Tensor>;

Tensor f64(const NestedList& values) { return tensor(values, DType::f64); }

// y = f(x) element by element in plain C++, with a gradient of its own choosing.
template <class F, class G>
Tensor custom(const Tensor& x, F f, G gradient) {
  std::vector<double> y;
  for (const double v : x.data<double>()) y.push_back(f(v));
  return record("custom", tensor(std::span<const double>(y), x.shape())).input(x, gradient);
}

template <class F>
Tensor mapped(const Tensor& x, F f) {
  std::vector<double> y;
  for (const double v : x.data<double>()) y.push_back(f(v));
  return tensor(std::span<const double>(y), x.shape());
}

double step(double v) { return v > 0 ? 1 : 0; }

Tensor relu_like(const Tensor& x, double at_zero = 0) {
  return custom(
      x, [](double v) { return std::max(v, 0.0); },
      [x, at_zero](const Tensor& dy) {
        return dy * mapped(x, [at_zero](double v) { return v == 0 ? at_zero : step(v); });
      });
}

GradcheckReport check_one(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                          const GradcheckOptions& options = {}) {
  return gradcheck([&](const Tensors& in) { return Tensors{f(in[0])}; }, {x}, options);
}

}  // namespace

TEST_CASE("a right gradient passes, and the report counts what was compared", "[gradcheck]") {
  const GradcheckReport r =
      gradcheck([](const Tensors& in) { return Tensors{in[0] * in[1] / (in[1] * in[1] + 1.0)}; },
                {f64({{1, -2, 3}, {0.5, 0, 4}}), f64({{2, 1, -1}, {3, 0.25, 0}})});
  CHECK(r.status == GradcheckStatus::pass);
  CHECK(r.compared == 24);  // 12 elements, 2 cotangents
  REQUIRE(r.tensors.size() == 2);
  CHECK(r.tensors[0].name == "input0");
  CHECK(r.tensors[0].compared == 12);
  CHECK(r.worst_relative() < 1e-12);
  CHECK(r.coverage == std::vector<std::string>{"div", "mul", "shift"});
  CHECK(r.evaluations > 24);
  std::int64_t counted = 0;
  for (const std::int64_t n : r.histogram) counted += n;
  CHECK(counted == r.compared);
  // d/da of a*b/(b*b + 1) at a = 0, b = 0.25 is not 0, but d/db is; and d/da at b = 0 is 0.
  CHECK(r.tensors[0].zero_names == std::vector<std::string>{"input0[1,2]"});
  CHECK(r.tensors[1].zeros >= 2);
}

TEST_CASE("a wrong gradient is named with index, values, bar and step", "[gradcheck]") {
  const auto cube = [](const Tensor& x) {
    return custom(
        x, [](double v) { return v * v * v; },
        [x](const Tensor& dy) {
          std::vector<double> g;
          for (std::int64_t i = 0; i < x.size(); ++i)
            g.push_back(dy.at_flat(i) * 3 * x.at_flat(i) * x.at_flat(i) * (i == 4 ? 1 + 1e-6 : 1));
          return tensor(std::span<const double>(g), x.shape());
        });
  };
  const GradcheckReport r = check_one(cube, f64({{1, 2, -1}, {0.5, 3, 1.5}}));
  CHECK(r.status == GradcheckStatus::mismatch);
  REQUIRE(!r.worst.empty());
  const GradcheckElement& e = r.worst.front();
  CHECK(e.name == "input0[1,1]");
  CHECK(e.verdict == ElementVerdict::mismatch);
  CHECK(std::abs(e.tape / e.numeric - 1 - 1e-6) < 1e-11);
  CHECK(e.relative == Approx(1e-6).epsilon(1e-4));  // 27 c is the largest gradient of the tensor
  CHECK(e.ratio > 1e3);
  CHECK(e.step > 0);
  CHECK(r.tensors[0].mismatches == 2);
  CHECK_THAT(r.message, ContainsSubstring("input0[1,1]"));
  CHECK_THAT(to_string(r), ContainsSubstring("input0[1,1]"));
}

TEST_CASE("a fault that a plain sum cannot see is seen", "[gradcheck]") {
  // The outputs of a softmax sum to 1, so the gradient of their sum is 0 whatever backward does.
  const auto blind_softmax = [](const Tensor& x) {
    double total = 0;
    for (const double v : x.data<double>()) total += std::exp(v);
    return custom(
        x, [total](double v) { return std::exp(v) / total; },
        [x](const Tensor&) { return zeros(x.shape(), DType::f64); });
  };
  CHECK(check_one(blind_softmax, f64({0.1, 0.7, -0.4})).status == GradcheckStatus::mismatch);
  // A gradient function that ignores its cotangent agrees with differences of a plain sum.
  const auto ignores = [](const Tensor& x) {
    return custom(
        x, [](double v) { return 2 * v; },
        [x](const Tensor&) { return full(x.shape(), 2.0, DType::f64); });
  };
  CHECK(check_one(ignores, f64({0.1, 0.7})).status == GradcheckStatus::mismatch);
}

TEST_CASE("a gradient that is zero although the numbers depend on the input", "[gradcheck]") {
  const GradcheckReport r =
      check_one([](const Tensor& x) { return detach(x) * detach(x); }, f64({1, 2}));
  CHECK(r.status == GradcheckStatus::mismatch);
}

TEST_CASE("single precision is refused by name", "[gradcheck]") {
  const auto f = [](const Tensor& x) { return x * 2.0; };
  const GradcheckReport r = check_one(f, tensor({1, 2}));
  CHECK(r.status == GradcheckStatus::misused);
  CHECK_THAT(r.message, ContainsSubstring("input 0 is f32[2]"));
  CHECK_THAT(r.message, ContainsSubstring("cast(x, DType::f64)"));
  Params params(1);
  const Param w = Scope(params).param("w", {2}, init::constant(1));
  const GradcheckReport p =
      gradcheck([&](const Tensors&) { return Tensors{Tensor(w) * 2.0}; }, {}, params);
  CHECK(p.status == GradcheckStatus::misused);
  CHECK_THAT(p.message, ContainsSubstring("Params(seed, DType::f64)"));
  CHECK(p.compared == 0);
}

TEST_CASE("calls that cannot check anything are misuse", "[gradcheck]") {
  const auto f = [](const Tensors& in) { return in; };
  CHECK(gradcheck(f, {}).status == GradcheckStatus::misused);
  CHECK(gradcheck(f, {Tensor()}).status == GradcheckStatus::misused);
  CHECK(gradcheck(f, {arange(3)}).status == GradcheckStatus::misused);
  GradcheckOptions one;
  one.cotangents = 1;
  CHECK(gradcheck(f, {f64({1, 2})}, one).status == GradcheckStatus::misused);
  Tape tape;
  const GradcheckReport r = gradcheck(f, {f64({1, 2})});
  CHECK(r.status == GradcheckStatus::misused);
  CHECK_THAT(r.message, ContainsSubstring("a tape is alive"));
}

TEST_CASE("options without a meaning and empty functions are misuse", "[gradcheck]") {
  const auto status = [](const GradcheckOptions& options) {
    return check_one([](const Tensor& x) { return x * 2.0; }, f64({1, 2}), options).status;
  };
  GradcheckOptions o;
  CHECK(status(o) == GradcheckStatus::pass);
  for (const double bad : {-1e-9, std::nan("")}) {
    o = {};
    o.tolerance = bad;
    CHECK(status(o) == GradcheckStatus::misused);
    o = {};
    o.bars = bad;
    CHECK(status(o) == GradcheckStatus::misused);
  }
  o = {};
  o.directions = 0;
  CHECK(status(o) == GradcheckStatus::misused);
  o = {};
  o.stripe = 2;
  o.stripes = 2;
  CHECK(status(o) == GradcheckStatus::misused);
  o = {};
  o.worst = 0;  // the worst one is always there
  CHECK(check_one([](const Tensor& x) { return x * 2.0; }, f64({1, 2}), o).worst.size() == 1);

  const Tensor x = f64({1, 2});
  CHECK(gradcheck(TensorFunction(), {x}).status == GradcheckStatus::misused);
  CHECK(gradcheck(std::function<Tensor(const Tensor&)>(), x).status == GradcheckStatus::misused);
  CHECK(gradgradcheck(TensorFunction(), {x}).status == GradcheckStatus::misused);
  Params params(1, DType::f64);
  const Param w = Scope(params).param("w", {2}, init::constant(1));
  CHECK_THAT(gradcheck(TensorFunction(), {x}, params).message,
             ContainsSubstring("the function is empty"));
  CHECK_THROWS_WITH(gradcheck(
                        [](const Tensors& in) {
                          return Tensors{in[0], Tensor()};
                        },
                        {x}),
                    ContainsSubstring("output 1 of the function is no tensor"));
}

TEST_CASE("the verdicts are the exit statuses of the program", "[gradcheck]") {
  CHECK(static_cast<int>(GradcheckStatus::pass) == 0);
  CHECK(static_cast<int>(GradcheckStatus::mismatch) == 1);
  CHECK(static_cast<int>(GradcheckStatus::misused) == 2);
  CHECK(static_cast<int>(GradcheckStatus::kink) == 3);
  CHECK(static_cast<int>(GradcheckStatus::not_repeatable) == 4);
  CHECK(static_cast<int>(GradcheckStatus::nothing_checked) == 5);
  CHECK(static_cast<int>(GradcheckStatus::not_finite) == 6);
}

TEST_CASE("dropout whose stream moves on is not repeatable; a copy of the stream is",
          "[gradcheck]") {
  const Tensor x = f64({{1, 2, 3, 4}, {5, 6, 7, 8}, {1, 2, 3, 4}, {5, 6, 7, 8}});
  Rng rng(1, Stream::dropout);
  const GradcheckReport advancing =
      check_one([&](const Tensor& v) { return dropout(v, 0.5, rng); }, x);
  CHECK(advancing.status == GradcheckStatus::not_repeatable);
  CHECK_THAT(advancing.message, ContainsSubstring("give it a stream that it copies"));
  const GradcheckReport copied = check_one(
      [&](const Tensor& v) {
        Rng own = rng;
        return dropout(v, 0.5, own);
      },
      x);
  CHECK(copied.status == GradcheckStatus::pass);
}

TEST_CASE("a query that sees nothing passes, with gradients that are exactly 0", "[gradcheck]") {
  Rng rng(2);
  const Tensor q = randn({1, 1, 3, 4}, rng, DType::f64);
  const Tensor k = randn({1, 1, 3, 4}, rng, DType::f64);
  const Tensor v = randn({1, 1, 3, 4}, rng, DType::f64);
  const Mask mask = Mask::rule(
      [](std::int64_t, std::int64_t, std::int64_t query, std::int64_t) { return query != 1; },
      "query 1 sees nothing");
  GradcheckOptions options;
  options.input_names = {"q", "k", "v"};
  const GradcheckReport r =
      gradcheck([&](const Tensors& in) { return Tensors{attention(in[0], in[1], in[2], mask)}; },
                {q, k, v}, options);
  INFO(to_string(r));
  CHECK(r.passed());
  // Row 1 of q, two cotangents: 0, compared absolutely, and listed.
  CHECK(r.tensors[0].zeros == 8);
  CHECK(r.tensors[0].zero_names ==
        std::vector<std::string>{"q[0,0,1,0]", "q[0,0,1,1]", "q[0,0,1,2]", "q[0,0,1,3]"});
}

TEST_CASE("a kink is not a wrong gradient", "[gradcheck]") {
  const auto relu = [](const Tensor& x) { return relu_like(x); };
  const GradcheckReport r = check_one(relu, f64({-1, 0, 2}));
  CHECK(r.status == GradcheckStatus::kink);
  REQUIRE(!r.worst.empty());
  CHECK(r.worst.front().name == "input0[1]");
  const double low = std::min(std::abs(r.worst.front().left), std::abs(r.worst.front().right));
  const double high = std::max(std::abs(r.worst.front().left), std::abs(r.worst.front().right));
  CHECK(low < 1e-9);
  CHECK(high >= 0.5 - 1e-9);  // the cotangent: at least 0.5 in magnitude
  CHECK(r.tensors[0].kinks == 2);
  GradcheckOptions expected;
  expected.kinks_expected = true;
  CHECK(check_one(relu, f64({-1, 0, 2}), expected).status == GradcheckStatus::pass);
  // A slope outside of left and right is wrong all the same.
  const auto wrong = [](const Tensor& x) { return relu_like(x, 1.5); };
  CHECK(check_one(wrong, f64({-1, 0, 2}), expected).status == GradcheckStatus::mismatch);
}

TEST_CASE("kinks alone are never a pass, and a direction cannot judge them", "[gradcheck]") {
  GradcheckOptions expected;
  expected.kinks_expected = true;
  const auto relu = [](const Tensor& x) { return relu_like(x); };
  const GradcheckReport r = check_one(relu, f64({0, 0, 0}), expected);
  CHECK(r.status == GradcheckStatus::nothing_checked);
  CHECK_THAT(r.message, ContainsSubstring("at a kink"));
  CHECK(r.compared == 0);
  // Every direction crosses the kink at 0, where this gradient is wrong.
  const auto wrong = [](const Tensor& x) { return relu_like(x, 5); };
  GradcheckOptions fast;
  fast.fast = true;
  const GradcheckReport along = check_one(wrong, f64({0, 1, 2, -3}), fast);
  CHECK(along.status == GradcheckStatus::kink);
  CHECK_THAT(along.message, ContainsSubstring("cannot be judged along a direction"));
  fast.kinks_expected = true;
  CHECK(check_one(wrong, f64({0, 1, 2, -3}), fast).status == GradcheckStatus::nothing_checked);
}

TEST_CASE("outputs that rounding holds still have wide bars, not wrong gradients", "[gradcheck]") {
  // e^x + e^-x - 2 near 0 is x^2 with an absolute error of 1e-16: small steps change nothing.
  const GradcheckReport flat = check_one([](const Tensor& x) { return exp(x) + exp(-x) - 2.0; },
                                         f64({1e-4, -2e-4, -7e-5, 1.5e-4}));
  CHECK(flat.status == GradcheckStatus::pass);
  CHECK(flat.within_three_bars == flat.compared);
  // A softmax so sharp that its weights are 1 and 0 to the last digits.
  Rng rng(3, Stream::check);
  const Tensor q = randn({1, 1, 6, 4}, rng, DType::f64) * 10.0;
  const Tensor v = randn({1, 1, 6, 4}, rng, DType::f64);
  const GradcheckReport sharp =
      gradcheck([](const Tensors& in) { return Tensors{attention(in[0], in[0], in[1])}; }, {q, v});
  INFO(sharp.message);
  CHECK(sharp.status != GradcheckStatus::mismatch);
}

TEST_CASE("a kink is found even where the central difference agrees with the tape", "[gradcheck]") {
  const auto absolute = [](const Tensor& x) {
    return custom(
        x, [](double v) { return std::abs(v); },
        [x](const Tensor& dy) {
          return dy * mapped(x, [](double v) { return step(v) - step(-v); });
        });
  };
  const GradcheckReport r = check_one(absolute, f64({0, 1}));
  CHECK(r.status == GradcheckStatus::kink);
  CHECK(r.worst.front().left == Approx(-r.worst.front().right));
}

TEST_CASE("close to a kink the steps shrink until they fit", "[gradcheck]") {
  const auto relu = [](const Tensor& x) { return relu_like(x); };
  for (const double distance : {1e-3, 1e-6, 1e-9}) {
    const GradcheckReport r = check_one(relu, f64({distance, -distance, 1}));
    INFO(distance << "\n" << to_string(r));
    CHECK(r.status == GradcheckStatus::pass);
  }
}

TEST_CASE("two evaluations that differ are told apart from a wrong gradient", "[gradcheck]") {
  Rng rng(3);
  const auto noisy = [&](const Tensor& x) { return x * rng.uniform(); };
  const GradcheckReport r = check_one(noisy, f64({1, 2}));
  CHECK(r.status == GradcheckStatus::not_repeatable);
  CHECK_THAT(r.message, ContainsSubstring("two evaluations"));
  int calls = 0;
  const auto worn = [&](const Tensor& x) { return x * (++calls < 10 ? 1.0 : 1.1); };
  CHECK(check_one(worn, f64({1, 2, 3, 4})).status == GradcheckStatus::not_repeatable);
}

TEST_CASE("nothing compared is never a pass", "[gradcheck]") {
  CHECK(check_one([](const Tensor&) { return ones({2}, DType::f64); }, f64({1, 2})).status ==
        GradcheckStatus::nothing_checked);
  CHECK(check_one([](const Tensor& x) { return x * 0.0; }, f64({1, 2})).status ==
        GradcheckStatus::nothing_checked);
  const GradcheckReport empty =
      check_one([](const Tensor& x) { return x * 2.0; }, zeros({0, 3}, DType::f64));
  CHECK(empty.status == GradcheckStatus::nothing_checked);
  CHECK(empty.compared == 0);
  GradcheckOptions none;
  none.only = {"no such input"};
  CHECK(check_one([](const Tensor& x) { return x * 2.0; }, f64({1, 2}), none).status ==
        GradcheckStatus::nothing_checked);
}

TEST_CASE("a function whose slopes are all zero but whose rounding moves passes", "[gradcheck]") {
  const GradcheckReport r = gradcheck(
      [](const Tensors& in) { return Tensors{(in[0] - in[1]) + (in[1] - in[0]) + in[2]}; },
      {f64({0.1, 0.3}), f64({0.7, 0.2}), f64({1, 2})});
  INFO(to_string(r));
  CHECK(r.status == GradcheckStatus::pass);
  CHECK(r.tensors[0].zeros == 4);  // compared with the gradient of input2 as the scale
}

TEST_CASE("what is not finite has its own verdict", "[gradcheck]") {
  const auto f = [](const Tensor& x) {
    return custom(
        x, [](double v) { return std::log(v); }, [](const Tensor& dy) { return dy; });
  };
  const GradcheckReport r = check_one(f, f64({1, 0}));
  CHECK(r.status == GradcheckStatus::not_finite);
  CHECK_THAT(r.message, ContainsSubstring("-inf"));
  const auto g = [](const Tensor& x) {
    return custom(
        x, [](double v) { return v; }, [](const Tensor& dy) { return dy / 0.0; });
  };
  CHECK(check_one(g, f64({1, 2})).status == GradcheckStatus::not_finite);
}

TEST_CASE("the edge of a domain is approached, not crossed", "[gradcheck]") {
  const auto logarithm = [](const Tensor& x) {
    return custom(
        x, [](double v) { return std::log(v); }, [x](const Tensor& dy) { return dy / x; });
  };
  const GradcheckReport r = check_one(logarithm, f64({1e-7, 1e-3, 1, 40}));
  INFO(to_string(r));
  CHECK(r.status == GradcheckStatus::pass);
  CHECK(r.worst_relative() < 1e-9);
}

TEST_CASE("parameters are checked by name and put back bit by bit", "[gradcheck]") {
  Params params(7, DType::f64);
  const Scope layer = Scope(params) / "encoder" / "layers" / 0;
  const Param weight = layer.param("weight", {2, 3}, init::normal(1));
  const Param bias = layer.param("bias", {3}, init::normal(1));
  const Tensor before = params.flat();
  const auto f = [&](const Tensors& in) {
    const Tensor w = weight;
    return Tensors{w * w * broadcast_to(Tensor(bias), {2, 3}) * in[0]};
  };
  const GradcheckReport r = gradcheck(f, {f64({{1, 2, 3}, {4, 5, 6}})}, params);
  CHECK(r.status == GradcheckStatus::pass);
  REQUIRE(r.tensors.size() == 3);
  CHECK(r.tensors[1].name == "encoder.layers.0.weight");
  CHECK(same_bits(before, params.flat()));

  const auto wrong = [&](const Tensors& in) {
    const Tensor w = weight;
    return Tensors{record("half", w * broadcast_to(Tensor(bias), {2, 3}) * in[0])
                       .input(w, [&](const Tensor& dy) { return dy; })};
  };
  GradcheckOptions only;
  only.only = {"encoder.layers.0.weight"};
  const GradcheckReport bad = gradcheck(wrong, {f64({{1, 2, 3}, {4, 5, 6}})}, params, only);
  CHECK(bad.status == GradcheckStatus::mismatch);
  CHECK_THAT(bad.worst.front().name, ContainsSubstring("encoder.layers.0."));

  int calls = 0;
  const auto throwing = [&](const Tensors& in) -> Tensors {
    if (++calls > 20) throw ValueError("enough");
    return f(in);
  };
  CHECK_THROWS_WITH(gradcheck(throwing, {f64({{1, 2, 3}, {4, 5, 6}})}, params),
                    ContainsSubstring("enough"));
  CHECK(same_bits(before, params.flat()));
}

TEST_CASE("a parameter's element is back in its place when the next one moves", "[gradcheck]") {
  // Every element's slope depends on all the others, by far more than the error bars.
  Params params(7, DType::f64);
  const Param w = Scope(params).param("w", {3, 4}, init::uniform(0.5, 1.5));
  const auto f = [&](const Tensors&) {
    const Tensor total = sum(Tensor(w));
    return Tensors{total * total * total};
  };
  const GradcheckReport r = gradcheck(f, {}, params);
  INFO(to_string(r));
  CHECK(r.status == GradcheckStatus::pass);
  CHECK(r.compared == 24);
}

TEST_CASE("one tensor given twice is two independent inputs", "[gradcheck]") {
  const Tensor v = f64({3, 4});
  const GradcheckReport r =
      gradcheck([](const Tensors& in) { return Tensors{in[0] * in[1]}; }, {v, v});
  CHECK(r.status == GradcheckStatus::pass);
  CHECK(r.compared == 8);
}

TEST_CASE("a stretched input shares nothing: one nudge moves one element", "[gradcheck]") {
  // M v with v one number seen twice: df/dv_j = sum_i M_ij = 4 and 6, not 10 for each.
  const Tensor m = f64({{1, 2}, {3, 4}});
  const Tensor v = broadcast_to(f64({{2.0}}), {1, 2});
  const GradcheckReport r =
      gradcheck([](const Tensors& in) { return Tensors{sum(in[0] * in[1], 1)}; }, {m, v});
  INFO(to_string(r));
  CHECK(r.status == GradcheckStatus::pass);
}

TEST_CASE("stripes together are the whole check", "[gradcheck]") {
  const auto f = [](const Tensors& in) { return Tensors{in[0] * in[0] * in[0]}; };
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}});
  std::vector<GradcheckReport> parts;
  for (std::int64_t s = 0; s < 4; ++s) {
    GradcheckOptions o;
    o.stripe = s;
    o.stripes = 4;
    parts.push_back(gradcheck(f, {x}, o));
    CHECK(parts.back().compared == (s < 2 ? 4 : 2));
  }
  const GradcheckReport all = merged(parts);
  CHECK(all.status == GradcheckStatus::pass);
  CHECK(all.compared == 12);
  REQUIRE(all.tensors.size() == 1);
  CHECK(all.tensors[0].compared == 12);
}

TEST_CASE("fast mode costs the same for any size and still sees one bad element", "[gradcheck]") {
  GradcheckOptions fast;
  fast.fast = true;
  const auto square = [](double wrong, std::int64_t where) {
    return [wrong, where](const Tensor& x) {
      return custom(
          x, [](double v) { return v * v; },
          [x, wrong, where](const Tensor& dy) {
            std::vector<double> g;
            for (std::int64_t i = 0; i < x.size(); ++i)
              g.push_back(dy.at_flat(i) * 2 * x.at_flat(i) * (i == where ? wrong : 1));
            return tensor(std::span<const double>(g), x.shape());
          });
    };
  };
  Rng rng(5);
  const GradcheckReport small = check_one(square(1, 0), randn({10}, rng, DType::f64), fast);
  const GradcheckReport large = check_one(square(1, 0), randn({50, 100}, rng, DType::f64), fast);
  CHECK(small.status == GradcheckStatus::pass);
  CHECK(large.status == GradcheckStatus::pass);
  CHECK(large.evaluations <= 2 * small.evaluations);
  const GradcheckReport bad =
      check_one(square(1.001, 1234), randn({50, 100}, rng, DType::f64), fast);
  INFO(to_string(bad));
  CHECK(bad.status == GradcheckStatus::mismatch);
  // Halving the direction finds the one bad element.
  CHECK(bad.worst.front().name == "input0[12,34]");
  CHECK(bad.evaluations < 500);
}

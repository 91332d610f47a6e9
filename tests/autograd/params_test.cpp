#include <tapehead/params.hpp>

#include <cmath>

#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"

namespace th = tapehead;
using th::Decay;
using th::DType;
using th::Param;
using th::Params;
using th::Scope;
using th::Shape;
using th::Tensor;

namespace init = tapehead::init;

TEST_CASE("names follow the path, and values lie in one flat buffer") {
  Params params(1, DType::f64);
  const Scope layer = params / "encoder" / "layers" / 0;
  const Param w = layer.param("weight", {2, 3}, init::constant(2));
  const Param b = layer.param("bias", {3}, init::constant(-1), Decay::no);
  CHECK(w.name() == "encoder.layers.0.weight");
  CHECK(std::string(layer.path()) == "encoder.layers.0");
  CHECK(params.count() == 2);
  CHECK(params.size() == 9);
  CHECK(params.offset(1) == 6);
  CHECK(params.flat().to_vector<double>() == std::vector<double>{2, 2, 2, 2, 2, 2, -1, -1, -1});
  CHECK(th::same_bits(Tensor(b), th::tensor({-1, -1, -1}, DType::f64)));
  CHECK(params.at("encoder.layers.0.bias").index() == 1);
  CHECK_THROWS_WITH(params.at("encoder.layers.0.bais"),
                    ContainsSubstring("did you mean encoder.layers.0.bias?"));
  CHECK_THROWS_WITH(layer.param("late", {1}, init::constant(0)), ContainsSubstring("sealed"));
}

TEST_CASE("bad names and initialisers are refused") {
  Params params;
  const Scope scope(params);
  (void)scope.param("w", {1}, init::constant(0));
  CHECK_THROWS_WITH(scope.param("w", {1}, init::constant(0)), ContainsSubstring("taken"));
  CHECK_THROWS_AS(scope.param("", {1}, init::constant(0)), th::ValueError);
  CHECK_THROWS_AS(scope / "a.b", th::ValueError);
  CHECK_THROWS_AS(scope.param("x", {1}, nullptr), th::ValueError);
  CHECK_THROWS_AS(Params(0, DType::i64), th::DTypeError);
  CHECK_THROWS_AS(init::normal(-1), th::ValueError);
  CHECK_THROWS_AS(Tensor(Param()), th::ValueError);

  Params wrong;
  (void)Scope(wrong).param("w", {2}, [](const Shape&, th::Rng&, DType) { return th::zeros({3}); });
  CHECK_THROWS_WITH(wrong.flat(), ContainsSubstring("f32[2]"));
}

TEST_CASE("initial values depend on seed and path alone") {
  const auto values = [](std::uint64_t seed, bool extra) {
    Params params(seed);
    if (extra) (void)(params / "before").param("w", {5}, init::normal(1));
    const Param w = (params / "layer").param("w", {4, 3}, init::normal(1));
    return Tensor(w);
  };
  CHECK(th::same_bits(values(3, false), values(3, true)));
  CHECK_FALSE(th::same_bits(values(3, false), values(4, false)));
}

TEST_CASE("initialisers have their bounds and deviations") {
  const Shape shape{300, 100};
  Params params(7, DType::f64);
  const Scope s(params);
  struct Case {
    Param param;
    double deviation;
    double bound;  // 0: unbounded
  };
  const double xavier = std::sqrt(6.0 / 400);
  const double kaiming = std::sqrt(6.0 / 300);
  const std::vector<Case> cases{
      {s.param("xu", shape, init::xavier_uniform()), xavier / std::sqrt(3), xavier},
      {s.param("xn", shape, init::xavier_normal()), std::sqrt(2.0 / 400), 0},
      {s.param("ku", shape, init::kaiming_uniform()), kaiming / std::sqrt(3), kaiming},
      {s.param("kn", shape, init::kaiming_normal()), std::sqrt(2.0 / 300), 0},
      {s.param("fu", shape, init::fan_in_uniform()), 1 / std::sqrt(300.0) / std::sqrt(3),
       1 / std::sqrt(300.0)},
      {s.param("n", shape, init::normal(0.02)), 0.02, 0},
      {s.param("u", shape, init::uniform(-3, 3)), std::sqrt(3.0), 3},
  };
  for (const Case& c : cases) {
    double squares = 0;
    double largest = 0;
    const std::vector<double> values = Tensor(c.param).to_vector<double>();
    for (double v : values) {
      squares += v * v;
      largest = std::max(largest, std::abs(v));
    }
    INFO(c.param.name());
    // Five standard errors of a sample deviation over 30,000 draws: 5 / sqrt(2 n) = 2%.
    CHECK(std::sqrt(squares / static_cast<double>(values.size())) ==
          Approx(c.deviation).epsilon(0.021));
    if (c.bound > 0) {
      CHECK(largest <= c.bound);
      CHECK(largest > 0.999 * c.bound);
    }
  }
}

TEST_CASE("a parameter is one leaf of the tape, however often it is used") {
  Params params(1, DType::f64);
  const Param w = Scope(params).param("w", {}, init::constant(3));
  const Param unused = Scope(params).param("unused", {2}, init::constant(1));
  th::Tape tape;
  const Tensor loss = Tensor(w) * w + w;  // slope 2 w + 1 = 7
  CHECK(tape.node(0).op == "parameter");
  CHECK(tape.size() == 3);
  const th::Gradients g = tape.backward(loss);
  CHECK(g[w].item() == 7);
  CHECK(g.reached(w));
  CHECK_FALSE(g.reached(unused));
  CHECK(g[unused].to_vector<double>() == std::vector<double>{0, 0});
  CHECK(g.flat(params).to_vector<double>() == std::vector<double>{7, 0, 0});
  CHECK(g.reached_mask(params) == std::vector<unsigned char>{1, 0});
}

TEST_CASE("gradients of parameters add over tapes, and reached means reached in either") {
  Params params(1, DType::f64);
  const Param a = Scope(params).param("a", {}, init::constant(3));
  const Param b = Scope(params).param("b", {}, init::constant(5));
  const auto gradient = [](const Param& p) {
    th::Tape tape;
    return tape.backward(Tensor(p) * p);
  };
  th::Gradients sum = gradient(a);
  sum += gradient(b);
  sum += gradient(b);
  sum *= 0.5;
  CHECK(sum.flat(params).to_vector<double>() == std::vector<double>{3, 10});
  CHECK(sum.reached(a));
  CHECK(sum.reached(b));
}

TEST_CASE("a differentiable tape gives parameter gradients that can be differentiated") {
  Params params(1, DType::f64);
  const Param w = Scope(params).param("w", {2}, init::constant(3));
  th::Tape tape({.differentiable = true});
  const Tensor loss = th::sum(Tensor(w) * w * w);
  const th::Gradients g = tape.backward(loss);  // 3 w^2 = 27
  CHECK(g[w].to_vector<double>() == std::vector<double>{27, 27});
  CHECK(g.flat(params).to_vector<double>() == std::vector<double>{27, 27});
  const th::Gradients second = tape.backward(th::sum(g[w]));  // 6 w = 18
  CHECK(second[w].to_vector<double>() == std::vector<double>{18, 18});
}

TEST_CASE("a write between forward and backward is an error that names the writer") {
  Params params(1, DType::f64);
  const Param w = Scope(params).param("w", {}, init::constant(2));
  th::Tape tape;
  const Tensor x = tape.watch(th::tensor(3, DType::f64));
  const Tensor y = w * x;
  const Tensor before = w.value();
  w.set(th::tensor(5, DType::f64));
  CHECK(before.item() == 2);  // a value once read stays
  CHECK(w.value().item() == 5);
  CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("Param::set") && ContainsSubstring("w"));
}

TEST_CASE("writers see the flat buffer and count as versions") {
  Params params(1);
  const Param w = Scope(params).param("w", {2, 2}, init::constant(1));
  const Tensor snapshot = params.flat();
  const std::uint64_t version = params.version();
  params.write("a test", [](std::span<float> flat) { flat[3] = 9; });
  CHECK(params.version() == version + 1);
  CHECK(w.value().at({1, 1}) == 9);
  CHECK(snapshot.at({3}) == 1);
  CHECK_THROWS_AS(params.write("a test", [](std::span<double>) {}), th::DTypeError);
  CHECK_THROWS_AS(w.set(th::zeros({4})), th::ShapeError);
  CHECK_THROWS_AS(w.set(th::zeros({2, 2}, DType::f64)), th::DTypeError);
  CHECK(params.version() == version + 1);
}

TEST_CASE("frozen parameters take no gradient, by path") {
  Params params(1, DType::f64);
  const Param a = (params / "enc" / "a").param("w", {}, init::constant(2));
  const Param b = (params / "encoder").param("w", {}, init::constant(3));
  params.freeze("enc");
  CHECK(a.frozen());
  CHECK_FALSE(b.frozen());  // "encoder" is not below "enc"
  {
    th::Tape tape;
    const th::Gradients g = tape.backward(Tensor(a) * b);
    CHECK_FALSE(g.reached(a));
    CHECK(g[b].item() == 2);
  }
  CHECK_THROWS_WITH(params.freeze("decoder"), ContainsSubstring("decoder"));
  params.unfreeze("enc.a.w");
  CHECK_FALSE(a.frozen());
}

TEST_CASE("runs are maximal neighbours that were reached and share a group") {
  Params params;
  const Scope s(params);
  (void)s.param("a", {2}, init::constant(0));
  (void)s.param("b", {3}, init::constant(0));
  (void)s.param("c", {4}, init::constant(0), Decay::no);
  (void)s.param("d", {5}, init::constant(0));
  (void)s.param("e", {6}, init::constant(0));
  params.freeze("e");
  const auto runs = params.runs({1, 1, 1, 1, 1});
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].begin == 0);
  CHECK(runs[0].end == 5);
  CHECK(runs[1].decay == Decay::no);
  CHECK(runs[2].begin == 9);
  CHECK(runs[2].end == 14);
  CHECK(params.runs({1, 0, 0, 0, 0}).size() == 1);
  CHECK(params.runs({0, 0, 0, 0, 0}).empty());
  CHECK_THROWS_AS(params.runs({1}), th::ValueError);
}

TEST_CASE("a tensor may outlive its parameters") {
  Tensor w;
  Param handle;
  {
    Params params(1);
    handle = Scope(params).param("w", {2}, init::constant(4));
    w = handle.value();
  }
  CHECK(w.at({1}) == 4);
  CHECK(handle.value().at({0}) == 4);
}

TEST_CASE("parameter gradients can be added to themselves") {
  Params params(1, DType::f64);
  const Param w = Scope(params).param("w", {2}, init::constant(3));
  th::Tape tape;
  th::Gradients g = tape.backward(th::sum(Tensor(w) * w));  // 2 w = 6
  g += g;
  CHECK(g[w].to_vector<double>() == std::vector<double>{12, 12});
}

TEST_CASE("a parameter may be watched as well: both look-ups give its gradient") {
  for (const bool differentiable : {false, true}) {
    Params params(1, DType::f64);
    const Param w = Scope(params).param("w", {2}, init::constant(3));
    th::Tape tape({.differentiable = differentiable});
    const Tensor x = tape.watch(w);
    const th::Gradients g = tape.backward(th::sum(x * x));
    CHECK(g.reached(x));
    CHECK(g[x].to_vector<double>() == std::vector<double>{6, 6});
    CHECK(g[w].to_vector<double>() == std::vector<double>{6, 6});
  }
}

TEST_CASE("a penalty on gradients has a gradient, by parameter, flat, scaled and summed alike") {
  // y = sum w^3 at w = 3: g = 3 w^2 = 27. d/dw (y + |k g|^2) = 27 + 2 k^2 g 6 w = 27 + 972 k^2.
  const auto slope = [](auto penalty) {
    Params params(1, DType::f64);
    const Param w = Scope(params).param("w", {2}, init::constant(3));
    (void)Scope(params).param("unused", {3}, init::constant(1));
    th::Tape tape({.differentiable = true});
    const Tensor y = th::sum(Tensor(w) * w * w);
    th::Gradients g = tape.backward(y);
    const Tensor loss = y + penalty(g, w, params);
    return tape.backward(loss)[w].template to_vector<double>();
  };
  const auto square = [](const Tensor& x) { return th::sum(x * x); };
  CHECK(slope([&](auto& g, auto& w, auto&) { return square(g[w]); }) ==
        std::vector<double>{999, 999});
  CHECK(slope([&](auto& g, auto&, auto& params) { return square(g.flat(params)); }) ==
        std::vector<double>{999, 999});
  CHECK(slope([&](auto& g, auto& w, auto&) { return g *= 0.5, square(g[w]); }) ==
        std::vector<double>{270, 270});
  CHECK(slope([&](auto& g, auto& w, auto&) { return g += g, square(g[w]); }) ==
        std::vector<double>{27 + 4 * 972, 27 + 4 * 972});
}

TEST_CASE("empty handles and moved-from stores give errors or go on, never a crash") {
  CHECK_THROWS_AS(Param().name(), th::ValueError);
  CHECK_THROWS_AS(Param().shape(), th::ValueError);
  CHECK_THROWS_AS(Param().dtype(), th::ValueError);
  CHECK_THROWS_AS(Param().frozen(), th::ValueError);
  Params params(1);
  (void)Scope(params).param("w", {2}, init::constant(4));
  const Params moved = std::move(params);
  CHECK(moved.count() == 1);
  CHECK(params.count() == 1);
}

TEST_CASE("a store beyond 2^59 numbers is refused where it would become so") {
  Params params(1);
  const Scope scope(params);
  const Shape large{std::int64_t{1} << 30, std::int64_t{1} << 28};
  (void)scope.param("a", large, init::constant(0));
  (void)scope.param("b", large, init::constant(0));  // just full
  CHECK_THROWS_WITH(scope.param("c", {1}, init::constant(0)), ContainsSubstring("2^59"));
}

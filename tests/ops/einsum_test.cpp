#include <map>
#include <string>

#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "ops/loops.hpp"
#include "support/catch.hpp"
#include "support/fixture.hpp"

namespace th = tapehead;
using th::DType;
using th::Shape;
using th::Tensor;

namespace {

// The definition: one multiply-add for every value of every label.
struct Einsum {
  Shape shape;
  std::vector<double> y;
  std::vector<double> da;
  std::vector<double> db;
};

Einsum by_definition(const std::string& equation, const Tensor& a, const Tensor& b,
                     const Tensor& dy) {
  const std::size_t comma = equation.find(',');
  const std::size_t arrow = equation.find("->");
  const std::string of_a = equation.substr(0, comma);
  const std::string of_b = equation.substr(comma + 1, arrow - comma - 1);
  const std::string of_y = equation.substr(arrow + 2);
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < of_a.size(); ++i) sizes[of_a[i]] = a.dim(static_cast<int>(i));
  for (std::size_t i = 0; i < of_b.size(); ++i) sizes[of_b[i]] = b.dim(static_cast<int>(i));
  std::string labels;
  std::vector<std::int64_t> all;
  for (const auto& entry : sizes) {
    labels += entry.first;
    all.push_back(entry.second);
  }
  const auto at = [&](const std::string& of, const std::vector<std::int64_t>& index) {
    std::int64_t place = 0;
    for (const char label : of) place = place * sizes[label] + index[labels.find(label)];
    return static_cast<std::size_t>(place);
  };
  std::vector<std::int64_t> sizes_y;
  for (const char label : of_y) sizes_y.push_back(sizes[label]);
  Einsum result;
  result.shape = Shape(std::span<const std::int64_t>(sizes_y));
  const std::vector<double> va = numbers(a);
  const std::vector<double> vb = numbers(b);
  const std::vector<double> vdy = numbers(dy);
  result.y.resize(static_cast<std::size_t>(result.shape.size()));
  result.da.resize(va.size());
  result.db.resize(vb.size());
  for (const auto& index : indices(Shape(std::span<const std::int64_t>(all)))) {
    const std::size_t ia = at(of_a, index);
    const std::size_t ib = at(of_b, index);
    const std::size_t iy = at(of_y, index);
    result.y[iy] += va[ia] * vb[ib];
    result.da[ia] += vdy[iy] * vb[ib];
    result.db[ib] += vdy[iy] * va[ia];
  }
  return result;
}

struct Case {
  std::string equation;
  Shape a;
  Shape b;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> list{
      {"ab,bc->ac", {2, 3}, {3, 4}},
      {"ab,bc->ca", {2, 3}, {3, 4}},
      {"ab,cb->ac", {2, 3}, {4, 3}},
      {"ba,cb->ca", {3, 2}, {4, 3}},
      {"ab,ab->ab", {2, 3}, {2, 3}},
      {"ab,ba->ab", {2, 3}, {3, 2}},
      {"ab,ba->ba", {2, 3}, {3, 2}},
      {"ab,ba->", {2, 3}, {3, 2}},
      {"ab,ab->a", {2, 3}, {2, 3}},
      {"ab,ab->b", {2, 3}, {2, 3}},
      {"a,b->ab", {2}, {3}},
      {"a,b->ba", {2}, {3}},
      {"a,b->", {2}, {3}},
      {"a,a->", {3}, {3}},
      {"a,a->a", {3}, {3}},
      {",->", {}, {}},
      {",a->a", {}, {3}},
      {"a,->", {3}, {}},
      {"ab,b->a", {2, 3}, {3}},
      {"ab,b->ab", {2, 3}, {3}},
      {"ab,c->c", {2, 3}, {4}},  // labels of one operand alone
      {"abc,cd->d", {2, 3, 4}, {4, 5}},
      {"abc,dce->bd", {2, 3, 4}, {5, 4, 2}},
      {"nqhd,nkhd->nhqk", {2, 3, 2, 4}, {2, 5, 2, 4}},
      {"nhql,nlhd->nqhd", {2, 2, 3, 5}, {2, 5, 2, 4}},
      {"nhqd,nhkd->nhqk", {2, 2, 3, 4}, {2, 2, 5, 4}},
      {"abcd,dcbe->ae", {2, 3, 2, 4}, {4, 2, 3, 5}},
      {"abcd,cedf->fabe", {2, 3, 2, 4}, {2, 5, 4, 3}},
      {"abx,bxc->xca", {2, 3, 4}, {3, 4, 2}},
      {"xAb,bxC->CxA", {2, 3, 4}, {4, 2, 5}},
      {"abcdefgh,h->abcdefg", {2, 1, 2, 1, 2, 1, 2, 3}, {3}},
      {"ab,bc->ac", {0, 3}, {3, 4}},
      {"ab,bc->ac", {2, 0}, {0, 4}},
      {"nab,nbc->nca", {0, 2, 3}, {0, 3, 4}},
      {"nab,nbc->nca", {2, 2, 0}, {2, 0, 4}},
      {"ab,ab->a", {2, 0}, {2, 0}},
      {"ab,c->c", {0, 3}, {4}},
      {"ab,bc->ac", {1, 1}, {1, 1}},
      {"nqhd,nkhd->nhqk", {1, 3, 1, 17}, {1, 67, 1, 17}},
  };
  return list;
}

}  // namespace

TEST_CASE("einsum and its gradients equal the loop over all labels") {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      INFO(c.equation << " of " << th::to_string(c.a) << " and " << th::to_string(c.b));
      th::Tape tape;
      const Tensor a = tape.watch(integers(c.a, dtype, 1));
      const Tensor b = tape.watch(integers(c.b, dtype, 2));
      const Tensor y = th::einsum(c.equation, a, b);
      const Tensor dy = integers(y.shape(), dtype, 3);
      const Einsum wanted = by_definition(c.equation, a, b, dy);
      REQUIRE(y.shape() == wanted.shape);
      CHECK(numbers(y) == wanted.y);
      const th::Gradients g = tape.backward(y, dy);
      CHECK(numbers(g[a]) == wanted.da);
      CHECK(numbers(g[b]) == wanted.db);
    }
  }
}

TEST_CASE("einsum's gradients can be differentiated again") {
  for (const Case& c : cases()) {
    INFO(c.equation << " of " << th::to_string(c.a) << " and " << th::to_string(c.b));
    th::Tape tape({.differentiable = true});
    const Tensor a = tape.watch(integers(c.a, DType::f64, 1));
    const Tensor b = tape.watch(integers(c.b, DType::f64, 2));
    const Tensor y = th::einsum(c.equation, a, b);
    const Tensor w = tape.watch(integers(y.shape(), DType::f64, 3));
    const Tensor v = integers(c.a, DType::f64, 4);
    // The product is linear in a, so v . da = sum(w einsum(v, b)).
    const th::Gradients first = tape.backward(th::sum(w * y));
    const th::Gradients second = tape.backward(first[a], v);
    const Einsum wanted = by_definition(c.equation, v, b, w);
    CHECK(numbers(second[b]) == wanted.db);
    CHECK(numbers(second[w]) == wanted.y);
  }
}

TEST_CASE("einsum equals PyTorch on the contractions of attention") {
  const Fixture fixture("einsum");
  struct Contraction {
    const char* equation;
    std::string name;
    const char* a;
    const char* b;
    const char* output;
  };
  for (const Contraction& c :
       std::vector<Contraction>{{"nqhd,nkhd->nhqk", "scores", "queries", "keys", "output"},
                                {"nhql,nlhd->nqhd", "mix", "weights", "values", "output"}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-13;
      th::Tape tape;
      const Tensor a = tape.watch(fixture.get(c.name + "." + c.a, dtype));
      const Tensor b = tape.watch(fixture.get(c.name + "." + c.b, dtype));
      const Tensor y = th::einsum(c.equation, a, b);
      const th::Gradients g = tape.backward(y, fixture.get(c.name + ".cotangent", dtype));
      const auto close = [&](const Tensor& found, const std::string& name) {
        const th::Comparison result =
            th::compare(found, fixture.get(c.name + "." + name, dtype), {tolerance, tolerance});
        INFO(name << ": " << result.message);
        CHECK(result.equal);
      };
      close(y, c.output);
      close(g[a], std::string("grad.") + c.a);
      close(g[b], std::string("grad.") + c.b);
    }
  }
}

TEST_CASE("einsum says where an equation is wrong") {
  const Tensor x = th::zeros({2, 3});
  const auto refuses = [&](const char* equation, const char* why) {
    INFO(equation);
    CHECK_THROWS_AS(th::einsum(equation, x, x), th::ValueError);
    CHECK_THROWS_WITH(
        th::einsum(equation, x, x),
        ContainsSubstring(std::string("einsum: \"") + equation + "\": ") && ContainsSubstring(why));
  };
  refuses("", "one operand");
  refuses("ab", "one operand");
  refuses("ab->ab", "-> at position 2 before the second operand");
  refuses("ab,bc", "it has no output");
  refuses("ab,bc,cd->ad", "a third operand at position 5");
  refuses("ab,bc->a,c", "a comma at position 8 in the output");
  refuses("ab,bc->a->c", "a second -> at position 8");
  refuses("aa,ab->b", "label a at position 1 stands twice in the first operand");
  refuses("ab,cc->a", "label c at position 4 stands twice in the second operand");
  refuses("ab,bc->cac", "label c at position 9 stands twice in the output");
  refuses("ab,bc->ad", "label d at position 8 is in no operand");
  refuses("...a,ab->b", "'.' at position 0 is no label");
  refuses("ab,b1->a", "'1' at position 4 is no label");
  refuses("ab,bc-ac", "'-' at position 5 is no label");
  refuses("ab,bc-", "'-' at position 5 is no label");
  refuses("abcde,fghij->abcdefghi", "the output has 9 axes, more than 8");

  CHECK(th::einsum(" ab , bc -> ac ", x, th::zeros({3, 4})).shape() == Shape{2, 4});
}

TEST_CASE("einsum refuses operands that do not fit the equation") {
  const Tensor x = th::zeros({2, 3});
  CHECK_THROWS_WITH(th::einsum("abc,bc->a", x, x),
                    ContainsSubstring("\"abc\" names 3 axes, but a [2, 3] has 2"));
  CHECK_THROWS_WITH(th::einsum("ab,b->a", x, x),
                    ContainsSubstring("\"b\" names 1 axes, but b [2, 3] has 2"));
  CHECK_THROWS_WITH(
      th::einsum("ab,bc->ac", x, th::zeros({4, 5})),
      ContainsSubstring("sizes of label b differ: a [a 2, b 3] and b [b 4, c 5]: 3 is not 4"));
  CHECK_THROWS_WITH(th::einsum("ab,bc->ac", x, th::zeros({1, 5})), ContainsSubstring("3 is not 1"));
  CHECK_THROWS_AS(th::einsum("ab,bc->ac", x, th::zeros({3, 4}, DType::f64)), th::DTypeError);
  CHECK_THROWS_AS(th::einsum("ab,bc->ac", Tensor(), x), th::ValueError);
}

TEST_CASE("einsum copies nothing where the operands lie ready for one product") {
  struct Plain {
    const char* equation;
    Shape a;
    Shape b;
  };
  for (const Plain& c : std::vector<Plain>{{"ab,bc->ac", {2, 3}, {3, 4}},
                                           {"ab,bc->ca", {2, 3}, {3, 4}},
                                           {"ba,cb->ca", {3, 2}, {4, 3}},
                                           {"nhqd,nhkd->nhqk", {2, 2, 3, 4}, {2, 2, 5, 4}},
                                           {"btd,dh->bth", {2, 3, 4}, {4, 5}},
                                           {"abcd,cde->abe", {2, 3, 4, 5}, {4, 5, 2}}}) {
    INFO(c.equation);
    th::Tape tape;
    const Tensor a = tape.watch(th::zeros(c.a));
    (void)th::einsum(c.equation, a, th::zeros(c.b));
    for (int i = 0; i < tape.size(); ++i) CHECK(tape.node(i).op != "permute");
  }
}

// The checker catches what is planted.
#include "gradcheck/suite.hpp"

#include <algorithm>

#include <tapehead/ops.hpp>

#include "support/catch.hpp"

using namespace tapehead;
using namespace tapehead::detail;

TEST_CASE("every fault planted in the catalog is caught", "[gradcheck]") {
  const SelfTest all = self_test_suite(op_catalog());
  INFO(to_string(all));
  CHECK(all.passed());
  CHECK(all.tallies.size() > 700);
  CHECK_THAT(to_string(all), ContainsSubstring("planted"));
  // On every input of every op that has a gradient, whatever it is recorded as.
  for (const OpEntry& entry : op_catalog()) {
    if (!entry.differentiable) continue;
    std::size_t inputs = 0;
    for (const OpSample& sample : entry.samples(DType::f64)) {
      const auto floating = std::count_if(sample.inputs.begin(), sample.inputs.end(),
                                          [](const Tensor& x) { return is_floating(x.dtype()); });
      if (!sample.kink) inputs = std::max(inputs, static_cast<std::size_t>(floating));
    }
    // In f64 a cast to f64 records nothing, and a staircase has no slopes.
    if (entry.name == "cast" || entry.name == "sign") continue;
    for (const char* fault : {"zero", "sign", "times 1.1", "times 1+1e-6"}) {
      const auto edges =
          std::count_if(all.tallies.begin(), all.tallies.end(), [&](const FaultTally& t) {
            return t.op == entry.name && t.fault == fault && t.caught > 0;
          });
      INFO(entry.name << " " << fault);
      CHECK(static_cast<std::size_t>(edges) >= inputs);
    }
  }
  // The table names each classic mistake.
  for (const char* fault :
       {"missing 1/sqrt(d)", "mask dropped in backward", "softmax over the wrong axis",
        "dP not corrected by the row sum", "gradient flowing through a blocked key",
        "bias gradient counted per head", "epsilon outside the root",
        "smoothing without its gradient", "tied weight counted once"}) {
    INFO(fault);
    CHECK(std::any_of(all.tallies.begin(), all.tallies.end(), [&](const FaultTally& t) {
      return t.fault == fault && t.caught > 0 && t.missed == 0;
    }));
    CHECK_THAT(to_string(all), ContainsSubstring(fault));
  }
}

TEST_CASE("the classic mistakes are planted and caught one by one", "[gradcheck]") {
  for (const auto& faults :
       {attention_faults(), normalisation_faults(), loss_faults(), other_faults()}) {
    const SelfTest test = self_test_known(faults);
    INFO(to_string(test));
    CHECK(test.passed());
    CHECK(test.tallies.size() == faults.size());
    for (const FaultTally& t : test.tallies) {
      INFO(t.op << " " << t.edge << " " << t.fault);
      CHECK(t.caught >= 1);
      CHECK(t.missed == 0);
    }
  }
}

TEST_CASE("a fault that is not caught is reported as missed", "[gradcheck]") {
  // A change of 1e-10 is inside the tolerance: it is no equivalent, as it was computed to differ.
  KnownFault tiny = other_faults().front();
  tiny.fault = "times 1+1e-10";
  tiny.wrong = [](const Tensor&, const Tensor& right) { return right * (1 + 1e-10); };
  const SelfTest test = self_test_known({tiny});
  CHECK(!test.passed());
  REQUIRE(test.tallies.size() == 1);
  CHECK(test.tallies[0].missed == 1);
  CHECK_THAT(to_string(test), ContainsSubstring("missed: embedding, embedding input 0"));
}

TEST_CASE("a fault that changes nothing is equivalent, and asks for a better sample",
          "[gradcheck]") {
  KnownFault none = other_faults().front();
  none.wrong = [](const Tensor&, const Tensor& right) { return right * 1.0; };
  const SelfTest test = self_test_known({none});
  CHECK(!test.passed());
  CHECK(test.tallies.at(0).equivalent == 1);
  CHECK_THAT(to_string(test), ContainsSubstring("no sample shows"));
}

TEST_CASE("faults are made as they say", "[gradcheck]") {
  const auto f64 = [](const NestedList& v) { return tensor(v, DType::f64); };
  const TensorFunction stretched = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] * in[1]};
  };
  Checker checker({stretched}, {f64({{1, 2, 3}, {4, 5, 6}}), f64({{7, 8, 9}})}, nullptr, {});
  CHECK(checker.run().passed());
  const std::vector<Edge> edges = edges_of(checker);
  REQUIRE(edges.size() == 2);
  const Edge& row = edges[1];  // [1,3], stretched to [2,3]
  CHECK(row.op == "mul");
  CHECK(row.input == 1);
  const auto of = [&](Fault fault) { return faulty(fault, row, checker).at(0); };
  const Tensor g = row.gradients[0];
  const Tensor dy = row.output_gradients[0];
  for (std::int64_t j = 0; j < 3; ++j) {
    CHECK(of(Fault::zero).at({0, j}) == 0);
    CHECK(of(Fault::sign).at({0, j}) == -g.at({0, j}));
    CHECK(of(Fault::tenth).at({0, j}) == Approx(1.1 * g.at({0, j})).epsilon(1e-15));
    CHECK(of(Fault::mean_for_sum).at({0, j}) == g.at({0, j}) / 2);
    // The first row alone: x = 1, 2, 3.
    CHECK(of(Fault::unreduced).at({0, j}) == static_cast<double>(j + 1) * dy.at({0, j}));
  }
  CHECK(faulty(Fault::transposed, row, checker).empty());
  const Tensor turned = faulty(Fault::transposed, edges[0], checker).at(0);
  const Tensor right = edges[0].gradients[0];
  CHECK(turned.at({0, 1}) == right.at_flat(3));  // the elements column by column
  CHECK(turned.at({1, 0}) == right.at_flat(4));
  CHECK(same_bits(faulty(Fault::previous, row, checker).at(1), g));
}

// The catalog is complete, in order, and every sample of it runs: in both dtypes, with and without
// a tape, over sizes of 0 and rank 8. Other tests check the values and the gradients.
#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/catalog.hpp>
#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"

using namespace tapehead;

namespace {

std::string header_text(const std::string& name) {
  const std::string path = std::string(TAPEHEAD_SOURCE_DIR) + "/include/tapehead/" + name;
  std::ifstream file(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return std::regex_replace(text.str(), std::regex("//[^\n]*"), "");
}

// The names of the functions that return tensors, in order of their first declaration. Operators
// stand for the named functions that they call.
std::vector<std::string> declared_ops() {
  const std::string text = header_text("ops.hpp");
  const std::regex declaration(
      R"(\[\[nodiscard\]\]\s+(?:Tensor|std::vector<Tensor>|CrossEntropy|Attention|AttentionSteps)\s+(\w+)\s*\()");
  std::vector<std::string> names;
  for (std::sregex_iterator match(text.begin(), text.end(), declaration), end; match != end;
       ++match) {
    const std::string name = (*match)[1];
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::set<std::string> catalog_names() {
  std::set<std::string> names;
  for (const OpEntry& entry : op_catalog()) names.insert(entry.name);
  return names;
}

template <class F>
void for_every_sample(F f) {
  for (const OpEntry& entry : op_catalog()) {
    const std::vector<OpSample> samples32 = entry.samples(DType::f32);
    const std::vector<OpSample> samples64 = entry.samples(DType::f64);
    REQUIRE(samples32.size() == samples64.size());
    for (std::size_t i = 0; i < samples32.size(); ++i) {
      INFO(entry.name << ": " << samples32[i].name);
      f(entry, samples32[i], samples64[i]);
    }
  }
}

double largest_magnitude(const Tensor& x) {
  double largest = 0;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(x.at_flat(i))) largest = std::max(largest, std::abs(x.at_flat(i)));
  }
  return largest;
}

// Numbers in -1..1 without a pattern, the same for every dtype.
Tensor cotangent_for(const Tensor& y) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < y.size(); ++i) {
    values.push_back(static_cast<double>((i * 37 + 11) % 64) / 32 - 1);
  }
  return cast(tensor(std::span<const double>(values), y.shape()), y.dtype());
}

}  // namespace

TEST_CASE("the regular expression finds the operations of ops.hpp") {
  const std::vector<std::string> names = declared_ops();
  CHECK(names.size() >= 73);
  CHECK(names.front() == "cast");
  CHECK(names.back() == "merge_heads");
  for (const char* name : {"maximum", "where", "split", "cross_entropy_sums", "argmax",
                           "attention_with_weights", "attention_steps", "merge_heads"}) {
    INFO(name);
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
}

TEST_CASE("every operation of ops.hpp is in the catalog") {
  const std::set<std::string> names = catalog_names();
  std::vector<std::string> missing;
  for (const std::string& name : declared_ops()) {
    if (names.count(name) == 0) missing.push_back(name);
  }
  INFO("missing: " << fmt::format("{}", fmt::join(missing, ", ")));
  CHECK(missing.empty());
}

TEST_CASE("the catalog is in the order of ops.hpp, after the factories, without repeats") {
  const std::vector<std::string> declared = declared_ops();
  const std::string factories = header_text("tensor.hpp");
  CHECK(catalog_names().size() == op_catalog().size());
  std::ptrdiff_t last = -1;
  for (const OpEntry& entry : op_catalog()) {
    INFO(entry.name);
    if (entry.family == "factory") {
      CHECK(last == -1);
      CHECK(std::regex_search(factories, std::regex("Tensor " + entry.name + R"(\()")));
      continue;
    }
    const auto at = std::find(declared.begin(), declared.end(), entry.name);
    REQUIRE(at != declared.end());
    CHECK(at - declared.begin() > last);
    last = at - declared.begin();
  }
}

TEST_CASE("every entry says what it is") {
  for (const OpEntry& entry : op_catalog()) {
    INFO(entry.name);
    CHECK_FALSE(entry.family.empty());
    CHECK_FALSE(entry.formula.empty());
    CHECK_FALSE(entry.derivative.empty());
    CHECK(entry.differentiable == (entry.derivative != "none"));
    CHECK(entry.formula.find('\n') == std::string::npos);
    CHECK(entry.derivative.find('\n') == std::string::npos);
    std::set<std::string> names;
    for (const OpSample& sample : entry.samples(DType::f32)) names.insert(sample.name);
    CHECK(names.size() == entry.samples(DType::f32).size());
  }
}

TEST_CASE("every entry has the sizes that find faults") {
  for (const OpEntry& entry : op_catalog()) {
    INFO(entry.name);
    bool empty = false;
    bool past_a_vector = false;
    bool primes = false;
    bool kink = false;
    for (const OpSample& sample : entry.samples(DType::f64)) {
      std::vector<Tensor> tensors = sample.inputs;
      for (Tensor& y : sample.call(sample.inputs)) tensors.push_back(std::move(y));
      for (const Tensor& x : tensors) {
        empty = empty || x.size() == 0;
        for (const std::int64_t size : x.shape().sizes()) {
          past_a_vector = past_a_vector || size >= 67;
          primes = primes || size == 5 || size == 17;
        }
      }
      kink = kink || sample.kink;
    }
    CHECK(empty);
    CHECK(past_a_vector);
    CHECK((primes || entry.name == "arange"));
    // Piecewise constant functions have no slope to disagree about.
    const bool constant = !entry.differentiable || entry.derivative == "dx = 0";
    CHECK((entry.smooth || constant || kink));
  }
}

TEST_CASE("every sample runs in both dtypes, and they agree") {
  for_every_sample([](const OpEntry&, const OpSample& sample32, const OpSample& sample64) {
    CHECK(sample32.name == sample64.name);
    REQUIRE(sample32.inputs.size() == sample64.inputs.size());
    std::vector<Tensor> same_numbers;
    for (std::size_t i = 0; i < sample32.inputs.size(); ++i) {
      CHECK(sample32.inputs[i].dtype() == DType::f32);
      CHECK(sample64.inputs[i].dtype() == DType::f64);
      CHECK(sample32.inputs[i].shape() == sample64.inputs[i].shape());
      same_numbers.push_back(cast(sample32.inputs[i], DType::f64));
    }
    const std::vector<Tensor> ys32 = sample32.call(sample32.inputs);
    const std::vector<Tensor> ys64 = sample64.call(same_numbers);
    REQUIRE(ys32.size() == ys64.size());
    for (std::size_t i = 0; i < ys32.size(); ++i) {
      const bool floating = is_floating(ys64[i].dtype());
      const double scale = std::max(1.0, floating ? largest_magnitude(ys64[i]) : 1.0);
      const Tensor found = floating ? cast(ys32[i], DType::f64) : ys32[i];
      const Comparison result = compare(found, ys64[i], {0, floating ? 1e-5 * scale : 0});
      INFO(result.message);
      CHECK(result.equal);
    }
  });
}

TEST_CASE("a tape changes no value, and gradients have the shapes of the inputs") {
  for_every_sample([](const OpEntry& entry, const OpSample& sample32, const OpSample& sample64) {
    for (const OpSample* sample : {&sample32, &sample64}) {
      const std::vector<Tensor> plain = sample->call(sample->inputs);
      Tape tape;
      std::vector<Tensor> inputs;
      for (const Tensor& x : sample->inputs) inputs.push_back(tape.watch(x));
      std::vector<Tensor> ys;
      std::vector<Tensor> cotangents;
      const std::vector<Tensor> recorded = sample->call(inputs);
      REQUIRE(recorded.size() == plain.size());
      for (std::size_t i = 0; i < recorded.size(); ++i) {
        CHECK(same_bits(recorded[i], plain[i]));
        if (recorded[i].tape_id() == 0) continue;
        ys.push_back(recorded[i]);
        cotangents.push_back(cotangent_for(recorded[i]));
      }
      CHECK(entry.differentiable == !ys.empty());
      if (ys.empty()) continue;
      const Gradients gradients = tape.backward(ys, cotangents);
      for (const Tensor& x : inputs) {
        CHECK(gradients.reached(x));
        CHECK(gradients[x].shape() == x.shape());
        CHECK(gradients[x].dtype() == x.dtype());
      }
    }
  });
}

TEST_CASE("a differentiable tape gives the same values and gradients") {
  for_every_sample([](const OpEntry& entry, const OpSample&, const OpSample& sample) {
    if (!entry.differentiable) return;
    std::vector<Tensor> results[2];
    for (const bool differentiable : {false, true}) {
      Tape tape({.differentiable = differentiable});
      std::vector<Tensor> inputs;
      for (const Tensor& x : sample.inputs) inputs.push_back(tape.watch(x));
      const std::vector<Tensor> ys = sample.call(inputs);
      std::vector<Tensor> cotangents;
      for (const Tensor& y : ys) cotangents.push_back(cotangent_for(y));
      const Gradients gradients = tape.backward(ys, cotangents);
      for (const Tensor& y : ys) results[differentiable].push_back(y);
      for (const Tensor& x : inputs) results[differentiable].push_back(gradients[x]);
    }
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      const double scale = std::max(1.0, largest_magnitude(results[0][i]));
      const Comparison result = compare(results[1][i], results[0][i], {0, 1e-12 * scale});
      INFO(result.message);
      CHECK(result.equal);
    }
  });
}

TEST_CASE("the composition of a fused operation in plain ones gives its values") {
  for_every_sample([](const OpEntry&, const OpSample&, const OpSample& sample) {
    if (!sample.composition) return;
    const std::vector<Tensor> fused = sample.call(sample.inputs);
    const std::vector<Tensor> plain = sample.composition(sample.inputs);
    REQUIRE(fused.size() == plain.size());
    for (std::size_t i = 0; i < fused.size(); ++i) {
      const Comparison result = compare(fused[i], plain[i], {1e-12, 1e-12});
      INFO(result.message);
      CHECK(result.equal);
    }
  });
}

TEST_CASE("operations of any rank have a sample of rank 8") {
  // Those whose rank is fixed by what they do, or one less than that of the result.
  const std::set<std::string> fixed{
      "arange",          "embedding",      "attention",   "attention_with_weights",
      "attention_steps", "masked_softmax", "split_heads", "merge_heads",
      "einsum"};
  for (const OpEntry& entry : op_catalog()) {
    INFO(entry.name);
    if (fixed.count(entry.name) > 0) continue;
    int rank = 0;
    for (const OpSample& sample : entry.samples(DType::f64)) {
      for (const Tensor& x : sample.inputs) rank = std::max(rank, x.rank());
      for (const Tensor& y : sample.call(sample.inputs)) rank = std::max(rank, y.rank());
    }
    CHECK(rank == 8);
  }
}

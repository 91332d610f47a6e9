// The tape as a picture: clusters, edges, names that would break the language.
#include <tapehead/nn.hpp>
#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"

using namespace tapehead;

namespace {

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

}  // namespace

TEST_CASE("nodes, edges with shapes, and modules as clusters inside of one another") {
  Params params;
  const Linear first(params / "ffn" / "up", 3, 4);
  const Linear second(params / "ffn" / "down", 4, 3);
  Tape tape;
  const Tensor x = tape.watch(ones({2, 3}));
  {
    const InModule here("ffn");
    (void)sum(second(relu(first(x))));
  }
  const std::string dot = tape.to_dot();
  CHECK(dot.starts_with("digraph tape {\n"));
  CHECK(dot.ends_with("}\n"));
  CHECK(count(dot, "subgraph cluster_") == 3);
  CHECK(count(dot, "label=\"ffn\";") == 1);
  CHECK_THAT(dot, ContainsSubstring("  subgraph cluster_0 {\n    label=\"ffn\";\n"));
  CHECK_THAT(dot, ContainsSubstring("    subgraph cluster_1 {\n      label=\"up\";\n"));
  CHECK(count(dot, "{") == count(dot, "}"));
  // 1 watched, 4 parameters, linear, relu, linear, sum; an edge for each input.
  CHECK(count(dot, " [label=") - count(dot, " -> ") == 9);
  CHECK(count(dot, " -> ") == 3 + 1 + 3 + 1);
  CHECK(count(dot, "label=\"ffn.up.weight\"") == 1);
  CHECK(count(dot, "label=\"f32[3, 4]\"") == 1);
  CHECK_THAT(dot, ContainsSubstring("  n0 [label=\"watched\""));
  CHECK_THAT(dot, ContainsSubstring("n0 -> "));
  CHECK_THAT(dot, ContainsSubstring("dot_test.cpp:"));
}

TEST_CASE("names cannot break out of their quotes") {
  Tape tape;
  const Tensor x = tape.watch(ones({2}));
  const InModule here("a\"b\\N</c>&lt;\n\x01");
  const Tensor y = record("op\"];\\", detach(x)).input(x, [](const Tensor& dy) { return dy; });
  CHECK(y.node() == 1);
  const std::string dot = tape.to_dot();
  CHECK_THAT(dot, ContainsSubstring("label=\"a\\\"b\\\\N</c>&amp;lt;\\n \";"));
  CHECK_THAT(dot, ContainsSubstring("n1 [label=\"op\\\"];\\\\\","));
}

TEST_CASE("an empty tape is an empty graph") {
  const Tape tape;
  CHECK(count(tape.to_dot(), "n0") == 0);
}

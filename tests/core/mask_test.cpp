#include "support/catch.hpp"

#include <functional>
#include <string>
#include <vector>

#include <tapehead/mask.hpp>

using namespace tapehead;
using Cover = Mask::Cover;
using Rows = std::vector<std::string>;

namespace {

// One string per query: '#' where the key is visible.
Rows rows(const Mask& mask, std::int64_t queries, std::int64_t keys, std::int64_t batch = 0,
          std::int64_t head = 0) {
  Rows result;
  for (std::int64_t q = 0; q < queries; ++q) {
    std::string row;
    for (std::int64_t k = 0; k < keys; ++k) row += mask.sees(batch, head, q, k) ? '#' : '.';
    result.push_back(row);
  }
  return result;
}

Tensor booleans(const std::vector<bool>& values, const Shape& shape) {
  return tensor(values, shape);
}

// cover, row and dense must tell of every rectangle what sees tells of its elements. Where `exact`,
// mixed is answered only for rectangles that really are.
void check_consistent(const Mask& mask, std::int64_t batches, std::int64_t heads,
                      std::int64_t queries, std::int64_t keys, bool exact) {
  INFO(mask.name());
  const Tensor dense = mask.dense(batches, heads, queries, keys);
  REQUIRE(dense.shape() == Shape{batches, heads, queries, keys});
  REQUIRE(dense.dtype() == DType::boolean);
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const Rows truth = rows(mask, queries, keys, b, h);
      for (std::int64_t q = 0; q < queries; ++q) {
        for (std::int64_t k0 = 0; k0 < keys; ++k0) {
          std::vector<unsigned char> visible(static_cast<std::size_t>(keys - k0), 7);
          mask.row(b, h, q, visible, k0);
          for (std::int64_t k = k0; k < keys; ++k) {
            const bool seen =
                truth[static_cast<std::size_t>(q)][static_cast<std::size_t>(k)] == '#';
            REQUIRE(visible[static_cast<std::size_t>(k - k0)] == (seen ? 1 : 0));
            REQUIRE(dense.at({b, h, q, k}) == (seen ? 1 : 0));
          }
        }
      }
      for (std::int64_t q0 = 0; q0 < queries; ++q0) {
        for (std::int64_t q1 = q0 + 1; q1 <= queries; ++q1) {
          for (std::int64_t k0 = 0; k0 < keys; ++k0) {
            for (std::int64_t k1 = k0 + 1; k1 <= keys; ++k1) {
              int seen = 0;
              for (std::int64_t q = q0; q < q1; ++q) {
                for (std::int64_t k = k0; k < k1; ++k)
                  seen += truth[static_cast<std::size_t>(q)][static_cast<std::size_t>(k)] == '#';
              }
              const bool everything = seen == (q1 - q0) * (k1 - k0);
              const Cover found = mask.cover(b, h, q0, q1, k0, k1);
              INFO("queries " << q0 << ".." << q1 << ", keys " << k0 << ".." << k1);
              if (found == Cover::all) REQUIRE(everything);
              if (found == Cover::none) REQUIRE(seen == 0);
              if (exact && everything) REQUIRE(found == Cover::all);
              if (exact && seen == 0) REQUIRE(found == Cover::none);
            }
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("Named masks say what a query sees") {
  CHECK(rows(Mask(), 2, 3) == Rows{"###", "###"});
  CHECK(rows(Mask::none(), 2, 3) == Rows{"...", "..."});
  CHECK(rows(Mask::causal(4), 4, 4) == Rows{"#...", "##..", "###.", "####"});
  CHECK(rows(Mask::lengths({3, 0, 5}, 5), 2, 5, 0) == Rows{"###..", "###.."});
  CHECK(rows(Mask::lengths({3, 0, 5}, 5), 2, 5, 1) == Rows{".....", "....."});
  CHECK(rows(Mask::lengths({3, 0, 5}, 5), 2, 5, 2) == Rows{"#####", "#####"});
  CHECK(rows(Mask::window(1, 0), 4, 4) == Rows{"#...", "##..", ".##.", "..##"});
  CHECK(rows(Mask::window(0, 2), 4, 4) == Rows{"###.", ".###", "..##", "...#"});
  CHECK(rows(Mask::window(1, 0, 2, 4, Align::first), 2, 4) == Rows{"#...", "##.."});
  CHECK(rows(Mask::window(1, 0, 2, 4, Align::last), 2, 4) == Rows{".##.", "..##"});
  CHECK(rows(Mask::window(0, 1, 4, 2, Align::last), 4, 2) == Rows{"..", "#.", "##", ".#"});
  CHECK(rows(Mask::prefix({2, 0}, 4), 4, 4, 0) == Rows{"##..", "##..", "###.", "####"});
  CHECK(rows(Mask::prefix({2, 0}, 4), 4, 4, 1) == Rows{"#...", "##..", "###.", "####"});
  const Tensor documents = tensor(std::vector<std::int64_t>{7, 7, 3, 3, 3}, {1, 5});
  CHECK(rows(Mask::documents(documents), 5, 5) ==
        Rows{"##...", "##...", "..###", "..###", "..###"});
  const Tensor sources = tensor(std::vector<std::int64_t>{3, 7, 3}, {1, 3});
  CHECK(rows(Mask::documents(documents, sources), 5, 3) == Rows{".#.", ".#.", "#.#", "#.#", "#.#"});
  const Mask parity = Mask::rule([](std::int64_t b, std::int64_t h, std::int64_t q,
                                    std::int64_t k) { return (b + h + q + k) % 2 == 0; });
  CHECK(rows(parity, 2, 3) == Rows{"#.#", ".#."});
  CHECK(rows(parity, 2, 3, 1, 0) == Rows{".#.", "#.#"});
}

TEST_CASE("Causal with unequal lengths needs to be told how they line up") {
  CHECK(rows(Mask::causal(2, 4, Align::first), 2, 4) == Rows{"#...", "##.."});
  CHECK(rows(Mask::causal(2, 4, Align::last), 2, 4) == Rows{"###.", "####"});
  CHECK(rows(Mask::causal(1, 4, Align::last), 1, 4) == Rows{"####"});
  CHECK(rows(Mask::causal(4, 2, Align::first), 4, 2) == Rows{"#.", "##", "##", "##"});
  // The first two queries come before every key.
  CHECK(rows(Mask::causal(4, 2, Align::last), 4, 2) == Rows{"..", "..", "#.", "##"});
  CHECK_THROWS_WITH(Mask::causal(4).check("attention", 1, 1, 2, 4),
                    ContainsSubstring("queries 4 is not 2") && ContainsSubstring("Align::last"));
}

TEST_CASE("keep and block take booleans and read them in opposite ways") {
  const Tensor lower = booleans({true, false, false, true, true, false, true, true, true}, {3, 3});
  CHECK(rows(Mask::keep(lower, "query key"), 3, 3) == Rows{"#..", "##.", "###"});
  CHECK(rows(Mask::block(lower, "query key"), 3, 3) == Rows{".##", "..#", "..."});
  // The table's own order of axes counts.
  CHECK(rows(Mask::keep(lower, "key query"), 3, 3) == Rows{"###", ".##", "..#"});

  const Tensor by_sample = booleans({true, false, true, true}, {2, 2});
  CHECK(rows(Mask::keep(by_sample, "batch key"), 2, 2, 0) == Rows{"#.", "#."});
  CHECK(rows(Mask::keep(by_sample, "batch key"), 2, 2, 1) == Rows{"##", "##"});
  CHECK(rows(Mask::keep(by_sample, "head query"), 2, 2, 0, 0) == Rows{"##", ".."});
  CHECK(rows(Mask::keep(by_sample, "head query"), 2, 2, 0, 1) == Rows{"##", "##"});

  // Size 1 is broadcast: the mask fits any number of samples.
  const Mask one = Mask::keep(booleans({true, false}, {1, 1, 1, 2}), "batch head query key");
  one.check("op", 5, 3, 4, 2);
  CHECK(rows(one, 2, 2, 4, 2) == Rows{"#.", "#."});
  CHECK_FALSE(one.per_batch());
  CHECK_FALSE(one.per_head());

  CHECK_THROWS_AS(Mask::keep(tensor({0, 1}), "key"), DTypeError);
  CHECK_THROWS_WITH(Mask::keep(tensor({0, 1}), "key"),
                    ContainsSubstring("must be boolean, but is f32"));
  CHECK_THROWS_AS(Mask::block(tensor(std::vector<std::int64_t>{0, 1}, {2}), "key"), DTypeError);
  CHECK_THROWS_AS(Mask::keep(Tensor(), "key"), ValueError);
  CHECK_THROWS_WITH(Mask::keep(lower, "key"),
                    ContainsSubstring("[3, 3]") && ContainsSubstring("names 1 axes"));
  CHECK_THROWS_WITH(Mask::keep(lower, "key key"), ContainsSubstring("\"key\" does not fit"));
  CHECK_THROWS_WITH(Mask::keep(lower, "time key"), ContainsSubstring("\"time\" does not fit"));
}

TEST_CASE("Masks join like sets") {
  const Mask both = Mask::causal(4) & Mask::lengths({2, 4}, 4);
  CHECK(rows(both, 4, 4, 0) == Rows{"#...", "##..", "##..", "##.."});
  CHECK(rows(both, 4, 4, 1) == Rows{"#...", "##..", "###.", "####"});
  const Mask sink =
      Mask::window(1, 0) | Mask::keep(booleans({true, false, false, false}, {4}), "key");
  CHECK(rows(sink, 4, 4) == Rows{"#...", "##..", "###.", "#.##"});
  CHECK(rows(!Mask::causal(3), 3, 3) == Rows{".##", "..#", "..."});
  CHECK(rows(Mask() & Mask::causal(2), 2, 2) == Rows{"#.", "##"});
  CHECK(rows(Mask::none() | Mask::causal(2), 2, 2) == Rows{"#.", "##"});
  CHECK((Mask() & Mask()).is_all());
  CHECK_FALSE(both.is_all());
  CHECK(both.per_batch());
  CHECK_FALSE(both.per_head());
  CHECK_THROWS_WITH(Mask::causal(4) & Mask::lengths({3, 5}, 8),
                    ContainsSubstring("causal(4)") && ContainsSubstring("lengths({3, 5}, 8)") &&
                        ContainsSubstring("keys 4 is not 8"));
}

TEST_CASE("cover, row and dense agree with sees") {
  check_consistent(Mask(), 1, 1, 3, 4, true);
  check_consistent(Mask::none(), 1, 1, 3, 4, true);
  check_consistent(Mask::causal(7), 1, 1, 7, 7, true);
  for (Align align : {Align::first, Align::last}) {
    check_consistent(Mask::causal(3, 7, align), 1, 1, 3, 7, true);
    check_consistent(Mask::causal(7, 3, align), 1, 1, 7, 3, true);
  }
  check_consistent(Mask::lengths({0, 2, 5}, 5), 3, 1, 3, 5, true);
  check_consistent(Mask::prefix({0, 2, 5}, 5), 3, 1, 5, 5, true);
  check_consistent(Mask::window(2, 1), 1, 1, 7, 7, true);
  check_consistent(Mask::window(std::int64_t{1} << 62, 0), 1, 1, 5, 5, true);
  const Tensor documents = tensor(std::vector<std::int64_t>{1, 1, 2, 2, 3, 5, 1, 5, 1, 1}, {2, 5});
  check_consistent(Mask::documents(documents), 2, 1, 5, 5, false);
  const Tensor others = tensor(std::vector<std::int64_t>{2, 1, 1, 5, 5, 5}, {2, 3});
  check_consistent(Mask::documents(documents, others), 2, 1, 5, 3, false);
  for (Align align : {Align::first, Align::last}) {
    check_consistent(Mask::window(2, 1, 3, 7, align), 1, 1, 3, 7, true);
    check_consistent(Mask::window(1, 2, 7, 3, align), 1, 1, 7, 3, true);
  }
  Rng rng(3, Stream::check);
  std::vector<bool> bits(2 * 2 * 4 * 5);
  for (auto&& bit : bits) bit = rng.bernoulli(0.7);
  const Tensor table = booleans(bits, {2, 2, 4, 5});
  check_consistent(Mask::keep(table, "batch head query key"), 2, 2, 4, 5, true);
  check_consistent(Mask::block(table, "head batch query key"), 2, 2, 4, 5, true);
  check_consistent(!Mask::causal(5) | Mask::lengths({1, 4}, 5), 2, 1, 5, 5, false);
  check_consistent(Mask::window(2, 0) & Mask::documents(documents), 2, 1, 5, 5, false);
  const Mask rule = Mask::rule([](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
    return (b * 3 + h * 5 + q * k) % 3 == 0;
  });
  check_consistent(rule & Mask::causal(4), 2, 2, 4, 4, false);
}

TEST_CASE("A row longer than a join's working piece") {
  const Mask mask = Mask::window(0, 299) & !Mask::lengths({290}, 600);
  std::vector<unsigned char> visible(600);
  mask.row(0, 0, 5, visible);
  for (std::int64_t k = 0; k < 600; ++k)
    REQUIRE(visible[static_cast<std::size_t>(k)] == (k >= 290 && k <= 304 ? 1 : 0));
}

TEST_CASE("An empty rectangle is none, and empty sizes work") {
  CHECK(Mask().cover(0, 0, 3, 3, 0, 4) == Cover::none);
  CHECK(Mask::causal(0).dense(2, 1, 0, 0).shape() == Shape{2, 1, 0, 0});
  CHECK(Mask::lengths({}, 4).dense(0, 2, 3, 4).shape() == Shape{0, 2, 3, 4});
  CHECK(Mask::keep(booleans({}, {2, 0}), "query key").dense(1, 1, 2, 0).shape() ==
        Shape{1, 1, 2, 0});
}

TEST_CASE("A mask for other sizes is refused, naming both") {
  CHECK_NOTHROW(Mask().check("attention", 2, 3, 4, 5));
  CHECK_NOTHROW(Mask::window(1, 1).check("attention", 2, 3, 4, 4));
  CHECK_THROWS_AS(Mask::causal(4).check("attention", 2, 3, 4, 5), ShapeError);
  CHECK_THROWS_WITH(Mask::lengths({3, 5}, 8).check("attention", 3, 1, 2, 8),
                    ContainsSubstring("attention: mask lengths({3, 5}, 8)") &&
                        ContainsSubstring("[batch 2, keys 8]") &&
                        ContainsSubstring("[batch 3, heads 1, queries 2, keys 8]") &&
                        ContainsSubstring("batch 2 is not 3"));
  CHECK_THROWS_WITH(Mask::window(1, 1).check("attention", 1, 1, 3, 4),
                    ContainsSubstring("3 queries and 4 keys"));
  // In a join, the part that does not fit is named.
  CHECK_THROWS_WITH(
      (Mask::causal(4) & !Mask::lengths({1}, 4)).check("attention", 2, 1, 4, 4),
      ContainsSubstring("mask lengths({1}, 4)") && ContainsSubstring("batch 1 is not 2"));
  CHECK_THROWS_AS((void)Mask::lengths({1}, 4).sees(1, 0, 0, 0), IndexError);
  CHECK_THROWS_AS((void)Mask::causal(4).sees(0, 0, 0, 4), IndexError);
  CHECK_THROWS_AS((void)Mask::causal(4).sees(0, 0, -1, 0), IndexError);
  CHECK_THROWS_AS((void)Mask::causal(4).cover(0, 0, 0, 5, 0, 1), IndexError);
}

TEST_CASE("Masks refuse values that make no sense") {
  CHECK_THROWS_AS(Mask::causal(-1), ValueError);
  CHECK_THROWS_AS(Mask::window(-1, 0), ValueError);
  CHECK_THROWS_WITH(Mask::lengths({3, 9}, 8), ContainsSubstring("sample 1 has 9"));
  CHECK_THROWS_WITH(Mask::lengths({-3}, 8), ContainsSubstring("sample 0 has -3"));
  CHECK_THROWS_WITH(Mask::prefix({9}, 8), ContainsSubstring("sample 0 has 9"));
  CHECK_THROWS_AS(Mask::documents(tensor({{1, 2}})), DTypeError);
  CHECK_THROWS_AS(Mask::documents(arange(3)), ShapeError);
  const Tensor two = tensor(std::vector<std::int64_t>{0, 1, 2, 3}, {2, 2});
  CHECK_THROWS_WITH(Mask::documents(two, tensor(std::vector<std::int64_t>{0, 1}, {1, 2})),
                    ContainsSubstring("batch of 2, keys of one of 1"));
  CHECK_THROWS_AS(Mask::window(1, 1, -1, 2, Align::last), ValueError);
  CHECK_THROWS_AS(Mask::rule(nullptr), ValueError);
}

TEST_CASE("A user's rule is called once for each element, on the calling thread") {
  int calls = 0;
  const Mask counted = Mask::rule([&calls](std::int64_t, std::int64_t, std::int64_t q,
                                           std::int64_t k) { return ++calls, k <= q; });
  const Mask table = (counted & Mask::lengths({2, 3}, 3)).tabulated(2, 2, 3, 3);
  CHECK(calls == 2 * 2 * 3 * 3);
  CHECK(rows(table, 3, 3, 0, 1) == Rows{"#..", "##.", "##."});
  CHECK(rows(table, 3, 3, 1, 0) == Rows{"#..", "##.", "###"});
  CHECK(calls == 2 * 2 * 3 * 3);
}

TEST_CASE("Names and pictures") {
  CHECK(Mask().name() == "all");
  CHECK(Mask::causal(2, 4, Align::last).name() == "causal(2, 4, last)");
  CHECK((Mask::causal(8) & Mask::lengths({3, 5}, 8)).name() == "causal(8) & lengths({3, 5}, 8)");
  CHECK(((Mask::causal(8) | Mask::window(1, 1)) & !Mask::none()).name() ==
        "(causal(8) | window(1, 1)) & !none");
  CHECK((!(Mask::causal(8) | Mask::window(1, 1))).name() == "!(causal(8) | window(1, 1))");
  CHECK(Mask::lengths(std::vector<std::int64_t>(9, 1), 2).name() ==
        "lengths({1, 1, 1, 1, 1, 1, ... 9 in all}, 2)");
  CHECK(Mask::rule([](auto...) { return true; }, "dilated").name() == "dilated");
  CHECK(to_string(Mask::causal(3, 7, Align::last), 3, 7) ==
        "causal(3, 7, last): sample 0, head 0, # visible, . blocked\n"
        "      key\n"
        "query 0    5\n"
        "    0 #####..\n"
        "    1 ######.\n"
        "    2 #######\n");
}

TEST_CASE("A picture with the tokens beside it") {
  CHECK(to_string(Mask::causal(3), {"the", "c\u00e4t", "s"}, {"the", "c\u00e4t", "s"}) ==
        "causal(3): sample 0, head 0, # visible, . blocked\n"
        "    tc\n"
        "    h\u00e4\n"
        "    ets\n"
        "the #..\n"
        "c\u00e4t ##.\n"
        "  s ###\n");
  CHECK_THROWS_AS(to_string(Mask::causal(3), {"a"}, {"a", "b", "c", "d"}), IndexError);
}

TEST_CASE("The lint names the classic mistakes and lets sound masks pass") {
  const auto hints = [](const Mask& mask, std::int64_t queries, std::int64_t keys) {
    std::string all;
    for (const std::string& hint : lint(mask, 2, 2, queries, keys)) all += hint + "\n";
    return all;
  };
  for (const Mask& mask : {Mask(), Mask::causal(4), Mask::lengths({4, 2}, 4), Mask::window(1, 1),
                           Mask::causal(4) & Mask::lengths({4, 2}, 4), Mask::prefix({2, 3}, 4)}) {
    CHECK(hints(mask, 4, 4) == "");
  }
  CHECK(hints(Mask::causal(2, 4, Align::last), 2, 4) == "");
  CHECK(hints(Mask(), 0, 0) == "");
  CHECK_THAT(hints(Mask::causal(4, 3, Align::last), 4, 3),
             ContainsSubstring("query 0 of sample 0, head 0 sees nothing"));
  // Padding flags of keys, broadcast over them.
  const Tensor real = booleans({true, true, true, true, true, false}, {2, 3});
  CHECK_THAT(hints(Mask::keep(real, "batch query"), 3, 3),
             ContainsSubstring("said of queries in place of keys") &&
                 ContainsSubstring("query 2 of sample 1, head 0 sees nothing"));
  CHECK(hints(Mask::keep(real, "batch key"), 3, 3) == "");
  const Tensor lower = booleans({true, false, false, true, true, false, true, true, true}, {3, 3});
  CHECK_THAT(hints(Mask::keep(lower, "key query"), 3, 3), ContainsSubstring("transposed"));
  CHECK_THAT(hints(Mask::block(lower, "query key"), 3, 3),
             ContainsSubstring("keep in place of block") && ContainsSubstring("query 2"));
  CHECK(hints(Mask::keep(lower, "query key"), 3, 3) == "");
  CHECK_THROWS_AS(lint(Mask::causal(4), 1, 1, 3, 4), ShapeError);
}

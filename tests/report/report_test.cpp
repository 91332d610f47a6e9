#include "report/heat_map.hpp"
#include "report/progress_line.hpp"
#include "report/samples.hpp"
#include "support/catch.hpp"

using namespace tapehead;

TEST_CASE("a heat map in text: shades in fifths of the largest value") {
  // 0.5 is the largest: shares 0, 0.24, 0.44, 0.64, 0.84 and 1.
  const report::HeatMap map{tensor({{0.0, 0.12, 0.22}, {0.32, 0.42, 0.5}}),
                            {"a", "b"},
                            {"x", "<36>", "z"},
                            "Weights",
                            "output",
                            "input"};
  CHECK(report::text_picture(map) ==
        "Weights\n"
        "down: output, across: input; darkest: 0.50\n"
        "   x   z\n"
        "a \u2502  \u2591\u2591\u2592\u2592\u2502\n"
        "b \u2502\u2593\u2593\u2588\u2588\u2588\u2588\u2502\n");
}

TEST_CASE("a large heat map is shown coarser and keeps its bright spots") {
  const std::int64_t n = 70;
  std::vector<double> values(static_cast<std::size_t>(n * n), 0.0);
  values[static_cast<std::size_t>(4 * n + 65)] = 0.25;
  const report::HeatMap map{tensor(std::span<const double>(values), {n, n}),
                            std::vector<std::string>(70, "r"),
                            std::vector<std::string>(70, "c"),
                            "Large",
                            "row",
                            "column"};
  const std::string text = report::text_picture(map);
  CHECK_THAT(text, ContainsSubstring("the largest of 3 x 3 positions"));
  // Row 4 is in the second band of three, column 65 in the 22nd.
  std::string row = "r \u2502";
  for (int cell = 0; cell < 24; ++cell) row += cell == 21 ? "\u2588\u2588" : "  ";
  CHECK_THAT(text, ContainsSubstring(row + "\u2502\n"));
}

TEST_CASE("a heat map of zeros or of wrong labels") {
  const report::HeatMap zero{zeros({1, 1}), {"a"}, {"b"}, "t", "r", "c"};
  CHECK_THAT(report::text_picture(zero), ContainsSubstring("a \u2502  \u2502"));
  const report::HeatMap unlabelled{zeros({2, 1}), {"a"}, {"b"}, "t", "r", "c"};
  CHECK_THROWS_AS(report::text_picture(unlabelled), ShapeError);
  CHECK_THROWS_AS(report::svg_picture(unlabelled), ShapeError);
}

TEST_CASE("an SVG heat map is one whole file with escaped labels") {
  const report::HeatMap map{tensor({{0.25, 1.0}}), {"<36>"}, {"a&b", "\""}, "Title <1>", "r", "c"};
  const std::string svg = report::svg_picture(map);
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK_THAT(svg, ContainsSubstring("&lt;36&gt; to a&amp;b: 0.2500") &&
                      ContainsSubstring("&lt;36&gt; to &quot;: 1.0000") &&
                      ContainsSubstring("Title &lt;1&gt;"));
  CHECK(svg.find("<36>") == std::string::npos);
  CHECK(svg.find("href") == std::string::npos);  // nothing from outside
  CHECK(svg.find("<script") == std::string::npos);
}

TEST_CASE("numbers and durations for people") {
  CHECK(report::thousands(0) == "0");
  CHECK(report::thousands(999) == "999");
  CHECK(report::thousands(1000) == "1,000");
  CHECK(report::thousands(-1234567) == "-1,234,567");
  CHECK(report::duration(0.2) == "1 s");
  CHECK(report::duration(59.5) == "1 min 0 s");
  CHECK(report::duration(200) == "3 min 20 s");
  CHECK(report::duration(7500) == "2 h 5 min");
}

TEST_CASE("a progress line drops what matters less where it is narrow") {
  // Two of three tokens are right.
  const Tensor logits = tensor({{{1, 0}, {0, 1}, {1, 0}}});
  const Tensor targets = tensor({{0, 1, 1}}, DType::i64);
  const StepReport step{1500,    3000, 2,      0.0123456789, 1e-3,   1.0,
                        450'000, 30.0, logits, targets,      nullptr};
  CHECK(report::progress_line(step, 4, 200) ==
        "epoch 2/4  step 1,500/3,000  loss 0.0123457  accuracy 66.67%  15,000 tokens/s  30 s left");
  CHECK(report::progress_line(step, 4, 75) ==
        "epoch 2/4  step 1,500/3,000  loss 0.0123457  accuracy 66.67%  30 s left");
  CHECK(report::progress_line(step, 4, 40) == "step 1,500/3,000  loss 0.0123457");
  CHECK(report::progress_line(step, 4, 15) == "loss 0.0123457");
  CHECK(report::progress_line(step, 4, 5).empty());
}

TEST_CASE("samples show what is right and what would have been") {
  const Task task = make_task("reverse", {.symbols = 12, .length = 3});
  Batch samples;
  samples.inputs = tensor({{1, 2, 11}, {3, 4, 5}}, DType::i64);
  samples.targets = tensor({{11, 2, 1}, {5, 4, 3}}, DType::i64);
  const Tensor predicted = tensor({{11, 2, 1}, {5, 4, 4}}, DType::i64);
  CHECK(report::sample_table(task, samples, predicted) ==
        "  input  prediction  right\n"
        "  12b    b21         \u2713\n"
        "  345    544         \u2717 543\n");
  const std::vector<std::int64_t> ids = {36, 1, 2};
  CHECK(report::symbols_text(task.inputs, ids, 2) == "<36>1...");
  CHECK(report::shown("a\n\x01\xFF\u00e9") == "a\u21B5\u00B7\u00B7\u00e9");

  // What does not count is neither shown nor judged.
  samples.targets = tensor({{-1, 2, 1}, {-1, 4, 4}}, DType::i64);
  samples.lengths = {3, 2};
  CHECK(report::sample_table(task, samples, predicted) ==
        "  input  prediction  right\n"
        "  12b    21          \u2713\n"
        "  34     44          \u2713\n");
}

// What the report is made of: frames of attention, scores of heads, curves, the page itself.
#include <cmath>

#include "io/json.hpp"
#include "report/film.hpp"
#include "report/film_file.hpp"
#include "report/page.hpp"
#include "report/samples.hpp"
#include "support/catch.hpp"

using namespace tapehead;
using detail::Json;
using detail::parse_json;

namespace {

struct Small {
  explicit Small(std::int64_t length = 6, std::int64_t layers = 2, std::int64_t heads = 2)
      : config(default_config("reverse")) {
    config.options.length = length;
    config.sizes = {.train = 40, .validation = 10, .test = 10};
    config.model.stack.layers = layers;
    config.model.stack.width = 8 * heads;
    config.model.stack.heads = heads;
    problem = load(config);
    model.emplace(params, config.model);
  }
  [[nodiscard]] report::Film film() const { return {problem.task, problem.data.test}; }

  RunConfig config;
  Loaded problem;
  Params params{1};
  std::optional<Model> model;
};

std::vector<std::int64_t> steps_of(const Json& film) {
  std::vector<std::int64_t> steps;
  for (const Json& frame : *film.find("frames")->get<Json::Array>())
    steps.push_back(*frame.find("step")->natural());
  return steps;
}

}  // namespace

TEST_CASE("base64 of RFC 4648's examples") {
  CHECK(report::base64("").empty());
  CHECK(report::base64("f") == "Zg==");
  CHECK(report::base64("fo") == "Zm8=");
  CHECK(report::base64("foo") == "Zm9v");
  CHECK(report::base64("foobar") == "Zm9vYmFy");
  CHECK(report::base64("\xff\xff\xfe") == "///+");
}

TEST_CASE("parameters are grouped by module") {
  CHECK(report::group_of("encoder.layers.0.attention.query.weight") ==
        "encoder.layers.0.attention");
  CHECK(report::group_of("encoder.layers.12.norm1.gain") == "encoder.layers.12.norm1");
  CHECK(report::group_of("input.weight") == "input");
  CHECK(report::group_of("bias") == "bias");
}

TEST_CASE("scores of a head, by hand") {
  // Two heads; head 1 of one sequence "a b a": row 2 looks back at what followed the first a.
  const Tensor weights = tensor({{{{1.0, 0.0, 0.0}, {1.0, 0.0, 0.0}, {1.0, 0.0, 0.0}},
                                  {{1.0, 0.0, 0.0}, {0.25, 0.75, 0.0}, {0.25, 0.5, 0.25}}}});
  const std::vector<std::int64_t> letters{0, 1, 0};
  const Tensor ids = tensor(std::span<const std::int64_t>(letters), {1, 3});
  const report::HeadScores s = report::head_scores(weights, 1, ids, {});
  const double row1 = -0.25 * std::log(0.25) - 0.75 * std::log(0.75);
  const double row2 = 2 * -0.25 * std::log(0.25) - 0.5 * std::log(0.5);
  CHECK(s.entropy == Approx((row1 + row2) / 3).epsilon(1e-12));
  CHECK(s.previous == Approx((0.25 + 0.5) / 2).epsilon(1e-12));
  CHECK(s.first == Approx((1 + 0.25 + 0.25) / 3).epsilon(1e-12));
  CHECK(s.induction == Approx(0.5).epsilon(1e-12));
  // Only the first two queries are real: no token has occurred before.
  const report::HeadScores two = report::head_scores(weights, 1, ids, {2});
  CHECK(two.previous == Approx(0.25).epsilon(1e-12));
  CHECK(std::isnan(two.induction));
  const report::HeadScores cross = report::head_scores(weights, 1, Tensor(), {});
  CHECK((std::isnan(cross.previous) && std::isnan(cross.induction) && !std::isnan(cross.first)));
}

TEST_CASE("a frame holds every head's map of the probes in bytes") {
  const Small small;
  report::Film film = small.film();
  film.add(7, *small.model, small.params, {});
  const Json json = parse_json(film.json());
  const auto& maps = *json.find("maps")->get<Json::Array>();
  REQUIRE(maps.size() == 3 * 2 * 2);  // probes, layers, heads
  CHECK(*maps[3].find("name")->get<std::string>() == "layer 1, head 1");
  CHECK(*maps[5].find("probe")->natural() == 1);
  const auto& frame = json.find("frames")->get<Json::Array>()->front();
  const Tensor weights = small.model->with_weights(small.problem.data.test.take(0, 3)).weights[1];
  std::string bytes;
  for (std::int64_t t = 0; t < 6; ++t) {
    for (std::int64_t s = 0; s < 6; ++s)
      bytes += static_cast<char>(std::lround(255 * weights.at({1, 1, t, s})));
  }
  CHECK(*frame.find("maps")->get<Json::Array>()->at(7).get<std::string>() == report::base64(bytes));
  CHECK(frame.find("scores")->get<Json::Array>()->size() == 4);
}

TEST_CASE("a long film drops every second frame but never the last") {
  const Small small;
  report::Film film = small.film();
  for (std::int64_t step = 1; step <= 200; ++step) film.add(step, *small.model, small.params, {});
  const Json json = parse_json(film.json());
  CHECK(*json.find("every")->natural() == 4);
  const std::vector<std::int64_t> steps = steps_of(json);
  CHECK(steps.size() <= 61);
  CHECK(steps.front() == 1);
  CHECK(steps[1] == 5);
  CHECK(steps.back() == 200);
}

TEST_CASE("a film that is restored goes on as if it had never been put away") {
  const Small small;
  report::Film whole = small.film();
  report::Film first = small.film();
  for (std::int64_t step = 1; step <= 150; ++step) {
    whole.add(step, *small.model, small.params, {});
    if (step <= 90) first.add(step, *small.model, small.params, {});
  }
  report::Film second = small.film();
  second.restore(first.json(), 90);
  for (std::int64_t step = 91; step <= 150; ++step)
    second.add(step, *small.model, small.params, {});
  CHECK(second.json() == whole.json());
}

TEST_CASE("a film that does not fit is passed over") {
  const Small small;
  report::Film film = small.film();
  for (std::int64_t step = 1; step <= 3; ++step) film.add(step, *small.model, small.params, {});
  const std::string text = film.json();
  REQUIRE(report::read_film(text));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, from.size(), to);
  };
  CHECK(report::read_film(with("\"step\":3", "\"step\":9")));
  const std::vector<std::string> broken{"",
                                        "{",
                                        "[]",
                                        "null",
                                        with("\"frames\"", "\"frame\""),
                                        with("\"probes\"", "\"probe\""),
                                        with("\"maps\"", "\"map\""),
                                        with("\"heads\"", "\"head\""),
                                        with("\"scores\"", "\"score\""),
                                        with("\"norms\"", "\"norm\""),
                                        with("\"groups\"", "\"group\""),
                                        with("\"rows\":6", "\"rows\":0"),
                                        with("\"rows\":6", "\"rows\":100000"),
                                        with("\"columns\":6", "\"columns\":5"),
                                        with("\"step\":3", "\"step\":1e308"),
                                        with("\"step\":3", "\"step\":\"a\""),
                                        with("\"step\":3", "\"step\":2"),
                                        with("\"step\":3", "\"step\":-1"),
                                        with("\"every\":1", "\"every\":0"),
                                        with("\"every\":1", "\"every\":4611686018427387904"),
                                        with("\"index\":2", "\"index\":9223372036854775807"),
                                        with("\"index\":2", "\"index\":1"),
                                        with("\"probe\":0", "\"probe\":3"),
                                        with("\"norms\":[]", "\"norms\":[[1,2,3]]"),
                                        with("\"cross\":false", "\"cross\":0"),
                                        text + std::string(1'000'000, ' ')};
  for (const std::string& one : broken) {
    INFO(one.substr(0, 100));
    CHECK_FALSE(report::read_film(one));
    report::Film next = small.film();
    next.restore(one, 90);
    next.add(7, *small.model, small.params, {});
    CHECK(steps_of(parse_json(next.json())) == std::vector<std::int64_t>{7});
  }
  // One of a larger model, whose frames hold other maps.
  const Small large(6, 3);
  report::Film other = large.film();
  other.restore(text, 90);
  other.add(7, *large.model, large.params, {});
  CHECK(steps_of(parse_json(other.json())) == std::vector<std::int64_t>{7});
}

TEST_CASE("large models keep within the budget by fewer probes and positions") {
  const Small large(64, 4, 8);
  report::Film film = large.film();
  for (std::int64_t step = 1; step <= 14; ++step) film.add(step, *large.model, large.params, {});
  const Json json = parse_json(film.json());
  CHECK(json.find("probes")->get<Json::Array>()->size() == 1);
  CHECK(*json.find("positions")->natural() < 48);
  CHECK(*json.find("of")->natural() == 64);
  const std::string page = report::html_report(
      {large.config, large.problem, large.params, *large.model, "", "", film.json()});
  CHECK(page.size() < 1'000'000);
  CHECK_THAT(page, ContainsSubstring("left out, as it would take long"));
}

TEST_CASE("many evaluations and long names do not make the page large") {
  Small small;
  small.problem.task.outputs =
      Vocabulary({std::string(100'000, 'x'), "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  std::string metrics = "step\n";
  for (int step = 1; step <= 50'000; ++step)
    metrics += std::to_string(step) + ",1,1,1,1,1,1.5,0.5,0.25\n";
  const std::string page = report::html_report(
      {small.config, small.problem, small.params, *small.model, metrics, "", ""});
  CHECK(page.size() < 200'000);
  CHECK(report::shown(std::string(40, 'x')) == std::string(32, 'x') + "\u2026");
}

TEST_CASE("curves are means of neighbouring rows, and every evaluation") {
  const char* metrics =
      "step,loss,lr,grad_norm,tokens,seconds,validation_loss,validation_accuracy,validation_exact\n"
      "1,4,0.1,8,10,0.5,,,\n"
      "2,2,0.2,6,20,0.6,1.5,0.5,0.25\n"
      "3,1,0.3,4,30,0.7,,,\n"
      "4,0,0.4,2,40,0.8,1,0.75,0.5\n";
  CHECK(report::curves_json(metrics, 2) ==
        R"({"step":[1.5,3.5],"loss":[3.0,0.5],"lr":[0.15000000000000002,0.35],)"
        R"("grad_norm":[7.0,3.0],"evaluated":[2.0,4.0],"validation_loss":[1.5,1.0],)"
        R"("validation_accuracy":[0.5,0.75],"validation_exact":[0.25,0.5]})");
  CHECK(parse_json(report::curves_json("", 10)).find("step")->get<Json::Array>()->empty());
}

TEST_CASE("the page stands alone and nothing in the data can end its script") {
  const Small small;
  report::Film film = small.film();
  film.add(1, *small.model, small.params, {});
  const std::string page =
      report::html_report({small.config, small.problem, small.params, *small.model, "step\n",
                           R"({"status": "</script><script>alert(1)</script>"})", film.json()});
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK(page.find("alert(1)</script>") == std::string::npos);
  CHECK_THAT(page, ContainsSubstring("\\u003c/script>"));
  for (const char* outside : {"src=", "href=", "@import", "url("})
    CHECK(page.find(outside) == std::string::npos);
  const std::size_t begin = page.find("id=\"data\">") + 10;
  const Json data = parse_json(page.substr(begin, page.find("</script>", begin) - begin));
  CHECK(*data.find("gradcheck")->find("status")->get<std::string>() == "pass");
  CHECK(data.find("samples")->get<Json::Array>()->size() == 10);
  CHECK(data.find("positions")->get<Json::Array>()->size() == 6);
}

#include <limits>

#include <tapehead/error.hpp>

#include "io/hash.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using namespace tapehead;
using detail::Json;
using detail::parse_json;

TEST_CASE("JSON is printed in the order of writing") {
  Json json;
  json.set("b", 1).set("a", "x\"\n").set("list", Json::Array{true, Json(), 0.5}).set("b", 2);
  CHECK(to_string(json) == R"({"b":2,"a":"x\"\n","list":[true,null,0.5]})");
  CHECK(to_string(Json(std::numeric_limits<double>::infinity())) == "null");
  CHECK(to_string(Json(std::uint64_t{0xffffffffffffffff})) == "18446744073709551615");
  CHECK(to_string(Json(std::string("a\xff"))) == "\"a\ufffd\"");
  CHECK(to_string(Json::object()) == "{}");
}

TEST_CASE("JSON that is read keeps kinds and bits") {
  const Json json = parse_json(R"( {"n": 3, "x": 0.1, "big": 18446744073709551615, "l": [-1]} )");
  CHECK(*json.find("n")->natural() == 3);
  CHECK(*json.find("x")->get<double>() == 0.1);
  CHECK(*json.find("big")->get<std::uint64_t>() == 0xffffffffffffffff);
  CHECK((*json.find("l")->get<Json::Array>())[0].natural() == nullptr);
  CHECK(json.find("none") == nullptr);
  CHECK_THROWS_WITH(parse_json("{} {}"), ContainsSubstring("not valid JSON"));
  CHECK_THROWS_WITH(parse_json("{\"a\": {\"b\":1,\"b\":1}}"),
                    ContainsSubstring("'b' is given twice"));
  CHECK_THROWS_AS(parse_json(""), ValueError);
}

TEST_CASE("FNV-1a gives its published values") {
  detail::Fnv1a empty;
  CHECK(empty.value() == 0xcbf29ce484222325u);
  detail::Fnv1a hash;
  hash.add("foobar", 6);
  CHECK(hash.value() == 0x85944171f73967e8u);
}

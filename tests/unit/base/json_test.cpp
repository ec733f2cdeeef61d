#include "common/base/json.h"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

using namespace poolmark;

TEST_CASE("keys that stand twice: refused, or the last one counts at the first one's place") {
  const std::string twice = R"({"a": 1, "b": {"a": [2], "c": 3, "a": {"x": 4}}, "a": 5, "d": 6})";
  CHECK_FALSE(ParseJson(twice).ok());
  JsonLimits lenient;
  lenient.reject_duplicate_keys = false;
  const auto json = ParseJson(twice, "x", lenient);
  REQUIRE(json.ok());
  CHECK(json->dump() == R"({"a":5,"b":{"a":{"x":4},"c":3},"d":6})");
  // Each key is looked up once, however many stand before it: 200 000 of them by linear search take minutes.
  std::string many = "{";
  for (int i = 0; i < 200'000; ++i) many += "\"" + std::to_string(i) + "\":0,";
  lenient.max_bytes = 8u << 20;
  const auto wide = ParseJson(many + "\"7\":1}", "x", lenient);
  REQUIRE(wide.ok());
  CHECK(wide->size() == 200'000);
  CHECK(wide->items().begin().value() == 0);
}

TEST_CASE("JSON is read strictly and errors say where") {
  CHECK(ParseJson(R"({"a": [1, 2.5, "x"]})").ok());
  for (const char* bad : {"", "{", "[1,]", "NaN", "[Infinity]", "{\"a\":1,\"a\":2}", "1 2", "\"\\ud800\"",
                          "1e400", "{'a':1}"}) {
    CAPTURE(bad);
    auto parsed = ParseJson(bad, "plan.json");
    REQUIRE_FALSE(parsed.ok());
    CHECK(std::string(parsed.status().message()).find("plan.json") == 0);
  }
  CHECK_FALSE(ParseJson(std::string(1'000'000, '[')).ok());
  CHECK_FALSE(ParseJson("[1,2,3]", "x", {.max_bytes = 3}).ok());
}

TEST_CASE("JSON lines name the line of an error") {
  auto rows = ParseJsonLines("{\"a\":1}\n\n{\"a\":\n", "rows.jsonl");
  REQUIRE_FALSE(rows.ok());
  CHECK(std::string(rows.status().message()).find("rows.jsonl:3") == 0);
}

TEST_CASE("numbers that are not finite are never written", "[K2]") {
  CHECK_FALSE(DumpJson(Json(std::numeric_limits<double>::quiet_NaN())).ok());
  CHECK_FALSE(PythonDumps(Json{{"a", std::numeric_limits<double>::infinity()}}).ok());
}

TEST_CASE("Python's dump is reproduced byte for byte", "[K7]") {
  Json value = Json::parse(R"({"b":1,"a":[1.0,1e16,1e-5,0.1,-0.0,true,null],"z":"é\u2028😀\u007f\"/"})");
  CHECK(
      *PythonDumps(value) ==
      R"({"a": [1.0, 1e+16, 1e-05, 0.1, -0.0, true, null], "b": 1, "z": "\u00e9\u2028\ud83d\ude00\u007f\"/"})");
  CHECK(*PythonDumps(Json::parse(R"({"b":1,"a":2})"), false) == R"({"b": 1, "a": 2})");
  CHECK(PythonFloat(123456789012345680.0) == "1.2345678901234568e+17");
  CHECK(PythonFloat(1e22) == "1e+22");
  CHECK(PythonFloat(9007199254740993.0) == "9007199254740992.0");
}

// Settings as a job keeps them, and what a reader is told of them.
#include "common/workload/stored_settings.h"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

using namespace poolmark;
using namespace poolmark::workload;

namespace {

std::map<std::string, Setting> Settings(const std::string& text) {
  const auto list = SettingsOf(*ParseJson(text));
  INFO(list.status().ToString());
  REQUIRE(list.ok());
  std::map<std::string, Setting> out;
  for (const Setting& setting : *list) out[setting.name] = setting;
  return out;
}

std::vector<std::string> Notes(const std::string& text) {
  const auto spec = ParseStored(*ParseJson(text));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return ReplayNotes(*spec);
}

const std::string kCommon =
    R"(,"seed":7,"answers":"recorded","api":"completions","prompt":"text","vocabulary":[10,90],"token_scale":"1/4","ignore_eos":false,"model":"m"})";

}  // namespace

TEST_CASE("every setting that a workload can have is listed with its value", "[M21][D1]") {
  const std::vector<std::string> all = {
      R"({"shape":"synthetic","sessions":5,"groups":2,"prefix":3,"turns":4,"input":5,"growth":6,"output":7,"think":"8s","users":9,"arrivals":"gamma","cv":1.5)" +
          kCommon,
      R"({"shape":"shared-prompt","sessions":5,"prefix":3,"history":2,"turns":4,"input":5,"growth":6,"output":7,"think":"8s","users":9,"arrivals":"gamma","cv":1.5)" +
          kCommon,
      R"({"shape":"agentic","file":"f","limit":3,"load_duration":"20m","warm_up":"5m","think":"recorded","think_cap":"2s","time_scale":0.1,"start":[0.2,0.5])" +
          kCommon,
      R"({"shape":"trace","file":"f","format":"mooncake","limit":3,"block_tokens":512)" + kCommon};
  for (const std::string& text : all) {
    INFO(text);
    const auto settings = Settings(text);
    const Json options = *ParseJson(text);
    CHECK(settings.size() == options.size() - 1);
    for (const auto& [key, value] : options.items()) {
      if (key == "shape") continue;
      INFO(key);
      REQUIRE(settings.contains(key));
      CHECK(settings.at(key).written);
      const std::string& shown = settings.at(key).value;
      if (key == "vocabulary") {
        CHECK(shown == "[10, 90)");
      } else if (key == "start") {
        CHECK(shown == "[0.2, 0.5]");
      } else {
        CHECK(shown == (value.is_string() ? value.get<std::string>() : value.dump()));
      }
    }
  }
}

TEST_CASE("defaults are listed as such", "[M21]") {
  const auto settings = Settings(R"({"shape":"agentic","file":"f","load_duration":"1200s"})");
  CHECK(settings.at("load_duration").value == "20m");
  CHECK(settings.at("load_duration").written);
  for (const auto& [name, value] : std::map<std::string, std::string>{{"warm_up", "5m"},
                                                                      {"think", "recorded"},
                                                                      {"time_scale", "1"},
                                                                      {"token_scale", "1"},
                                                                      {"seed", "42"},
                                                                      {"answers", "recorded"},
                                                                      {"prompt", "ids"},
                                                                      {"vocabulary", "[1000, 21000)"}}) {
    INFO(name);
    CHECK(settings.at(name).value == value);
    CHECK_FALSE(settings.at(name).written);
  }
  for (const char* none : {"limit", "think_cap", "start", "model"}) CHECK_FALSE(settings.contains(none));
  CHECK_FALSE(SettingsOf(*ParseJson(R"({"shape":"odd"})")).ok());
  CHECK_FALSE(SettingsOf(*ParseJson("[1]")).ok());
}

TEST_CASE("the default of a setting is told where it was used", "[M21]") {
  const auto value = [](const std::string& text, const char* name) {
    return DefaultOf(*ParseJson(text), name).value_or("(nothing)");
  };
  const std::string agentic = R"({"shape":"agentic","file":"f","warm_up":"1m"})";
  CHECK(value(agentic, "seed") == "42");
  CHECK(value(agentic, "think") == "recorded");
  CHECK(value(agentic, "warm_up") == "(nothing)");  // it is written
  CHECK(value(agentic, "limit") == "(nothing)");    // there is none
  CHECK(value(agentic, "turns") == "(nothing)");    // of another shape
  CHECK(value(R"({"shape":"agentic","file":"f","think":"none"})", "time_scale") == "(nothing)");
  CHECK(value(R"({"shape":"synthetic","input":3,"output":4})", "arrivals") == "poisson");
  CHECK(value(R"({"shape":"odd"})", "seed") == "(nothing)");
  CHECK(value("[1]", "seed") == "(nothing)");
}

TEST_CASE("the token scale is part of a scenario's name, however it is written", "[M21]") {
  const auto name = [](const std::string& scale) {
    return ScaledName("moon",
                      R"({"shape":"trace","file":"f","format":"mooncake","token_scale":)" + scale + "}");
  };
  CHECK(name(R"("1/64")") == "moon@1/64");
  CHECK(name(R"("2/128")") == "moon@1/64");
  CHECK(name("0.5") == "moon@1/2");
  CHECK(name(R"("0.25")") == "moon@1/4");
  CHECK(name("1") == "moon");
  CHECK(name(R"("3/3")") == "moon");
  CHECK(ScaledName("moon", "no JSON") == "moon");
  CHECK_FALSE(StoredScale("no JSON").has_value());
  CHECK_FALSE(StoredScale(R"({"shape":"odd"})").has_value());
}

TEST_CASE("a replay that is not what was recorded says in what", "[M20][M21]") {
  const std::string agentic = R"({"shape":"agentic","file":"f")";
  using Lines = std::vector<std::string>;
  CHECK(Notes(agentic + "}").empty());
  CHECK(Notes(agentic + R"(,"time_scale":0.1,"think_cap":"2s","token_scale":"1/64","limit":9})") ==
        Lines{"Token scale 1/64: prompts and answers have that share of the tokens that were recorded.",
              "Only the first 9 sessions of the file are used.",
              "Think times are 0.1 times those that were recorded.", "Think times are cut at 2s."});
  CHECK(Notes(agentic + R"(,"think":"none"})") ==
        Lines{"The recorded think times are left out: users do not pause."});
  CHECK(Notes(R"({"shape":"trace","file":"f","format":"azure-2023","limit":40})") ==
        Lines{"Only the first 40 requests of the file are used."});
  CHECK(Notes(R"({"shape":"synthetic","input":8,"output":8,"token_scale":0.5})") ==
        Lines{"Token scale 1/2: prompts and answers have that share of the tokens of their settings."});
}

// Every recorded results directory: what analyze makes of it, value by value. Each section is named after its
// case.
#include <catch2/catch.hpp>

#include "common/quality/analyze.h"
#include "common/quality/codec.h"
#include "common/quality/digests.h"
#include "tests/unit/quality/quality_data.h"

namespace poolmark::quality {
namespace {

using test::Difference;
using test::LoadJson;

VerdictSettings SettingsOf(const Json& options) {
  VerdictSettings s;
  s.metric = options.value("metric", "match");
  s.tolerance = options.value("tolerance", 0.05);
  s.min_blend_share = options.value("min_blend_share", 0.3);
  s.min_reuse_ratio = options.value("min_reuse_ratio", 0.8);
  if (options.contains("judge_model")) s.judge_model = options.at("judge_model").get<std::string>();
  return s;
}

// Ratings from the cache lines before and after the case; the judge itself is tested elsewhere.
JudgeTable Ratings(const std::string& dir) {
  JudgeTable table;
  for (const char* file : {"/input/judge_cache.jsonl", "/expected/judge_cache_new.jsonl"}) {
    Result<std::string> text = ReadFile(dir + file);
    if (!text.ok()) continue;
    size_t begin = 0;
    while (begin < text->size()) {
      size_t end = std::min(text->find('\n', begin), text->size());
      Result<Json> line = ParseJson(text->substr(begin, end - begin), "cache");
      begin = end + 1;
      if (!line.ok() || !line->contains("ratings")) continue;
      auto rating = [&](int i) {
        const Json& value = line->at("ratings")[i];
        return value.is_null() ? std::nullopt : std::optional(value.get<double>());
      };
      table.by_key[line->at("key").get<std::string>()] = {rating(0), rating(1), std::nullopt};
    }
  }
  return table;
}

void CheckRows(const std::string& expected_file, const std::string& rows) {
  std::vector<Json> want = ParseJsonLines(*ReadFile(expected_file), expected_file).value();
  std::vector<Json> have = ParseJsonLines(rows, "rows").value();
  REQUIRE(want.size() == have.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("row " << i + 1);
    CHECK(Difference(want[i], have[i]) == "");
  }
}

void CheckSummary(const Json& expected, const Json& case_file, const std::string& text) {
  Json want = expected;
  Json have = ParseJson(text, "summary").value();
  // Reasons: how many, and which; the wording is ours.
  const Json& tags = case_file.at("invalid_reasons");
  REQUIRE(have.at("invalid_reasons").size() == tags.size());
  for (size_t i = 0; i < tags.size(); ++i) {
    std::string tag = tags[i].get<std::string>();
    std::string reason = have.at("invalid_reasons")[i].get<std::string>();
    INFO(reason);
    size_t colon = tag.find(':');
    CHECK(reason.substr(0, reason.find(':')) == tag.substr(0, colon));
    if (colon != tag.npos) CHECK(reason.find(tag.substr(colon + 1)) != reason.npos);
  }
  want.erase("invalid_reasons");
  have.erase("invalid_reasons");
  CHECK(Difference(want, have) == "");
  // The file's key order is the specification's.
  std::vector<std::string> want_order, have_order;
  for (auto it = want.begin(); it != want.end(); ++it) want_order.push_back(it.key());
  for (auto it = have.begin(); it != have.end(); ++it) have_order.push_back(it.key());
  CHECK(want_order == have_order);
}

}  // namespace

TEST_CASE("every recorded directory gives its rows, summary or refusal",
          "[K1][K4][K9][K13][K14][K15][K16][K21][K22][K23][K24][K25][K26][K27][K29][K33][recorded]") {
  auto data = test::QualityData();
  if (!data) return;
  int cases = 0;
  const std::vector<std::string> names = ListDir(*data).value();
  for (const std::string& name : names) {
    std::string dir = *data + "/" + name;
    if (!FileExists(dir + "/case.json")) continue;
    ++cases;
    DYNAMIC_SECTION(name) {
      Json case_file = LoadJson(dir + "/case.json");
      VerdictSettings settings = SettingsOf(case_file.at("analyze_options"));
      Result<LoadedDirectory> loaded = Directory(dir + "/input").Load(false);
      if (case_file.contains("refused")) {
        REQUIRE(!loaded.ok());
        std::string why = case_file.at("refused").get<std::string>();
        INFO(loaded.status().message());
        if (why == "schema") CHECK(ErrorOf(loaded.status()).code == "schema");
        continue;
      }
      INFO(loaded.status().message());
      REQUIRE(loaded.ok());
      JudgeTable table = Ratings(dir);
      Result<Analysis> analysis = Analyze(*loaded, settings, settings.metric == "judge" ? &table : nullptr);
      REQUIRE(analysis.ok());
      CheckRows(dir + "/expected/rows.jsonl", EncodeRows(analysis->rows).value());
      std::string summary = EncodeSummary(analysis->summary).value();
      CheckSummary(LoadJson(dir + "/expected/summary.json"), case_file, summary);
      for (const Json& ignored : case_file.at("ignored_answers_files")) {
        bool warned = false;
        for (const std::string& w : analysis->warnings)
          warned |= w.find(ignored.get<std::string>()) != w.npos;
        CHECK(warned);
      }
      // What we write, we read back to the same bytes.
      CHECK(EncodeSummary(DecodeSummary(summary, "summary").value()).value() == summary);
      std::string rows = EncodeRows(analysis->rows).value();
      CHECK(EncodeRows(DecodeRows(rows, "rows").value()).value() == rows);
    }
  }
  CHECK(cases > 0);
}

TEST_CASE("recorded plans, arms and answers survive a round trip and their digests hold",
          "[K7][K8][recorded]") {
  auto data = test::QualityData();
  if (!data) return;
  const std::vector<std::string> names = ListDir(*data).value();
  for (const std::string& name : names) {
    std::string dir = *data + "/" + name + "/input";
    if (!FileExists(dir + "/plan.json")) continue;
    DYNAMIC_SECTION(name) {
      Result<std::string> text = ReadFile(dir + "/plan.json");
      Result<Plan> plan = DecodePlan(*text, "plan.json");
      if (!plan.ok()) {
        CHECK(ErrorOf(plan.status()).code == "schema");
        continue;
      }
      bool older = !plan->padding;  // written before newer keys were recorded
      if (!older) {
        CHECK(Difference(ParseJson(*text, "").value(), ParseJson(EncodePlan(*plan).value(), "").value()) ==
              "");
        std::vector<Json> want = ParseJsonLines(*ReadFile(dir + "/manifest.jsonl"), "").value();
        std::vector<Json> have = ParseJsonLines(EncodeManifest(*plan).value(), "").value();
        CHECK(Difference(Json(want), Json(have)) == "");
      }
      for (const Sample& s : plan->samples) CHECK(PromptHash(s.messages) == s.prompt_hash);
      CHECK(PromptsDigest(plan->store_requests, plan->samples) == plan->prompts_digest);
      CHECK(PlanFingerprint(plan->settings_json, plan->prompts_digest).value() == plan->plan_fingerprint);
      for (const char* label : {"reference_1", "candidate"}) {
        std::string answers = *ReadFile(dir + "/answers_" + label + ".jsonl");
        std::vector<Answer> decoded = DecodeAnswers(answers, "answers", true).value();
        std::string again;
        for (const Answer& a : decoded) again += EncodeAnswer(a).value();
        CHECK(Difference(Json(ParseJsonLines(answers, "").value()),
                         Json(ParseJsonLines(again, "").value())) == "");
      }
    }
  }
}

}  // namespace poolmark::quality

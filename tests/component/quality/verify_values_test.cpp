// `verify` on values that no digest covers and the format fixes or bounds, and on a judge's cache that holds
// more than this comparison's ratings.
#include <catch2/catch.hpp>

#include "common/quality/digests.h"
#include "common/quality/judge_cache.h"
#include "common/quality/plan.h"
#include "common/quality/recompute.h"
#include "tests/component/quality/analyzed.h"

namespace poolmark::quality {
namespace {

using test::Analyzed;

VerdictSettings JudgedBy(const std::string& model) {
  VerdictSettings settings;
  settings.metric = "judge";
  settings.judge_model = model;
  return settings;
}

// Both prompts' ratings of every answer of the directory by `model`.
void Rate(const LoadedDirectory& loaded, const std::string& model, double answer_first,
          double reference_first, JudgeTable* table) {
  for (const Pass& pass : loaded.passes) {
    for (size_t i = 0; i < loaded.plan.samples.size(); ++i) {
      const Sample& s = loaded.plan.samples[i];
      table->by_key[JudgeKey(model, s.question, pass.answers[i].answer, s.answers[0])] = {
          answer_first, reference_first, std::nullopt};
    }
  }
}

void Save(const Analysis& analysis, const std::string& path) {
  REQUIRE(Directory(path)
              .SaveResults(EncodeRows(analysis.rows).value(), EncodeStatistics(analysis).value(),
                           EncodeSummary(analysis.summary).value())
              .ok());
}

}  // namespace

TEST_CASE("verify names settings, padding, roles and evidence that no plan can have", "[K7][K10][K11][K13]") {
  struct Change {
    const char* scenario;
    const char* pointer;
    Json value;
    const char* named;
  };
  const std::vector<Change> changes = {
      {"independent", "/settings/task", "sum", "settings.task is 'sum'"},
      {"independent", "/settings/filler", "xyz", "settings.filler is 'xyz'"},
      {"independent", "/settings/filler", "none", "settings.filler is 'none'"},
      {"concatenated", "/settings/filler", "dots", "settings.filler is 'dots' in scenario concatenated"},
      {"independent", "/settings/num_samples", 3, "settings.num_samples is 3, the plan has 24"},
      {"independent", "/plan/padding/filler", "words", "padding.filler is 'words', the settings say 'dots'"},
      {"independent", "/plan/padding/prompt_tokens", 1, "of 1 prompt tokens"},
      {"concatenated", "/plan/padding/pad_tokens", 48, "padding.pad_tokens is 48, concatenated"},
      {"concatenated", "/plan/samples/2/passages/0/pad_tokens", 2, "passages have 2 pad_tokens"},
      {"independent", "/plan/samples/2/expected_reused_tokens", 1000000000,
       "expected_reused_tokens are 1000"},
      {"independent", "/plan/samples/2/messages/0/role", "system", "q2 is not one message of the user"},
      {"independent", "/plan/store_requests/1/messages/0/role", "system",
       "store1 is not one message of the user"},
      {"independent", "/created_at", "yesterday", "plan.json: created_at is 'yesterday'"},
      // q1 has no marks of the data set: what holds its gold is the evidence.
      {"independent", "/plan/samples/1/passages/0/is_evidence", false,
       "holds a gold answer and is no evidence"},
      {"independent", "/plan/samples/1/passages/1/is_evidence", true, "is evidence and holds no gold answer"},
  };
  for (const Change& change : changes) {
    INFO(change.scenario << " " << change.pointer);
    Analyzed directory(change.scenario);
    CHECK(directory.Problems() == "");
    directory.Tamper(change.pointer, change.value);
    CHECK_THAT(directory.Problems(), Catch::Contains(change.named));
  }
  Analyzed unit("concatenated");
  unit.Tamper("/settings", [&] {
    Json settings = ParseJson(ReadFile(unit.bench.out() + "/plan.json").value())->at("settings");
    settings.erase("min_unit_tokens");
    return settings;
  }());
  CHECK_THAT(unit.Problems(), Catch::Contains("settings.min_unit_tokens is missing"));
  // What another program found as evidence by its own rule is told and no problem.
  Analyzed other("independent");
  other.Tamper("/lmcache_version", "0.4.0-1a2b3c4");
  other.Tamper("/plan/samples/1/passages/1/is_evidence", true);
  Result<VerifyReport> report = VerifyDirectory(other.bench.out());
  REQUIRE(report.ok());
  bool told = false;
  for (const std::string& warning : report->warnings)
    told |= warning.find("may find evidence otherwise") != warning.npos;
  CHECK(told);
  for (const std::string& problem : report->problems) CHECK_THAT(problem, !Catch::Contains("gold answer"));
}

TEST_CASE("verify names times and counters that no pass can have", "[K16][K31]") {
  test::QualityBench bench;
  test::FakeEngineOptions options = test::Answering();
  test::FakeEngine reference(options), candidate(options);
  bench.options.reference_url = reference.url();
  bench.options.candidate_url = candidate.url();
  bench.options.blend_metrics_url = candidate.metrics_url();
  bench.Run();
  test::AnalyzeNow(bench.out());
  CHECK(VerifyDirectory(bench.out())->problems == std::vector<std::string>{});
  std::string named;
  auto change = [&](const std::string& name, const std::function<void(Json*)>& how) {
    const std::string file = bench.out() + "/" + name;
    std::string text = ReadFile(file).value();
    const bool lines = name.ends_with("jsonl");
    const size_t end = lines ? text.find('\n') : text.size();
    Json json = ParseJson(text.substr(0, end)).value();
    how(&json);
    REQUIRE(AtomicWriteFile(file, WriteJson(json).value() + text.substr(end)).ok());
  };
  SECTION("a start that is no time") {
    change("arm_reference_1.json", [](Json* arm) { (*arm)["started_at"] = "x"; });
    named = "arm_reference_1.json: started_at is 'x'";
  }
  SECTION("no end") {
    change("arm_candidate.json", [](Json* arm) { (*arm)["finished_at"] = ""; });
    named = "arm_candidate.json: finished_at is ''";
  }
  SECTION("more served than looked up") {
    change("arm_candidate.json", [](Json* arm) { (*arm)["counters"]["non_prefix_hit_tokens"] = 1e9; });
    named = "1000000000 tokens were served, of";
  }
  SECTION("a question with more than the pass") {
    change("answers_candidate.jsonl",
           [](Json* answer) { (*answer)["counters"]["non_prefix_hit_tokens"] = 9e6; });
    named = "counters: non_prefix_hit_tokens is";
  }
  std::string problems;
  const VerifyReport report = VerifyDirectory(bench.out()).value();
  for (const std::string& problem : report.problems) problems += problem + "\n";
  CHECK_THAT(problems, Catch::Contains(named));
}

TEST_CASE("a cache with ratings of other judges and older answers changes no figure", "[K20][K29]") {
  Analyzed directory("independent");
  const std::string& path = directory.bench.out();
  const LoadedDirectory loaded = Directory(path).Load(false).value();
  JudgeTable table;
  Rate(loaded, "j", 1.0, 0.5, &table);
  const size_t own = table.by_key.size();
  REQUIRE(own == test::QualityBench::kQuestions);  // every arm gives the same answers
  Rate(loaded, "another", 0.0, 1.0, &table);
  table.by_key[JudgeKey("j", loaded.plan.samples[0].question, "an answer of an older pass",
                        loaded.plan.samples[0].answers[0])] = {0.0, 1.0, std::nullopt};
  {
    auto cache = JudgeCache::Open(path + "/judge_cache.jsonl").value();
    for (const auto& [key, rating] : table.by_key) REQUIRE(cache->Add(key, rating).ok());
  }
  const Analysis analysis = Analyze(loaded, JudgedBy("j"), &table).value();
  CHECK(analysis.statistics.judged_twice == static_cast<int64_t>(own));
  CHECK(analysis.statistics.judge_disagreements == static_cast<int64_t>(own));
  CHECK(analysis.statistics.judge_order_bias == Approx(0.5));
  Save(analysis, path);
  const Recomputed again = Recompute(loaded, path).value();
  CHECK(again.problems == std::vector<std::string>{});
  CHECK(again.analysis.statistics.judged_twice == static_cast<int64_t>(own));
  CHECK(directory.Problems() == "");
}

TEST_CASE("a judge that fails the sanity check leaves a directory that is sound, whatever the cache holds",
          "[K19][K29]") {
  Analyzed directory("independent");
  const std::string& path = directory.bench.out();
  const LoadedDirectory loaded = Directory(path).Load(false).value();
  JudgeTable rated;
  Rate(loaded, "j", 1.0, 1.0, &rated);
  {
    auto cache = JudgeCache::Open(path + "/judge_cache.jsonl").value();
    for (const auto& [key, rating] : rated.by_key) REQUIRE(cache->Add(key, rating).ok());
  }
  JudgeTable insane;
  insane.insane = "the judge rates a right known answer 1 and a wrong one 1";
  Save(Analyze(loaded, JudgedBy("j"), &insane).value(), path);
  CHECK(directory.Problems() == "");
  const Recomputed again = Recompute(loaded, path).value();
  CHECK(again.problems == std::vector<std::string>{});
  CHECK(again.stored_verdict == Verdict::kInvalid);
}

TEST_CASE("a row whose passes differ from part to part is refused by line") {
  Analyzed directory("independent");
  const std::string file = directory.bench.out() + "/rows.jsonl";
  const std::string text = ReadFile(file).value();
  const size_t end = text.find('\n') + 1;
  const size_t second_end = text.find('\n', end);
  for (const char* part : {"answers", "scores"}) {
    Json row = ParseJson(text.substr(end, second_end - end)).value();
    row[part].erase("candidate");
    const Status refused =
        DecodeRows(text.substr(0, end) + WriteJson(row).value() + text.substr(second_end), file).status();
    CHECK_THAT(std::string(refused.message()),
               Catch::Contains(file + ":2") && Catch::Contains("'answers' is not about the passes"));
  }
}

}  // namespace poolmark::quality

// Runs against engines of our own: what is sent, saved, deleted and refused.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/quality/analyze.h"
#include "common/quality/codec.h"
#include "common/quality/plan.h"
#include "common/quality/report_text.h"
#include "common/quality/runner.h"
#include "tests/component/quality/analyzed.h"
#include "tests/support/temp_dir.h"

namespace poolmark::quality {
namespace {

using test::AnalysisOf;
using test::Answering;
using test::FakeEngine;
using test::FakeEngineOptions;
using test::QualityBench;
using test::RightAnswer;
using test::TwoArms;

}  // namespace

TEST_CASE("each scenario runs, reuses what its plan expects and passes",
          "[K10][K11][K12][K13][K14][K15][K16][K25]") {
  for (const char* scenario : {"independent", "reordered", "concatenated"}) {
    DYNAMIC_SECTION(scenario) {
      QualityBench bench;
      FakeEngineOptions options = Answering();
      FakeEngine reference(options), control(options), candidate(options);
      bench.options.settings.scenario = scenario;
      if (std::string(scenario) == "concatenated") {
        bench.options.settings.filler = "none";
        bench.options.settings.min_unit_tokens = 300;
      }
      bench.options.reference_url = reference.url();
      bench.options.control_url = control.url();
      bench.options.candidate_url = candidate.url();
      bench.options.blend_metrics_url = candidate.metrics_url();
      RunReport report = bench.Run();
      CHECK(report.saved == std::vector<std::string>{"reference_1", "reference_2", "control", "candidate"});
      Result<LoadedDirectory> loaded = Directory(bench.out()).Load(true);
      REQUIRE(loaded.ok());
      const Plan& plan = loaded->plan;
      CHECK(PlanProblems(plan) == std::vector<std::string>{});
      CHECK(reference.stores() == 0);
      CHECK(candidate.stores() == static_cast<int>(plan.store_requests.size()));
      CHECK(control.stores() == candidate.stores());
      CHECK(candidate.measured() == QualityBench::kQuestions);
      CHECK(reference.measured() == 2 * QualityBench::kQuestions);
      Analysis analysis = AnalysisOf(bench.out());
      INFO(EncodeSummary(analysis.summary).value());
      CHECK(analysis.summary.verdict == Verdict::kPass);
      CHECK(analysis.summary.engagement.gate ==
            (std::string(scenario) == "concatenated" ? "reuse" : "blend_share"));
      REQUIRE(analysis.summary.reuse);
      CHECK(analysis.summary.reuse->observed_over_expected == 1.0);
      CHECK(analysis.summary.num_store_requests == static_cast<int64_t>(plan.store_requests.size()));
      // In the aligned scenarios whole passages are expected to be reused, wherever they stand.
      for (const Sample& s : plan.samples) {
        int64_t expected = *s.expected_reused_tokens;
        INFO(s.qid << " expects " << expected);
        if (plan.scenario != "concatenated") CHECK(expected % plan.chunk_size == 0);
        CHECK(expected >= plan.chunk_size * static_cast<int64_t>(s.passages.size()));
      }
    }
  }
}

TEST_CASE("requests are those of the released sender", "[K12]") {
  QualityBench bench;
  FakeEngine engine(Answering());
  bench.options.candidate_url = engine.url();
  bench.options.settings.template_kwargs = {{"enable_thinking", false}};
  bench.Run();
  std::vector<std::string> bodies = engine.bodies();
  Json store = Json::parse(bodies.front());
  Json measured = Json::parse(bodies.back());
  CHECK(store["max_tokens"] == 1);
  CHECK(measured["max_tokens"] == 64);
  for (const Json& body : {store, measured}) {
    CHECK(body["model"] == "m");
    CHECK(body["stream"] == true);
    CHECK(body["temperature"] == 0.0);
    CHECK(body["stream_options"]["include_usage"] == true);
    CHECK(body["chat_template_kwargs"]["enable_thinking"] == false);
    CHECK(body.size() == 7);
  }
}

TEST_CASE("a later run compares its plan, and another plan is refused untouched", "[K8][K32]") {
  QualityBench bench;
  FakeEngine engine(Answering());
  bench.options.reference_url = engine.url();
  bench.Run();
  std::string plan = ReadFile(bench.out() + "/plan.json").value();
  bench.options.reference_url = "";
  bench.options.candidate_url = engine.url();
  bench.Run();
  CHECK(ReadFile(bench.out() + "/plan.json").value() == plan);
  CHECK(AnalysisOf(bench.out()).summary.verdict == Verdict::kPass);

  bench.options.settings.chunk_size = 8;
  bench.options.settings.seed = 1;
  Result<RunReport> refused = bench.TryRun();
  REQUIRE(!refused.ok());
  std::string why(refused.status().message());
  INFO(why);
  CHECK(why.find("chunk_size is 8, the directory's is 16") != why.npos);
  CHECK(why.find("seed is 1, the directory's is 42") != why.npos);
  // Settings are compared before anything is read or counted for a plan.
  bench.options.dataset_file = "/nowhere/not-read.json";
  CHECK_THAT(std::string(bench.TryRun().status().message()), Catch::Contains("seed is 1"));
  CHECK(ReadFile(bench.out() + "/plan.json").value() == plan);
  CHECK(FileExists(bench.out() + "/arm_candidate.json"));
}

TEST_CASE("template arguments in another order are the same plan", "[K8]") {
  QualityBench bench;
  FakeEngine engine(Answering());
  bench.options.reference_url = engine.url();
  bench.options.settings.template_kwargs = {{"a", int64_t{1}}, {"b", true}};
  bench.Run();
  bench.options.reference_url = "";
  bench.options.candidate_url = engine.url();
  bench.options.settings.template_kwargs = {{"b", true}, {"a", int64_t{1}}};
  CHECK(bench.Run().saved == std::vector<std::string>{"candidate"});
  CHECK(AnalysisOf(bench.out()).summary.verdict == Verdict::kPass);
  bench.options.settings.template_kwargs = {{"b", true}, {"a", std::string("1")}};
  CHECK_THAT(std::string(bench.TryRun().status().message()),
             Catch::Contains(R"(template_kwargs is {"a": "1", "b": true}, the directory's is )"
                             R"({"a": 1, "b": true})"));
}

TEST_CASE("another schema version is refused before anything is sent", "[K9]") {
  QualityBench bench;
  FakeEngine engine({});
  bench.options.candidate_url = engine.url();
  REQUIRE(MakeDirs(bench.out()).ok());
  for (const char* version : {"2", "\"1\"", "1.0", "true"}) {
    REQUIRE(AtomicWriteFile(bench.out() + "/plan.json", "{\"schema_version\": " + std::string(version) + "}")
                .ok());
    Result<RunReport> refused = bench.TryRun();
    REQUIRE(!refused.ok());
    CHECK(ErrorOf(refused.status()).code == "schema");
  }
  CHECK(engine.bodies().empty());
}

TEST_CASE("a role's new pass replaces its old ones and what analyze made of them", "[K5][K6]") {
  QualityBench bench;
  FakeEngine engine(Answering());
  bench.options.reference_url = engine.url();
  bench.options.candidate_url = engine.url();
  bench.options.reference_repeats = 3;
  bench.Run();
  Directory directory(bench.out());
  REQUIRE(directory.SaveResults("rows", "statistics", "summary").ok());
  bench.options.candidate_url = "";
  bench.options.reference_repeats = 1;
  std::string candidate = ReadFile(bench.out() + "/answers_candidate.jsonl").value();
  bench.Run();
  std::vector<std::string> names = ListDir(bench.out()).value();
  CHECK(names == std::vector<std::string>{"answers_candidate.jsonl", "answers_reference_1.jsonl",
                                          "arm_candidate.json", "arm_reference_1.json", "manifest.jsonl",
                                          "plan.json", "requests_candidate.json",
                                          "requests_reference_1.json"});
  CHECK(ReadFile(bench.out() + "/answers_candidate.jsonl").value() == candidate);
}

TEST_CASE("failures are data: failed questions score 0, failed stores make the verdict INVALID",
          "[K26][K33]") {
  FakeEngineOptions options = Answering();
  options.status = [](bool store, int number) { return number == 1 ? (store ? 400 : 404) : 0; };
  TwoArms arms(options);
  QualityBench& bench = arms.bench;
  RunReport report = bench.Run();
  CHECK(report.failed_questions == 1);
  CHECK(report.failed_stores == 1);
  std::vector<Answer> answers =
      DecodeAnswers(ReadFile(bench.out() + "/answers_candidate.jsonl").value(), "answers", true).value();
  CHECK(!answers[1].successful);
  CHECK(answers[1].response.empty());
  CHECK(!answers[1].ttft_seconds);
  CHECK(ReadFile(bench.out() + "/answers_candidate.jsonl").value().find("\"ttft\": -1.0") !=
        std::string::npos);
  Analysis analysis = AnalysisOf(bench.out());
  CHECK(analysis.summary.verdict == Verdict::kInvalid);
  REQUIRE(analysis.summary.invalid_reasons.size() == 1);
  CHECK(analysis.summary.invalid_reasons[0].starts_with("store_failures: 1 of"));
  CHECK(analysis.rows[1].loss_tag == "empty");
}

TEST_CASE("each loss has its tag, and the verdict is FAIL", "[K21][K23]") {
  FakeEngineOptions options = Answering();
  options.answer = [](const std::string& question, int number) -> std::string {
    switch (number) {
      case 0:
        return "<answer>The passages do not mention it</answer>";
      case 1:
        return "<answer>cut off";
      case 2:
        return "<answer>Rivertown</answer>";
      case 3:
        return "<answer>Atlantis</answer>";
      case 4:
        return "<answer>no tags here";
      case 5:
        return "<answer>not stated</answer>";
    }
    return RightAnswer(question, number);
  };
  TwoArms arms(options);
  QualityBench& bench = arms.bench;
  bench.Run();
  Analysis analysis = AnalysisOf(bench.out());
  CHECK(analysis.rows[0].loss_tag == "abstention");
  CHECK(analysis.rows[1].loss_tag == "empty");
  CHECK(analysis.rows[2].loss_tag == "wrong_value");
  CHECK(analysis.rows[3].loss_tag == "wording");
  CHECK(analysis.rows[6].loss_tag == "none");
  CHECK(analysis.summary.verdict == Verdict::kFail);
  CHECK(analysis.statistics.losses == 6);
  CHECK(analysis.statistics.sign_test_p == Approx(0.03125));
}

TEST_CASE("a candidate that reuses nothing, or whose server restarts, is INVALID", "[K25]") {
  FakeEngineOptions options = Answering();
  std::string reason = "not_engaged";
  SECTION("nothing is blended") {
    options.reuse = FakeEngineOptions::Reuse::kPrefix;
  }
  SECTION("chunks went stale") {
    options.reuse = FakeEngineOptions::Reuse::kStale;
  }
  SECTION("the counters start again") {
    options.reset_counters_at = 7;
    reason = "counter_reset";
  }
  TwoArms arms(options);
  QualityBench& bench = arms.bench;
  bench.Run();
  Analysis analysis = AnalysisOf(bench.out());
  CHECK(analysis.summary.verdict == Verdict::kInvalid);
  bool found = false;
  for (const std::string& text : analysis.summary.invalid_reasons) found |= text.starts_with(reason);
  CHECK(found);
}

TEST_CASE("a metrics page that cannot be read is refused before the run", "[K16]") {
  QualityBench bench;
  FakeEngineOptions options;
  options.metrics = false;
  FakeEngine engine(options);
  bench.options.candidate_url = engine.url();
  bench.options.blend_metrics_url = engine.metrics_url();
  Result<RunReport> refused = bench.TryRun();
  REQUIRE(!refused.ok());
  CHECK(std::string(refused.status().message()).find("404") != std::string::npos);
  CHECK(engine.bodies().empty());
}

TEST_CASE("an engine that is not there is refused before anything changes", "[K5]") {
  QualityBench bench;
  FakeEngine engine(Answering());
  bench.options.reference_url = engine.url();
  bench.options.candidate_url = engine.url();
  bench.Run();
  const std::string before = ReadFile(bench.out() + "/arm_candidate.json").value();
  bench.options.reference_url = "";
  bench.options.tokenize_url = engine.url();
  bench.options.candidate_url = "http://127.0.0.1:1";
  CHECK_THAT(std::string(bench.TryRun().status().message()), Catch::Contains("cannot be reached"));
  CHECK(ReadFile(bench.out() + "/arm_candidate.json").value() == before);

  FakeEngineOptions options;
  options.models = {"other", "another"};
  FakeEngine strange(options);
  bench.options.candidate_url = strange.url();
  CHECK_THAT(std::string(bench.TryRun().status().message()),
             Catch::Contains("does not serve the model 'm', it serves other, another"));
  CHECK(strange.measured() == 0);
}

TEST_CASE("what terminals obey is shown, not sent") {
  CHECK(Printable("a\x1b[2J\u009b1mb\u202e.\n\u00e9") ==
        std::string("a\\x1b[2J\\u009b1mb\xef\xbf\xbd") + ".\\n\u00e9");
}

TEST_CASE("a long text is cut between characters, and how much is missing is said") {
  CHECK(PrintableStart("abc", 3) == "abc");
  CHECK(PrintableStart("ab\u00e9d", 3) == "ab ... (3 bytes more; whole in a pipe or file)");
  CHECK(PrintableStart(std::string(5000, 'x'), 0) == std::string(5000, 'x'));
  Row row;
  row.qid = "s1";
  row.answers = {{"candidate", std::string(2'000'000, 'x')}};
  const std::string text = ShowText({row}, {}, {"s1", false, false, 4000});
  CHECK(text.size() < 5000);
  CHECK_THAT(text, Catch::Contains("(1996000 bytes more; whole in a pipe or file)"));
  CHECK(ShowText({row}, {}, {"s1", false, false, 0}).size() > 2'000'000);
}

TEST_CASE("hostile model output never breaks a file", "[K2]") {
  FakeEngineOptions options = Answering();
  options.answer = [](const std::string& question, int number) -> std::string {
    if (number == 0) return std::string("<answer>nul \0 \x01\x7f</answer>", 25);
    if (number == 1)
      return "<answer><answer>nested <final_answer>" + QualityBench::Gold(question) + "</answer>";
    if (number == 2) return std::string(1 << 20, 'x') + "<answer>\u2028\u0085big</answer>";
    if (number == 3) return "</answer><answer></answer>";
    return RightAnswer(question, number);
  };
  TwoArms arms(options);
  QualityBench& bench = arms.bench;
  bench.Run();
  Analysis analysis = AnalysisOf(bench.out());
  CHECK(analysis.rows.size() == QualityBench::kQuestions);
  std::string rows = EncodeRows(analysis.rows).value();
  CHECK(ParseJsonLines(rows, "rows").ok());
  CHECK(analysis.rows[0].answers.back().second.find('\0') != std::string::npos);
}

}  // namespace poolmark::quality

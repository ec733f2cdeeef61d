// `verify`, and the accuracy run of a job: what a whole directory says, and what it says when it was changed.
#include "common/quality/verify.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/json_text.h"
#include "common/base/version.h"
#include "common/quality/accuracy.h"
#include "common/quality/codec.h"
#include "common/quality/digests.h"
#include "common/quality/recompute.h"
#include "tests/component/quality/analyzed.h"

namespace poolmark::quality {
namespace {

using test::Analyzed;
using test::AnalyzeNow;
using test::NoJudge;
using test::OptionsFor;

TEST_CASE("the accuracy run of a job gives its verdict and leaves a whole directory", "[K30]") {
  test::QualityBench bench;
  test::FakeEngineOptions options = test::Answering();
  test::FakeEngine reference(options);
  bool good = GENERATE(true, false);
  if (!good) {
    options.answer = [](const std::string& question, int number) {
      return number % 2 == 0 ? "<answer>Rivertown</answer>"
                             : "<answer>" + test::QualityBench::Gold(question) + "</answer>";
    };
  }
  test::FakeEngine candidate(options);
  bench.options.reference_url = reference.url();
  bench.options.candidate_url = candidate.url();
  std::unique_ptr<http::Client> client = http::MakeClient();
  RunContext context{client.get(), &RealClock(), [](Nanoseconds) {}, {}, nullptr, nullptr};
  REQUIRE(RunArms(bench.options, context).ok());
  CHECK(absl::IsNotFound(ReadAccuracy(bench.out()).status()));
  Result<AccuracyResult> result = FinishAccuracy(OptionsFor(bench.out()), NoJudge());
  INFO(result.status().message());
  REQUIRE(result.ok());
  CHECK(result->verdict == (good ? Verdict::kPass : Verdict::kFail));
  CHECK(DescribeAccuracy(*result) == DescribeAccuracy(ReadAccuracy(bench.out()).value()));
  CHECK_THAT(DescribeAccuracy(*result), Catch::StartsWith(good ? "delta 0.000" : "delta -0."));
  for (const char* file :
       {"plan.json", "arm_candidate.json", "rows.jsonl", "summary.json", "statistics.json", "report.html"}) {
    CHECK(FileExists(bench.out() + "/" + file));
  }
}

TEST_CASE("arms of a job may run in different cycles", "[K30][K32]") {
  test::QualityBench bench;
  test::FakeEngineOptions options = test::Answering();
  std::unique_ptr<http::Client> client = http::MakeClient();
  RunContext context{client.get(), &RealClock(), [](Nanoseconds) {}, {}, nullptr, nullptr};
  {
    test::FakeEngine reference(options);
    bench.options.reference_url = reference.url();
    REQUIRE(RunArms(bench.options, context).ok());
  }
  test::FakeEngine candidate(options);
  bench.options.reference_url = "";
  bench.options.candidate_url = candidate.url();
  REQUIRE(RunArms(bench.options, context).ok());
  Result<AccuracyResult> result = FinishAccuracy(OptionsFor(bench.out()), NoJudge());
  INFO(result.status().message());
  REQUIRE(result.ok());
  CHECK(result->verdict == Verdict::kPass);
}

TEST_CASE("verify names what was changed", "[K7][K29]") {
  test::QualityBench bench;
  test::FakeEngineOptions options = test::Answering();
  test::FakeEngine engine(options);
  bench.options.reference_url = engine.url();
  bench.options.candidate_url = engine.url();
  bench.Run();
  AnalyzeNow(bench.out());
  CHECK(VerifyDirectory(bench.out())->problems == std::vector<std::string>{});
  std::string file, from, to, named;
  SECTION("an answer") {
    file = "answers_candidate.jsonl", from = "\"answer\": \"Country3\"", to = "\"answer\": \"Country4\"",
    named = "tags";
  }
  SECTION("a prompt") {
    file = "plan.json", from = "Town3 is a town", to = "Town3 was a town", named = "prompts_digest";
  }
  SECTION("a setting") {
    file = "plan.json", from = "\"seed\": 42", to = "\"seed\": 43", named = "plan_fingerprint";
  }
  SECTION("the manifest") {
    file = "manifest.jsonl", from = "\"is_evidence\": true", to = "\"is_evidence\": false",
    named = "manifest.jsonl";
  }
  SECTION("the verdict") {
    file = "summary.json", from = "\"PASS\"", to = "\"FAIL\"", named = "summary.json says FAIL";
  }
  SECTION("a row") {
    file = "rows.jsonl", from = "\"loss_tag\": \"none\"", to = "\"loss_tag\": \"empty\"",
    named = "rows.jsonl differs";
  }
  std::string text = ReadFile(bench.out() + "/" + file).value();
  size_t at = text.find(from);
  REQUIRE(at != text.npos);
  REQUIRE(AtomicWriteFile(bench.out() + "/" + file, text.replace(at, from.size(), to)).ok());
  Result<VerifyReport> report = VerifyDirectory(bench.out());
  REQUIRE(report.ok());
  std::string problems;
  for (const std::string& problem : report->problems) problems += problem + "\n";
  INFO(problems);
  CHECK(problems.find(named) != problems.npos);
}

TEST_CASE("verify finds what no digest covers: positions, units, evidence, padding, questions",
          "[K13][K15]") {
  struct Change {
    const char* scenario;
    const char* pointer;
    Json value;
    const char* named;
  };
  const std::vector<Change> changes = {
      {"reordered", "/plan/samples/2/passages/1/stored_position", 9, "stored_position"},
      {"reordered", "/plan/samples/2/unit_position", 1, "for the concatenated scenario"},
      {"independent", "/plan/samples/3/passages/1/stored_position", 1, "at position 1"},
      {"concatenated", "/plan/samples/4/unit_position", 7, "unit_position is 7"},
      {"concatenated", "/plan/samples/4/duplicate_of", "s1", "has another context"},
      {"independent", "/plan/samples/0/evidence_indices", Json::array({1}), "evidence_indices"},
      {"independent", "/plan/samples/1/evidence_indices", Json::array({0}), "evidence_indices"},
      {"independent", "/plan/samples/5/passages/0/pad_tokens", 1000, "padding.pad_tokens"},
      {"independent", "/plan/samples/5/question", "x?", "the question does not stand"},
  };
  for (const Change& change : changes) {
    INFO(change.scenario << " " << change.pointer);
    Analyzed directory(change.scenario);
    CHECK(directory.Problems() == "");
    directory.Tamper(change.pointer, change.value);
    const std::string problems = directory.Problems();
    INFO(problems);
    CHECK(problems.find(change.named) != std::string::npos);
  }
}

TEST_CASE("verify looks into arms, statistics and reasons; a pass without an arm file is a warning",
          "[K4][K16]") {
  Analyzed directory("independent");
  auto change = [&](const std::string& name, const std::string& from, const std::string& to) {
    const std::string file = directory.bench.out() + "/" + name;
    std::string text = ReadFile(file).value();
    const size_t at = text.find(from);
    REQUIRE(at != text.npos);
    REQUIRE(AtomicWriteFile(file, text.replace(at, from.size(), to)).ok());
  };
  SECTION("statistics") {
    change("statistics.json", "\"losses\": 0", "\"losses\": 40");
    CHECK(directory.Problems().find("statistics.json differs") != std::string::npos);
  }
  SECTION("a warning that is gone") {
    REQUIRE(ReadFile(directory.bench.out() + "/statistics.json")->find("no control pass") !=
            std::string::npos);
    change("statistics.json", "there is no control pass", "all is well");
    CHECK_THAT(directory.Problems(), Catch::Contains("statistics.json's warnings") &&
                                         Catch::Contains("'all is well") &&
                                         Catch::Contains("instead of 'there is no control pass"));
  }
  SECTION("warnings of another version, in its own words") {
    change("statistics.json", "there is no control pass", "no control pass was run");
    change("statistics.json", Version(), "0.0.1");
    Result<VerifyReport> report = VerifyDirectory(directory.bench.out());
    REQUIRE(report.ok());
    CHECK(report->problems.empty());
    CHECK_THAT(report->warnings.at(0), Catch::Contains("of another version of this program"));
  }
  SECTION("warnings that are none") {
    change("statistics.json", "\"warnings\": [", "\"warnings\": 3, \"x\": [");
    CHECK_THAT(directory.Problems(), Catch::Contains("'warnings' is no array"));
  }
  SECTION("what was said of a moment is no matter of the files") {
    // A pass that had not finished when analyze ran, and is gone now.
    change("statistics.json", "\"warnings\": [",
           "\"warnings\": [\"answers_control.jsonl has no arm_control.json: that pass did not finish, it is "
           "ignored\", ");
    CHECK(directory.Problems().empty());
  }
  SECTION("another reason for INVALID") {
    change("arm_candidate.json", "\"store_failures\": 0", "\"store_failures\": 2");
    std::filesystem::remove(directory.bench.out() + "/requests_candidate.json");
    AnalyzeNow(directory.bench.out());
    CHECK(directory.Problems().empty());
    change("summary.json", "store_failures: 2 of", "store_failures: 1 of");
    CHECK_THAT(directory.Problems(), Catch::Contains("invalid_reasons are not those") &&
                                         Catch::Contains("'store_failures: 1 of") &&
                                         Catch::Contains("instead of 'store_failures: 2 of"));
  }
  SECTION("a reason beside PASS") {
    change("summary.json", "\"invalid_reasons\": []", "\"invalid_reasons\": [\"x\"]");
    CHECK(directory.Problems().find("reasons for INVALID") != std::string::npos);
  }
  SECTION("a reference with counters") {
    change("arm_reference_1.json", "\"engagement_measured\": false", "\"engagement_measured\": true");
    change("arm_reference_1.json", "\"counters\": null",
           "\"counters\": {\"requested_tokens\": 1.0, \"prefix_hit_tokens\": 0.0, \"non_prefix_hit_tokens\": "
           "0.0, "
           "\"segmented_prefix_hit_tokens\": 0.0, \"stale_chunks\": 0.0, \"fingerprints_registered\": 0.0}");
    CHECK(directory.Problems().find("only a candidate's pass") != std::string::npos);
    CHECK(Directory(directory.bench.out()).Load(false)->warnings.size() == 1);
  }
  SECTION("an answer to another request") {
    change("answers_candidate.jsonl", "\"request_id\": \"q4\"", "\"request_id\": \"q9\"");
    const Status status = VerifyDirectory(directory.bench.out()).status();
    CHECK_THAT(std::string(status.message()),
               Catch::Contains("answers_candidate.jsonl:5") && Catch::Contains("q9"));
  }
  SECTION("requests that fit neither answers nor arm") {
    change("requests_candidate.json", "\"troubled\": []",
           "\"troubled\": [{\"request_id\": \"q3\", \"attempts\": 3, \"successful\": false, \"problem\": "
           "\"x\"}, "
           "{\"request_id\": \"store1\", \"attempts\": 1, \"successful\": false, \"problem\": \"y\"}]");
    change("requests_candidate.json", "\"sent_again\": 0", "\"sent_again\": 2");
    change("requests_candidate.json", "\"failed\": 0", "\"failed\": 2");
    const std::string problems = directory.Problems();
    CHECK_THAT(problems, Catch::Contains("failed questions are not those of the answers"));
    CHECK_THAT(problems, Catch::Contains("has 1 failed store requests, the arm file 0"));
  }
  SECTION("an unfinished pass") {
    REQUIRE(AtomicWriteFile(directory.bench.out() + "/answers_control.jsonl", "").ok());
    Result<VerifyReport> report = VerifyDirectory(directory.bench.out());
    REQUIRE(report.ok());
    CHECK(report->problems.empty());
    CHECK_THAT(report->warnings.at(0), Catch::Contains("answers_control.jsonl"));
  }
}

TEST_CASE("specified fields that nothing needs are read too: each wrong one is named", "[K2][K7]") {
  struct Change {
    const char* file;
    const char* from;
    const char* to;
    const char* named;
    bool refused;  // by its reader; else found by the comparison
  };
  const std::vector<Change> changes = {
      {"summary.json", "\"verdict_metric\": \"match\"", "\"verdict_metric\": \"x\"",
       "'verdict_metric' is 'x'", true},
      {"summary.json", "\"verdict_metric\": \"match\"", "\"verdict_metric\": \"judge\"",
       "'judge_model' is missing", true},
      {"summary.json", "\"tolerance\": 0.05", "\"tolerance\": -7", "'tolerance' is -7", true},
      {"summary.json", "\"judge\": null", "\"judge\": \"x\"", "'judge' is not null", true},
      {"summary.json", "\"judge\": null,", "", "at judge", false},
      {"summary.json", "\"share\": ", "\"share\": true, \"x\": ", "'share' is boolean", true},
      {"summary.json", "\"share\": 0.", "\"share\": 7.", "at padding.share", false},
      {"summary.json", "\"none\": 24", "\"none\": 24, \"empty\": 1", "at loss_tags.empty", false},
      {"summary.json", "\"reuse_ratio\": null", "\"x\": null", "at engagement.reuse_ratio", false},
      {"manifest.jsonl", "\"scenario\": \"independent\"", "\"scenario\": 1", "manifest.jsonl:1", true},
      {"manifest.jsonl", "\"scenario\": \"independent\"", "\"scenario\": \"reordered\"", "at line 1 scenario",
       false},
      {"manifest.jsonl", "\"chunk_size\": 16", "\"chunk_size\": 17", "at line 1 chunk_size", false},
      {"plan.json", "\"qid\": \"s0\", \"scenario\": \"independent\"", "\"qid\": \"s0\", \"scenario\": \"x\"",
       "'scenario' is 'x', the plan's is independent", true},
      {"plan.json", "\"chunk_size\": 16, \"request_id\": \"q3\"", "\"chunk_size\": 8, \"request_id\": \"q3\"",
       "samples[3]: 'chunk_size' is 8, the plan's is 16", true},
      {"requests_candidate.json", "\"sent_again\": 0", "\"sent_again\": 3",
       "'sent_again' is 3, 'troubled' gives 0", true},
      {"requests_candidate.json", "\"failed\": 0", "\"failed\": \"x\"", "'failed' is string", true},
  };
  Analyzed directory("independent");
  CHECK(directory.Problems() == "");
  for (const Change& change : changes) {
    const std::string file = directory.bench.out() + "/" + change.file;
    const std::string before = ReadFile(file).value();
    INFO(change.file << ": " << change.from << " -> " << change.to);
    const size_t at = before.find(change.from);
    REQUIRE(at != before.npos);
    REQUIRE(AtomicWriteFile(file, std::string(before).replace(at, std::string(change.from).size(), change.to))
                .ok());
    const Result<VerifyReport> report = VerifyDirectory(directory.bench.out());
    if (std::string(change.file).starts_with("requests_")) {
      // Beside the format: told and ignored, and the statistics made with it do not fit then.
      CHECK_THAT(report->warnings.at(0), Catch::Contains(change.named) && Catch::Contains(change.file));
      CHECK_THAT(report->problems.at(0), Catch::Contains("statistics.json differs"));
    } else if (change.refused) {
      CHECK_THAT(std::string(report.status().message()),
                 Catch::Contains(change.named) && Catch::Contains(change.file));
    } else {
      CHECK_THAT(directory.Problems(), Catch::Contains(change.named) && Catch::Contains(change.file));
    }
    REQUIRE(AtomicWriteFile(file, before).ok());
  }
}

TEST_CASE("a comparison made again tells where the stored one differs", "[K7][K29]") {
  Analyzed directory("independent");
  const LoadedDirectory loaded = Directory(directory.bench.out()).Load(false).value();
  CHECK(Recompute(loaded, directory.bench.out())->problems.empty());
  const std::string file = directory.bench.out() + "/rows.jsonl";
  std::string rows = ReadFile(file).value();
  const std::string tag = "\"loss_tag\": \"none\"";
  rows.replace(rows.find(tag), tag.size(), "\"loss_tag\": \"empty\"");
  REQUIRE(AtomicWriteFile(file, rows).ok());
  CHECK(Recompute(loaded, directory.bench.out())->problems ==
        std::vector<std::string>{"rows.jsonl differs from what the files give, at line 1 loss_tag"});
  // Ratings that are gone, as after the judge cache was deleted, leave no scores.
  const std::string summary_file = directory.bench.out() + "/summary.json";
  VerdictSettings settings;
  settings.metric = "judge";
  settings.judge_model = "m";
  JudgeTable table;
  for (size_t i = 0; i < loaded.plan.samples.size(); ++i) {
    const Sample& s = loaded.plan.samples[i];
    table.by_key[JudgeKey("m", s.question, loaded.passes[0].answers[i].answer, s.answers[0])] = {
        1.0, 1.0, {}};
  }
  const Analysis judged = Analyze(loaded, settings, &table).value();
  REQUIRE(AtomicWriteFile(file, EncodeRows(judged.rows).value()).ok());
  REQUIRE(AtomicWriteFile(summary_file, EncodeSummary(judged.summary).value()).ok());
  const std::vector<std::string> problems = Recompute(loaded, directory.bench.out())->problems;
  REQUIRE(problems.size() == 3);
  CHECK(problems[0] == "summary.json says PASS, the files give INVALID");
  CHECK_THAT(problems[2], Catch::Contains("at line 1 scores.reference_1"));
}

TEST_CASE("a pass that joins kept ones takes the older comparison away", "[K5]") {
  Analyzed directory("independent");
  directory.bench.options.resume = true;
  directory.bench.options.reference_repeats = 3;
  test::FakeEngine engine({});
  directory.bench.options.reference_url = engine.url();
  // Another URL: nothing is kept, the role starts anew.
  directory.bench.options.candidate_url = "";
  CHECK(directory.bench.Run().kept.empty());
  directory.Analyze();
  directory.bench.options.reference_repeats = 4;
  quality::RunReport report = directory.bench.Run();
  CHECK(report.kept.size() == 3);
  CHECK(report.saved == std::vector<std::string>{"reference_4"});
  for (const char* name : {"summary.json", "rows.jsonl", "statistics.json", "report.html"})
    CHECK_FALSE(FileExists(directory.bench.out() + "/" + name));
}

TEST_CASE("a directory has one writer at a time", "[K3]") {
  Analyzed directory("independent");
  {
    Result<DirectoryLock> lock = DirectoryLock::Take(directory.bench.out());
    REQUIRE(lock.ok());
    CHECK_THAT(std::string(directory.bench.TryRun().status().message()), Catch::Contains("is being written"));
    const Status refused = AnalyzeDirectory(OptionsFor(directory.bench.out()), NoJudge()).status();
    CHECK_THAT(std::string(refused.message()), Catch::Contains("is being written"));
  }
  AnalyzeNow(directory.bench.out());
}

TEST_CASE("times and units that cannot work are refused") {
  test::QualityBench bench;
  bench.options.reference_url = "http://127.0.0.1:1";
  bench.options.request_timeout = Nanoseconds(0);
  CHECK_THAT(std::string(bench.TryRun().status().message()), Catch::Contains("--timeout"));
  bench.options.request_timeout = std::chrono::seconds(1);
  bench.options.settings.scenario = "concatenated";
  bench.options.settings.filler = "none";
  for (int64_t tokens : {0, -5}) {
    bench.options.settings.min_unit_tokens = tokens;
    CHECK_THAT(std::string(bench.TryRun().status().message()), Catch::Contains("--min-unit-tokens"));
  }
}

}  // namespace
}  // namespace poolmark::quality

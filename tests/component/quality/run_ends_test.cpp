// Passes that are stopped and taken up again, and requests that are sent again or fail.
#include <catch2/catch.hpp>
#include <latch>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/quality/analyze.h"
#include "common/quality/codec.h"
#include "common/quality/report_text.h"
#include "common/quality/runner.h"
#include "tests/component/quality/analyzed.h"

namespace poolmark::quality {

using test::AnalysisOf;
using test::Answering;
using test::FakeEngine;
using test::FakeEngineOptions;
using test::QualityBench;
using test::TwoArms;

TEST_CASE("an interrupted pass leaves the finished ones; resume runs what is missing", "[K4]") {
  TwoArms arms;
  QualityBench& bench = arms.bench;
  arms.candidate.OnChat([&](int number) {
    if (number == 3) bench.Interrupt();
  });
  RunReport report = bench.Run();
  CHECK(report.interrupted);
  CHECK(report.saved == std::vector<std::string>{"reference_1", "reference_2"});
  CHECK(!FileExists(bench.out() + "/answers_candidate.jsonl"));
  Result<LoadedDirectory> loaded = Directory(bench.out()).Load(false);
  REQUIRE(loaded.ok());
  CHECK(Analyze(*loaded, {}, nullptr).status().code() == absl::StatusCode::kFailedPrecondition);

  arms.candidate.OnChat(nullptr);
  bench.Continue();
  bench.options.resume = true;
  int before = arms.reference.measured();
  report = bench.Run();
  CHECK(report.kept == std::vector<std::string>{"reference_1", "reference_2"});
  CHECK(report.saved == std::vector<std::string>{"candidate"});
  CHECK(arms.reference.measured() == before);
  CHECK(AnalysisOf(bench.out()).summary.verdict == Verdict::kPass);
}

TEST_CASE("a stop ends the pass before an engine that keeps silent has answered", "[K4]") {
  TwoArms arms;
  QualityBench& bench = arms.bench;
  bench.options.request_timeout = std::chrono::minutes(5);
  std::latch over(1);
  arms.candidate.OnChat([&](int number) {
    if (number != 3) return;
    bench.Interrupt();
    over.wait();  // the answer comes only after the run has ended
  });
  const Result<RunReport> report = bench.TryRun();
  over.count_down();
  REQUIRE(report.ok());
  CHECK(report->interrupted);
  CHECK(report->saved == std::vector<std::string>{"reference_1", "reference_2"});
  CHECK(Directory(bench.out()).Load(false).ok());
}

TEST_CASE("requests are retried on server errors alone", "[K12]") {
  QualityBench bench;
  FakeEngineOptions options = Answering();
  int failures = 0;
  options.status = [&](bool store, int) { return !store && failures++ < 2 ? 503 : 0; };
  FakeEngine engine(options);
  bench.options.candidate_url = engine.url();
  RunReport report = bench.Run();
  CHECK(report.failed_questions == 0);
  CHECK(engine.measured() == QualityBench::kQuestions + 2);
  CHECK(bench.slept() >= std::chrono::milliseconds(1500));
}

TEST_CASE("requests that were sent again or failed are told, and many are warned of") {
  FakeEngineOptions options = Answering();
  // Twelve questions are answered at the second attempt, the thirteenth never.
  options.status = [](bool store, int number) {
    if (store || number > 24) return 0;
    return number == 24 ? 400 : number % 2 == 0 ? 503 : 0;
  };
  TwoArms arms(options);
  QualityBench& bench = arms.bench;
  bench.Run();
  LoadedDirectory loaded = Directory(bench.out()).Load(false).value();
  REQUIRE(loaded.passes.back().requests);
  const RequestLog& log = *loaded.passes.back().requests;
  CHECK(log.requests == QualityBench::kQuestions + static_cast<int64_t>(loaded.plan.store_requests.size()));
  CHECK(log.sent_again() == 12);
  CHECK(log.failed() == 1);
  CHECK(log.troubled.front().request_id == "q0");
  CHECK(log.troubled.front().attempts == 2);
  CHECK_THAT(log.troubled.front().problem, Catch::Contains("HTTP 503"));
  CHECK(loaded.passes.front().requests->troubled.empty());

  Analysis analysis = AnalysisOf(bench.out());
  const Json requests = ParseJson(EncodeStatistics(analysis).value())->at("requests");
  CHECK(requests.at("candidate").at("sent_again") == 12);
  CHECK(requests.at("candidate").at("failed") == 1);
  CHECK(requests.at("reference_1") ==
        Json({{"requests", QualityBench::kQuestions}, {"sent_again", 0}, {"failed", 0}}));
  const std::string text = SummaryText(analysis);
  CHECK_THAT(text, Catch::Contains("1 requests failed, sent again 12\n"));
  CHECK_THAT(text, Catch::Contains("warning: candidate: 1 of") && Catch::Contains("(first q12: HTTP 400"));
  CHECK_THAT(text, Catch::Contains("warning: candidate: requests were sent again 12 times"));
  CHECK_THAT(ShowText(analysis.rows, loaded, {}), Catch::Contains("(the request failed: HTTP 400"));

  // It is the log of this pass alone: another's is told and not taken, and a new pass takes it away.
  const std::string file = bench.out() + "/requests_candidate.json";
  RequestLog other = log;
  other.started_at = "2020-01-01T00:00:00+00:00";
  REQUIRE(AtomicWriteFile(file, EncodeRequests(other).value()).ok());
  loaded = Directory(bench.out()).Load(false).value();
  CHECK(!loaded.passes.back().requests);
  REQUIRE(loaded.warnings.size() == 1);
  CHECK_THAT(loaded.warnings[0], Catch::Contains("another pass"));
  REQUIRE(AtomicWriteFile(file, "{").ok());
  CHECK_THAT(Directory(bench.out()).Load(false)->warnings.at(0), Catch::Contains("requests_candidate.json"));
  bench.options.candidate_url = "";
  bench.options.blend_metrics_url = "";
  bench.options.reference_repeats = 1;
  bench.Run();
  CHECK(!FileExists(bench.out() + "/requests_reference_2.json"));
}

}  // namespace poolmark::quality

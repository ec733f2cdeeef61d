// The blend server's counters when they cannot be read, or are not those of the candidate.
#include <atomic>
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/quality/accuracy.h"
#include "common/quality/analyze.h"
#include "common/quality/codec.h"
#include "common/quality/verify.h"
#include "tests/component/quality/bench_setup.h"

namespace poolmark::quality {
namespace {

using test::FakeEngine;
using test::FakeEngineOptions;
using test::QualityBench;

std::string Right(const std::string& question, int) {
  return "<answer>" + QualityBench::Gold(question) + "</answer>";
}

VerdictSettings Match() {
  return {};
}

}  // namespace

TEST_CASE("counters that cannot be read for a while are missing, no zeros and no restart", "[K16][K25]") {
  const std::string broken = GENERATE("500", "<html></html>",
                                      "# TYPE lmcache_blend_lookup_requested_tokens_total "
                                      "counter\nlmcache_blend_lookup_requested_tokens_total NaN\n");
  CAPTURE(broken);
  test::QualityBench bench;
  test::FakeEngineOptions options;
  options.answer = [](const std::string& question, int) {
    return "<answer>" + test::QualityBench::Gold(question) + "</answer>";
  };
  test::FakeEngine reference(options);
  options.page = [&](int measured) { return measured >= 4 && measured < 13 ? broken : std::string(); };
  test::FakeEngine candidate(options);
  bench.options.reference_url = reference.url();
  bench.options.candidate_url = candidate.url();
  bench.options.blend_metrics_url = candidate.metrics_url();
  bench.Run();
  LoadedDirectory loaded = Directory(bench.out()).Load(false).value();
  const Pass& pass = loaded.passes.back();
  for (size_t i = 3; i < 12; ++i) CHECK_FALSE(pass.answers[i].counters.has_value());
  REQUIRE(pass.answers[12].counters);  // holds the ten questions' tokens
  CHECK(pass.answers[12].counters->requested_tokens > 8 * pass.answers[2].counters->requested_tokens);
  Analysis analysis = Analyze(loaded, {}, nullptr).value();
  CHECK(analysis.summary.verdict == Verdict::kPass);
  CHECK(analysis.summary.engagement.min_window_share > 0.5);
  CHECK_FALSE(analysis.rows[5].blend_share.has_value());
  std::string warnings;
  for (const std::string& warning : analysis.warnings) warnings += warning + "\n";
  CHECK_THAT(warnings, Catch::Contains("after 9 questions (first q3)"));
}

TEST_CASE("a metrics page that dies before the end leaves the last reading, or loses the pass aloud",
          "[K16]") {
  const int dies_after = GENERATE(10, 1);
  test::QualityBench bench;
  test::FakeEngineOptions options;
  test::FakeEngine reference(options);
  options.page = [&](int measured) { return measured >= dies_after ? "500" : ""; };
  test::FakeEngine candidate(options);
  bench.options.candidate_url = candidate.url();
  bench.options.blend_metrics_url = candidate.metrics_url();
  auto report = bench.TryRun();
  if (dies_after == 1) {
    CHECK_THAT(std::string(report.status().message()), Catch::Contains("candidate, which is lost"));
    // Given up once ten answers came without any reading, not after the last question.
    CHECK(candidate.measured() == 10);
    return;
  }
  REQUIRE(report.ok());
  CHECK_THAT(bench.notes, Catch::Contains("the last reading, after q8"));
  const Arm arm = DecodeArm(ReadFile(bench.out() + "/arm_candidate.json").value(), "arm").value();
  CHECK(arm.counters->requested_tokens > 0);
}

TEST_CASE("a page that counted no look-up, and a plan that expects nothing known, say so", "[K25]") {
  QualityBench bench;
  FakeEngineOptions options;
  options.answer = Right;
  FakeEngine engine(options);
  FakeEngine other(options);
  bench.options.reference_url = engine.url();
  bench.options.candidate_url = engine.url();
  bench.options.blend_metrics_url = other.metrics_url();
  bench.options.settings.scenario = "concatenated";
  bench.options.settings.filler = "none";
  bench.options.settings.min_unit_tokens = 128;
  bench.Run();
  LoadedDirectory loaded = Directory(bench.out()).Load(false).value();
  CHECK_THAT(Analyze(loaded, Match(), nullptr)->summary.invalid_reasons.at(0),
             Catch::Contains("counted no look-up"));
  loaded.passes.back().arm.counters->requested_tokens = 100;
  for (Sample& sample : loaded.plan.samples) sample.expected_reused_tokens.reset();
  CHECK_THAT(Analyze(loaded, Match(), nullptr)->summary.invalid_reasons.at(0),
             Catch::Contains("this older plan does not say"));
}

TEST_CASE("a candidate whose cache knew the plan before is recorded, warned of and verified", "[K16]") {
  QualityBench bench;
  FakeEngineOptions options;
  options.answer = Right;
  FakeEngine reference(options), candidate(options);
  bench.options.reference_url = reference.url();
  bench.options.candidate_url = candidate.url();
  bench.options.blend_metrics_url = candidate.metrics_url();
  AnalyzeOptions analyze;
  analyze.directory = bench.out();
  auto warnings_of = [&] {
    const Analysis analysis = AnalyzeDirectory(analyze, {nullptr, [](Nanoseconds) {}, {}, nullptr}).value();
    std::string out;
    for (const std::string& warning : analysis.warnings) out += warning + "\n";
    CHECK(VerifyDirectory(bench.out())->problems == std::vector<std::string>{});
    return out;
  };
  auto registered = [&] {
    return Directory(bench.out()).Load(false)->passes.back().requests->chunks_registered_by_stores;
  };
  bench.Run();
  REQUIRE(registered());
  CHECK(*registered() >= QualityBench::kQuestions);
  CHECK_THAT(bench.notes, !Catch::Contains("was warm before"));
  CHECK_THAT(warnings_of(), !Catch::Contains("was warm before"));
  CHECK_FALSE(Directory(bench.out()).Load(false)->passes.front().requests->chunks_registered_by_stores);

  bench.options.reference_url = "";
  bench.Run();  // the same engine, not cleared
  CHECK(registered() == 0.0);
  CHECK_THAT(bench.notes, Catch::Contains("candidate: warning: the store requests registered no new chunk"));
  CHECK_THAT(warnings_of(),
             Catch::Contains("candidate: the store requests registered no new chunk: the cache was warm"));
  CHECK_THAT(ReadFile(bench.out() + "/statistics.json").value(),
             Catch::Contains("the cache was warm before"));
}

TEST_CASE("a blend server that restarts among the store requests ends the pass before it is measured",
          "[K25]") {
  QualityBench bench;
  FakeEngineOptions options;
  options.answer = Right;
  std::atomic<int> reads = 0;
  // Before the run, before the store requests, after them.
  options.page = [&](int) -> std::string {
    return reads++ < 2 ? "# TYPE lmcache_blend_lookup_requested_tokens_total counter\n"
                         "lmcache_blend_lookup_requested_tokens_total 123456789\n"
                       : "";
  };
  FakeEngine candidate(options);
  bench.options.candidate_url = candidate.url();
  bench.options.blend_metrics_url = candidate.metrics_url();
  const Status refused = bench.TryRun().status();
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("requested_tokens fell while the store requests of candidate were sent") &&
                 Catch::Contains("run this arm again"));
  CHECK(candidate.stores() > 0);
  CHECK(candidate.measured() == 0);
  CHECK_FALSE(FileExists(bench.out() + "/arm_candidate.json"));
  CHECK_FALSE(FileExists(bench.out() + "/answers_candidate.jsonl"));
}

}  // namespace poolmark::quality

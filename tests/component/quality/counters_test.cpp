// The blend server's counters when they cannot be read, or are not those of the candidate.
#include <atomic>
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/quality/accuracy.h"
#include "common/quality/analyze.h"
#include "common/quality/codec.h"
#include "common/quality/verify.h"
#include "tests/component/quality/analyzed.h"

namespace poolmark::quality {
namespace {

using test::AnalysisOf;
using test::Answering;
using test::FakeEngine;
using test::FakeEngineOptions;
using test::QualityBench;
using test::TwoArms;

// A metrics page with these two counters; the others are as on a fresh server.
std::string Page(double requested, double blended) {
  return "# TYPE lmcache_blend_lookup_requested_tokens_total counter\n"
         "lmcache_blend_lookup_requested_tokens_total " +
         std::to_string(requested) +
         "\n# TYPE lmcache_blend_lookup_non_prefix_hit_tokens_total counter\n"
         "lmcache_blend_lookup_non_prefix_hit_tokens_total " +
         std::to_string(blended) + "\n";
}

std::string Warnings(const Analysis& analysis) {
  std::string out;
  for (const std::string& warning : analysis.warnings) out += warning + "\n";
  return out;
}

}  // namespace

TEST_CASE("counters that cannot be read for a while are missing, no zeros and no restart", "[K16][K25]") {
  const std::string broken = GENERATE("500", "<html></html>",
                                      "# TYPE lmcache_blend_lookup_requested_tokens_total "
                                      "counter\nlmcache_blend_lookup_requested_tokens_total NaN\n");
  CAPTURE(broken);
  FakeEngineOptions options = Answering();
  options.page = [&](int measured) { return measured >= 4 && measured < 13 ? broken : std::string(); };
  TwoArms arms(options);
  QualityBench& bench = arms.bench;
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
  CHECK_THAT(Warnings(analysis), Catch::Contains("after 9 questions (first q3)"));
}

TEST_CASE("a metrics page that dies before the end leaves the last reading, or loses the pass aloud",
          "[K16]") {
  const int dies_after = GENERATE(10, 1);
  QualityBench bench;
  FakeEngineOptions options;
  FakeEngine reference(options);
  options.page = [&](int measured) { return measured >= dies_after ? "500" : ""; };
  FakeEngine candidate(options);
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
  FakeEngineOptions options = Answering();
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
  CHECK_THAT(Analyze(loaded, {}, nullptr)->summary.invalid_reasons.at(0),
             Catch::Contains("counted no look-up"));
  loaded.passes.back().arm.counters->requested_tokens = 100;
  for (Sample& sample : loaded.plan.samples) sample.expected_reused_tokens.reset();
  CHECK_THAT(Analyze(loaded, {}, nullptr)->summary.invalid_reasons.at(0),
             Catch::Contains("this older plan does not say"));
}

TEST_CASE("a candidate whose cache knew the plan before is recorded, warned of and verified", "[K16]") {
  TwoArms arms;
  QualityBench& bench = arms.bench;
  AnalyzeOptions analyze;
  analyze.directory = bench.out();
  auto warnings_of = [&] {
    const Analysis analysis = AnalyzeDirectory(analyze, {nullptr, [](Nanoseconds) {}, {}, nullptr}).value();
    CHECK(VerifyDirectory(bench.out())->problems == std::vector<std::string>{});
    return Warnings(analysis);
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
  FakeEngineOptions options = Answering();
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

TEST_CASE("a page that counts more served than looked up is told at once, and no verdict rests on it",
          "[K16][K25]") {
  const std::string scenario = GENERATE("independent", "concatenated");
  CAPTURE(scenario);
  FakeEngineOptions options = Answering();
  options.page = [](int measured) { return Page(1000.0 * measured, 5000.0 * measured); };
  TwoArms arms(options);
  QualityBench& bench = arms.bench;
  bench.options.settings.scenario = scenario;
  if (scenario == "concatenated") {
    bench.options.settings.filler = "none";
    bench.options.settings.min_unit_tokens = 128;
  }
  bench.Run();
  CHECK_THAT(bench.notes,
             Catch::Contains("candidate: warning: counters: 50000 tokens were served, of 10000 looked up in "
                             "the first 10 questions: " +
                             arms.candidate.metrics_url() + " cannot be believed") &&
                 Catch::Contains("candidate: warning: counters: 120000 tokens were served, of 24000 looked "
                                 "up: they cannot be believed, analyze will say INVALID"));
  const Analysis analysis = AnalysisOf(bench.out());
  CHECK(analysis.summary.verdict == Verdict::kInvalid);
  CHECK(analysis.summary.invalid_reasons ==
        std::vector<std::string>{"impossible_counters: 120000 tokens were served, of 24000 looked up: what "
                                 "the metrics page told cannot be believed"});
  for (const Row& row : analysis.rows) CHECK(row.blend_share == 1.0);
  test::AnalyzeNow(bench.out());
  CHECK(VerifyDirectory(bench.out())->problems ==
        std::vector<std::string>{
            "arm_candidate.json: counters: 120000 tokens were served, of 24000 looked up"});
  CHECK(ReadAccuracy(bench.out())->verdict == Verdict::kInvalid);
}

TEST_CASE("a page that counted more served than looked up before the run is refused", "[K16]") {
  FakeEngineOptions options = Answering();
  options.page = [](int) { return Page(100, 900); };
  TwoArms arms(options);
  const Status refused = arms.bench.TryRun().status();
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains(arms.candidate.metrics_url()) &&
                 Catch::Contains("900 tokens were served, of 100 looked up since its server started"));
  CHECK(arms.candidate.bodies().empty());
  CHECK(arms.reference.bodies().empty());
}

TEST_CASE("look-ups that are recorded late move between questions and make nothing impossible",
          "[K16][K25]") {
  FakeEngineOptions options = Answering();
  // Half of every second look-up is counted with the next question, what it found at once.
  options.page = [](int measured) {
    return Page(100.0 * measured - (measured % 2 == 1 ? 50 : 0), 90.0 * measured);
  };
  TwoArms arms(options);
  arms.bench.Run();
  CHECK_THAT(arms.bench.notes, !Catch::Contains("believed"));
  const Analysis analysis = AnalysisOf(arms.bench.out());
  CHECK(analysis.summary.verdict == Verdict::kPass);
  CHECK(analysis.summary.engagement.blend_share == Approx(0.9));
  CHECK(analysis.summary.engagement.min_window_share == Approx(0.9));
  CHECK(analysis.rows[0].blend_share == 1.0);  // 90 of 50: a share is 0 to 1
  CHECK(analysis.rows[0].reuse.blended_tokens == 90.0);
  CHECK(*analysis.rows[1].blend_share == Approx(0.6));
}

TEST_CASE("questions that have more than their pass are no counters of it", "[K16][K25]") {
  TwoArms arms;
  arms.bench.Run();
  LoadedDirectory loaded = Directory(arms.bench.out()).Load(false).value();
  Pass& candidate = loaded.passes.back();
  double others = 0;
  for (size_t i = 0; i < candidate.answers.size(); ++i)
    others += i == 3 ? 0 : candidate.answers[i].counters->non_prefix_hit_tokens;
  const auto pass = static_cast<int64_t>(candidate.arm.counters->non_prefix_hit_tokens);
  candidate.answers[3].counters->non_prefix_hit_tokens = 9e6;
  const Analysis analysis = Analyze(loaded, {}, nullptr).value();
  CHECK(analysis.summary.invalid_reasons ==
        std::vector<std::string>{"impossible_counters: non_prefix_hit_tokens is " + std::to_string(pass) +
                                 " over the pass, its questions have " +
                                 std::to_string(static_cast<int64_t>(others) + 9000000) +
                                 ": what the metrics page told cannot be believed"});
}

TEST_CASE("a server that looked up more than the prompts hold had other work, which is warned of", "[K16]") {
  FakeEngineOptions options = Answering();
  options.page = [](int measured) { return Page(10000.0 * measured, 9000.0 * measured); };
  TwoArms arms(options);
  arms.bench.Run();
  const Analysis analysis = AnalysisOf(arms.bench.out());
  CHECK(analysis.summary.verdict == Verdict::kPass);
  CHECK_THAT(Warnings(analysis),
             Catch::Contains("the blend server looked up 240000 tokens during the pass, its prompts have " +
                             std::to_string(analysis.summary.padding->prompt_tokens) +
                             ": the counters hold other requests too"));
  TwoArms honest;
  honest.bench.Run();
  CHECK_THAT(Warnings(AnalysisOf(honest.bench.out())), !Catch::Contains("other requests"));
}

TEST_CASE("a page of words is no metrics page; an empty one is, until the store requests were sent",
          "[K16]") {
  FakeEngineOptions options = Answering();
  std::atomic<int> reads = 0;
  SECTION("words") {
    options.page = [](int) { return "Not a metrics page at all\n"; };
    TwoArms arms(options);
    CHECK_THAT(std::string(arms.bench.TryRun().status().message()),
               Catch::Contains(arms.candidate.metrics_url()) && Catch::Contains("no Prometheus text"));
    CHECK(arms.candidate.bodies().empty());
  }
  SECTION("empty for good") {
    options.page = [](int) { return "\n"; };
    TwoArms arms(options);
    CHECK_THAT(std::string(arms.bench.TryRun().status().message()),
               Catch::Contains("is an empty page, also after the store requests of candidate"));
    CHECK_THAT(arms.bench.notes, Catch::Contains(arms.candidate.metrics_url() + " is an empty page"));
    CHECK(arms.candidate.stores() > 0);
    CHECK(arms.candidate.measured() == 0);
    CHECK_FALSE(FileExists(arms.bench.out() + "/arm_candidate.json"));
  }
  SECTION("empty before the first event") {
    // Before the run and before the store requests; in the other case also while the first events are late.
    const int empty_reads = GENERATE(2, 5);
    options.page = [&](int) { return reads++ < empty_reads ? "\n" : ""; };
    TwoArms arms(options);
    arms.bench.Run();
    CHECK_THAT(arms.bench.notes, Catch::Contains("is an empty page: right for an exporter before its first"));
    CHECK(AnalysisOf(arms.bench.out()).summary.verdict == Verdict::kPass);
  }
}

TEST_CASE("counters of questions in a pass that captured none are told and not taken", "[K16]") {
  TwoArms arms;
  arms.bench.Run();
  const std::string file = arms.bench.out() + "/arm_candidate.json";
  Json arm = ParseJson(ReadFile(file).value()).value();
  arm["engagement_measured"] = false;
  REQUIRE(AtomicWriteFile(file, WriteJson(arm).value()).ok());
  CHECK_THAT(
      std::string(Directory(arms.bench.out()).Load(false).status().message()),
      Catch::Contains(file) && Catch::Contains("'engagement_measured' is false but 'counters' is not null"));
  arm["counters"] = nullptr;
  REQUIRE(AtomicWriteFile(file, WriteJson(arm).value()).ok());
  const Analysis analysis = AnalysisOf(arms.bench.out());
  CHECK_THAT(Warnings(analysis), Catch::Contains("answers_candidate.jsonl has blend counters, of a pass that "
                                                 "captured none: they are ignored"));
  CHECK_FALSE(analysis.summary.engagement.measured);
  CHECK_FALSE(analysis.summary.reuse);
  for (const Row& row : analysis.rows) {
    CHECK_FALSE(row.blend_share);
    CHECK_FALSE(row.reuse.kind);
  }
}

}  // namespace poolmark::quality

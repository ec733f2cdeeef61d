// What a job believes of a comparison of answers: PASS alone, and only where something could have been lost.
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/quality/codec.h"
#include "controller/steps/accuracy_files.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/quality/one_plan.h"

namespace poolmark::controller {
namespace {

stats::AccuracyEvidence Said(const test::OnePlan& comparison, const AccuracyTokens& tokens, bool tiers) {
  test::TempDir dir;
  const std::string summary = quality::EncodeSummary(comparison.Analyze().summary).value();
  REQUIRE(AtomicWriteFile(dir / "summary.json", summary).ok());
  REQUIRE(WriteAccuracyTokens(dir.path(), PlannedAccuracy{"comp", "base"}, tokens).ok());
  stats::AccuracyEvidence evidence;
  DescribeAccuracyResult(dir.path(), tiers, &evidence);
  return evidence;
}

AccuracyTokens Read(double gpu, double remote) {
  AccuracyTokens tokens;
  stats::TokenSources sources;
  sources.prompt = 1000;
  sources.gpu = gpu;
  sources.remote = remote;
  sources.computed = 1000 - gpu - remote;
  tokens.sources = sources;
  return tokens;
}

}  // namespace

TEST_CASE("a PASS in which nothing could be lost is no accuracy result", "[I7][K30]") {
  test::OnePlan good;
  CHECK(Said(good, Read(100, 700), true).verdict == "PASS");
  CHECK_THAT(Said(good, Read(100, 700), true).detail, Catch::StartsWith("delta 0.000"));

  const stats::AccuracyEvidence unread = Said(good, Read(100, 0), true);
  CHECK(unread.verdict.empty());
  CHECK_THAT(unread.detail,
             Catch::StartsWith("PASS, but the counted pass read no KV from host, storage or remote") &&
                 Catch::Contains("delta 0.000 +- 0.000 over 40 questions"));
  // Without a tier below the GPUs every token's KV is the compressed one.
  CHECK(Said(good, Read(100, 0), false).verdict == "PASS");
  // What was not measured is no zero.
  AccuracyTokens unknown;
  unknown.sources = NotMeasured{"no metrics page"};
  CHECK(Said(good, unknown, true).verdict == "PASS");
  CHECK_THAT(Said(good, unknown, true).detail, Catch::Contains("is not measured: no metrics page"));

  test::OnePlan nothing_right;
  for (quality::Pass& pass : nothing_right.directory.passes) {
    for (quality::Answer& answer : pass.answers) answer.answer = "";
  }
  REQUIRE(nothing_right.Analyze().summary.verdict == quality::Verdict::kPass);
  const stats::AccuracyEvidence said = Said(nothing_right, Read(100, 700), true);
  CHECK(said.verdict.empty());
  CHECK_THAT(said.detail, Catch::StartsWith("PASS, but reference_1 scores 0 on every question"));

  // Other verdicts stand as they are.
  test::OnePlan lost;
  for (size_t i = 0; i < 12; ++i) lost.Say(i, "Bridgeport");
  CHECK(Said(lost, Read(100, 0), true).verdict == "FAIL");
}

}  // namespace poolmark::controller

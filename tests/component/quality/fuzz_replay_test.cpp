// The fuzzers' checks on recorded inputs and on some thousand mutations of them: runs wherever the tests run.
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/base/random.h"
#include "common/quality/accuracy.h"
#include "common/quality/analyze.h"
#include "common/quality/recompute.h"
#include "common/quality/report_html.h"
#include "common/quality/report_text.h"
#include "common/quality/verify.h"
#include "tests/component/quality/bench_setup.h"
#include "tests/fuzz/quality_replies.h"
#include "tests/fuzz/quality_targets.h"
#include "tests/unit/quality/quality_data.h"

namespace poolmark::quality {
namespace {

// A few bytes changed, cut, doubled or replaced by what JSON readers stumble over.
std::string Mutated(std::string text, SplitMix64* random) {
  static const std::string kPieces[] = {"\"",   "}",        "]",    "\\ud800", "\\u0000",
                                        "-1",   "1e999",    "null", "{\"",     std::string(1, '\0'),
                                        "\xff", "<answer>", "\n\n", ", "};
  for (uint64_t n = random->Below(4) + 1; n > 0 && !text.empty(); --n) {
    size_t at = random->Below(text.size());
    switch (random->Below(5)) {
      case 0:
        text[at] = static_cast<char>(random->Below(256));
        break;
      case 1:
        text.erase(at, random->Below(20));
        break;
      case 2:
        text.insert(at, kPieces[random->Below(std::size(kPieces))]);
        break;
      case 3:
        text.resize(at);
        break;
      default:
        text.insert(at, text.substr(random->Below(text.size()), random->Below(40)));
    }
  }
  return text;
}

// One number, word or list of a file replaced by what readers stumble over.
std::string OneValueChanged(std::string text, SplitMix64* random) {
  static const std::string kValues[] = {"0",
                                        "-1",
                                        "1",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "18446744073709551615",
                                        "1e308",
                                        "-1e308",
                                        "1e-308",
                                        "-0.0",
                                        "null",
                                        "true",
                                        "\"\"",
                                        "\"x\"",
                                        "[]",
                                        "{}"};
  static constexpr std::string_view kBegins = "0123456789-tfn[";
  for (int tries = 0; tries < 1000; ++tries) {
    const size_t at = random->Below(text.size());
    const bool value =
        at >= 2 && (text[at - 1] == ' ' || text[at - 1] == '[') && kBegins.find(text[at]) != kBegins.npos;
    if (!value) continue;
    size_t end = text.find_first_of(",]}\n", at + 1);
    if (text[at] == '[') end = text.find(']', at) + 1;
    return text.replace(at, std::min(end, text.size()) - at, kValues[random->Below(std::size(kValues))]);
  }
  return text;
}

}  // namespace

TEST_CASE("a directory that loads can be compared, shown and written, whatever its values are", "[K2]") {
  const std::string scenario = GENERATE("independent", "concatenated");
  test::QualityBench bench;
  test::FakeEngineOptions options;
  options.answer = [](const std::string& question, int number) {
    return "<answer>" + (number % 5 == 0 ? "Rivertown" : test::QualityBench::Gold(question)) + "</answer>";
  };
  test::FakeEngine reference(options), candidate(options);
  bench.options.reference_url = reference.url();
  bench.options.candidate_url = candidate.url();
  bench.options.blend_metrics_url = candidate.metrics_url();
  bench.options.settings.scenario = scenario;
  if (scenario == "concatenated") {
    bench.options.settings.filler = "none";
    bench.options.settings.min_unit_tokens = 128;
  }
  bench.Run();
  AnalyzeOptions analyze;
  analyze.directory = bench.out();
  REQUIRE(AnalyzeDirectory(analyze, {nullptr, [](Nanoseconds) {}, {}, nullptr}).ok());
  const std::vector<std::string> names = ListDir(bench.out()).value();
  SplitMix64 random(20261201);
  int loaded = 0;
  int recomputed = 0;
  int verified = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string file = bench.out() + "/" + names[random.Below(names.size())];
    const std::string before = ReadFile(file).value();
    const std::string after = OneValueChanged(before, &random);
    REQUIRE(AtomicWriteFile(file, after).ok());
    Result<LoadedDirectory> directory = Directory(bench.out()).Load(true);
    for (const char* metric : {"match", "f1"}) {
      if (!directory.ok()) {
        // What is refused is named.
        CHECK_THAT(std::string(directory.status().message()), Catch::Contains(bench.out()));
        break;
      }
      ++loaded;
      VerdictSettings settings;
      settings.metric = metric;
      Result<Analysis> analysis = Analyze(*directory, settings, nullptr);
      if (!analysis.ok()) {
        CHECK(analysis.status().code() == absl::StatusCode::kFailedPrecondition);
        continue;
      }
      INFO(file);
      CHECK(EncodeSummary(analysis->summary).ok());
      CHECK(EncodeRows(analysis->rows).ok());
      CHECK(EncodeStatistics(*analysis).ok());
      CHECK_FALSE(SummaryText(*analysis).empty());
      CHECK_FALSE(ShowText(analysis->rows, *directory, {"", true, false}).empty());
      CHECK_FALSE(ReportHtml(*directory, *analysis).empty());
      (void)PlanProblems(directory->plan);
    }
    // verify refuses, or says what it found; no value breaks it.
    if (const Result<VerifyReport> report = VerifyDirectory(bench.out()); report.ok()) {
      ++verified;
    } else {
      CHECK_FALSE(report.status().message().empty());
    }
    // The comparison with whatever settings the file holds.
    if (directory.ok()) {
      const Result<Recomputed> again = Recompute(*directory, bench.out());
      if (again.ok()) ++recomputed;
      if (!again.ok()) CHECK_FALSE(again.status().message().empty());
    }
    REQUIRE(AtomicWriteFile(file, before).ok());
  }
  CHECK(loaded > 100);
  CHECK(recomputed > 100);
  CHECK(verified > 100);
}

TEST_CASE("readers hold on recorded, mutated and hostile inputs", "[K2]") {
  std::vector<std::pair<int, std::string>> seeds;
  const std::string hostile[] = {"",
                                 "{",
                                 "[]",
                                 "null",
                                 "{\"schema_version\": 1}",
                                 std::string(100000, '['),
                                 "{\"a\":1,\"a\":2}",
                                 "\xff\xfe\n\n{}",
                                 "<answer><answer></answer>",
                                 "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud800\"}}]}\n\n",
                                 "data: [DONE]\n\ndata: {}\n\n"};
  for (const std::string& text : hostile) {
    for (int kind = 0; kind < test::kQualityFileKinds; ++kind) test::FuzzQualityFile(kind, text);
    test::FuzzQualityText(text);
    test::FuzzQualityReplies(text);
  }
  if (auto data = test::QualityData()) {
    auto add = [&](int kind, const std::string& file) {
      Result<std::string> text = ReadFile(*data + "/" + file);
      if (text.ok()) seeds.emplace_back(kind, text->substr(0, 60000));
    };
    add(0, "c16_one_question/input/plan.json");
    add(1, "c16_one_question/input/manifest.jsonl");
    add(2, "c02_indep_match_fail/input/arm_candidate.json");
    add(3, "c16_one_question/input/answers_candidate.jsonl");
    add(4, "c16_one_question/expected/rows.jsonl");
    add(5, "c02_indep_match_fail/expected/summary.json");
    add(6, "c08_judge_cache_partial/input/judge_cache.jsonl");
    add(7, "shared/dataset.json");
    add(8, "shared/dataset.json");
  }
  // What the fuzzers keep, with the kind in front.
  for (const char* target : {"quality_files", "quality_text"}) {
    const std::string corpus = test::Source(std::string("tests/fuzz/corpus/") + target);
    Result<std::vector<std::string>> names = ListDir(corpus);
    REQUIRE(names.ok());
    CHECK(names->size() >= 8);
    for (const std::string& name : *names) {
      const std::string text = ReadFile(corpus + "/" + name).value();
      if (text.empty()) continue;
      test::FuzzQualityText(text);
      seeds.emplace_back(static_cast<unsigned char>(text[0]) % test::kQualityFileKinds, text.substr(1));
    }
  }
  SplitMix64 random(20261130);
  for (const auto& [kind, text] : seeds) {
    test::FuzzQualityFile(kind, text);
    for (int i = 0; i < 150; ++i) {
      std::string mutated = Mutated(text, &random);
      test::FuzzQualityFile(kind, mutated);
      if (i < 20) test::FuzzQualityText(std::string_view(mutated).substr(0, 3000));
    }
  }
  const std::string corpus = test::Source("tests/fuzz/corpus/quality_replies");
  const Result<std::vector<std::string>> replies = ListDir(corpus);
  REQUIRE(replies.ok());
  CHECK(replies->size() >= 8);
  for (const std::string& name : *replies) {
    const std::string text = ReadFile(corpus + "/" + name).value();
    test::FuzzQualityReplies(text);
    for (int i = 0; i < 50; ++i) test::FuzzQualityReplies(Mutated(text, &random));
  }
}

}  // namespace poolmark::quality

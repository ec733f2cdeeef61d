// A whole directory of arms, analyzed, for the tests of what reads one.
#pragma once
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/base/json_text.h"
#include "common/quality/accuracy.h"
#include "common/quality/codec.h"
#include "common/quality/verify.h"
#include "tests/component/quality/bench_setup.h"

namespace poolmark::test {

inline quality::AnalyzeOptions OptionsFor(const std::string& directory) {
  quality::AnalyzeOptions options;
  options.directory = directory;
  return options;
}

// For the metrics that ask nobody.
inline quality::JudgeContext NoJudge() {
  return {nullptr, [](Nanoseconds) {}, {}, nullptr};
}

inline void AnalyzeNow(const std::string& directory) {
  REQUIRE(quality::AnalyzeDirectory(OptionsFor(directory), NoJudge()).ok());
}

// The comparison of what lies in a directory; nothing is saved.
inline quality::Analysis AnalysisOf(const std::string& directory,
                                    const quality::VerdictSettings& settings = {}) {
  Result<quality::LoadedDirectory> loaded = quality::Directory(directory).Load(false);
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  Result<quality::Analysis> analysis = quality::Analyze(*loaded, settings, nullptr);
  INFO(analysis.status().message());
  REQUIRE(analysis.ok());
  return *std::move(analysis);
}

// A directory of three arms, analyzed, in the given scenario.
struct Analyzed {
  explicit Analyzed(const std::string& scenario) {
    FakeEngine engine(Answering());
    bench.options.settings.scenario = scenario;
    if (scenario == "concatenated") {
      bench.options.settings.filler = "none";
      bench.options.settings.min_unit_tokens = 128;
    }
    bench.options.reference_url = engine.url();
    bench.options.candidate_url = engine.url();
    bench.Run();
    Analyze();
  }
  void Analyze() { AnalyzeNow(bench.out()); }
  // Changes one value of plan.json, writes the manifest to match, analyzes again.
  void Tamper(const std::string& pointer, const Json& value) {
    const std::string file = bench.out() + "/plan.json";
    Json plan = ParseJson(ReadFile(file).value()).value();
    plan.at(Json::json_pointer(pointer)) = value;
    REQUIRE(AtomicWriteFile(file, WriteJson(plan).value()).ok());
    const std::string manifest =
        quality::EncodeManifest(quality::DecodePlan(ReadFile(file).value(), file).value()).value();
    REQUIRE(AtomicWriteFile(bench.out() + "/manifest.jsonl", manifest).ok());
    Analyze();
  }
  std::string Problems() const {
    Result<quality::VerifyReport> report = quality::VerifyDirectory(bench.out());
    INFO(report.status().message());
    REQUIRE(report.ok());
    std::string text;
    for (const std::string& problem : report->problems) text += problem + "\n";
    return text;
  }
  QualityBench bench;
};

}  // namespace poolmark::test

// The results directory of one job: names and versions (docs/result-files.md). Pure.
#pragma once
#include <string>
#include <string_view>

namespace poolmark::results {

// Of every JSON file here; a reader refuses another with exit 2.
inline constexpr int kSchemaVersion = 1;

inline constexpr std::string_view kJobFile = "job.json";
inline constexpr std::string_view kPlanFile = "plan.json";
inline constexpr std::string_view kPreflightFile = "preflight.json";
inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kSummaryFile = "summary.json";
inline constexpr std::string_view kReportFile = "report.html";
inline constexpr std::string_view kEventsFile = "events.jsonl";
inline constexpr std::string_view kSumsFile = "SHA256SUMS";
inline constexpr std::string_view kInputsDir = "inputs";
inline constexpr std::string_view kQualityDir = "quality";
// "quality/cand": the accuracy run of a stack.
std::string QualityDir(std::string_view stack);

// "cycles/2"; verify.json, teardown.json and logs/ lie in it.
std::string CycleDir(int cycle);
std::string VerifyFile(int cycle);
std::string TeardownFile(int cycle);
std::string CycleLogs(int cycle);
// "points/base/code-c16"; `level` is "c16", "r5" or "x2".
std::string PointDir(std::string_view stack, std::string_view workload, std::string_view level);
// "points/base/code-c16/repeat_1"; requests.jsonl.zst, samples/, repeat.json lie in it.
std::string RepeatDir(std::string_view stack, std::string_view workload, std::string_view level, int repeat);
inline constexpr std::string_view kRequestsFile = "requests.jsonl.zst";
inline constexpr std::string_view kRepeatFile = "repeat.json";
inline constexpr std::string_view kSamplesDir = "samples";
// "samples/n1.jsonl.zst".
std::string SamplesFile(std::string_view machine);

}  // namespace poolmark::results

// The whole benchmark as a library: what `poolmark quality` and the accuracy run of a job call. Writes into a
// results directory; one call at a time per directory.
#pragma once
#include <string>

#include "common/base/result.h"
#include "common/quality/analyze.h"
#include "common/quality/judge.h"
#include "common/quality/runner.h"

namespace poolmark::quality {

struct AnalyzeOptions {
  std::string directory;
  VerdictSettings settings;
  // Judge metric only:
  std::string judge_url;
  std::string judge_api_key;
  int judge_parallel = 8;
  Nanoseconds judge_timeout = std::chrono::seconds(120);
  std::string judge_templates;  // "": JudgeTemplateDirectory()
};

// Compares the arms in the directory and saves rows.jsonl, statistics.json and summary.json. Errors are
// refusals, with nothing written.
Result<Analysis> AnalyzeDirectory(const AnalyzeOptions& options, const JudgeContext& context);

// The end of a job's accuracy run: once every arm lies in the directory (RunArms, one stack after the other;
// the plan holds them to the same prompts), the comparison, the three files and report.html.
struct AccuracyResult {
  Verdict verdict = Verdict::kInvalid;
  std::string run_fingerprint;
  PairedComparison candidate;
  int64_t questions = 0;  // compared
  std::vector<std::string> invalid_reasons;
  int64_t samples_needed = 0;
  // Why a PASS is none to rely on, as nothing could have been lost; "" else.
  std::string says_nothing;
};
Result<AccuracyResult> FinishAccuracy(const AnalyzeOptions& options, const JudgeContext& context);
// The same from the directory's summary.json; NotFound where there is none.
Result<AccuracyResult> ReadAccuracy(const std::string& directory);

// "delta -0.120 +- 0.046 over 200 questions", with the reasons of INVALID and the questions that UNDERPOWERED
// asks for.
std::string DescribeAccuracy(const AccuracyResult& result);

}  // namespace poolmark::quality

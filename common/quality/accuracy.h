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

// The accuracy run of a job: every arm that has a URL, then the comparison and report.html, all in run.out.
// Arms that are not up at the same time are run one by one: RunArms() with the reference's URL while its
// stack is up, then RunAccuracy() with the candidate's alone; the plan in the directory holds both to the
// same prompts.
struct AccuracyOptions {
  RunOptions run;
  AnalyzeOptions analyze;  // `directory` is taken from run.out
};
struct AccuracyResult {
  Verdict verdict = Verdict::kInvalid;
  std::string run_fingerprint;
  PairedComparison candidate;
  std::vector<std::string> invalid_reasons;
  std::string text;  // the few lines for people
};
Result<AccuracyResult> RunAccuracy(const AccuracyOptions& options, const RunContext& context);

// A candidate may be believed only with PASS: the sentence for a job's validity, or nothing.
std::optional<std::string> WhyNotAccurate(const AccuracyResult& result);

}  // namespace poolmark::quality

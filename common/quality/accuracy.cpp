#include "common/quality/accuracy.h"

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/quality/codec.h"
#include "common/quality/directory.h"
#include "common/quality/judge_cache.h"
#include "common/quality/judge_templates.h"
#include "common/quality/report_html.h"
#include "common/quality/report_text.h"
#include "common/quality/warnings.h"

namespace poolmark::quality {
namespace {

Status CheckVerdictSettings(const AnalyzeOptions& options) {
  const VerdictSettings& s = options.settings;
  if (s.metric != "match" && s.metric != "f1" && s.metric != "judge") {
    return InvalidInput("--metric", absl::StrCat("is '", s.metric, "', one of match, f1, judge is needed"));
  }
  const std::pair<const char*, double> shares[] = {{"--tolerance", s.tolerance},
                                                   {"--min-blend-share", s.min_blend_share},
                                                   {"--min-reuse-ratio", s.min_reuse_ratio}};
  for (const auto& [name, value] : shares) {
    if (!(value >= 0 && value <= 1))
      return InvalidInput(name, absl::StrCat("is ", value, ", between 0 and 1 is needed"));
  }
  if (options.judge_timeout <= Nanoseconds(0))
    return InvalidInput("--judge-timeout", "is 0, a time above 0 is needed");
  bool judge = s.metric == "judge";
  if (judge && (options.judge_url.empty() || s.judge_model.value_or("").empty())) {
    return InvalidInput("--metric judge", "needs --judge-url and --judge-model");
  }
  if (!judge && (s.judge_model || !options.judge_url.empty())) {
    return InvalidInput("--judge-url, --judge-model",
                        absl::StrCat("are for --metric judge, the metric is ", s.metric));
  }
  return absl::OkStatus();
}

Result<JudgeTable> Rate(const LoadedDirectory& loaded, const AnalyzeOptions& options,
                        const JudgeContext& context) {
  std::string templates_dir =
      options.judge_templates.empty() ? JudgeTemplateDirectory() : options.judge_templates;
  POOLMARK_ASSIGN_OR_RETURN(JudgeTemplates templates, LoadJudgeTemplates(templates_dir));
  POOLMARK_ASSIGN_OR_RETURN(std::unique_ptr<JudgeCache> cache,
                            JudgeCache::Open(JoinPath(options.directory, "judge_cache.jsonl")));
  JudgeOptions judge{options.judge_url, *options.settings.judge_model, options.judge_api_key,
                     options.judge_parallel, options.judge_timeout};
  return RateAnswers(loaded, judge, templates, cache.get(), context);
}

}  // namespace

Result<Analysis> AnalyzeDirectory(const AnalyzeOptions& options, const JudgeContext& context) {
  POOLMARK_RETURN_IF_ERROR(CheckVerdictSettings(options));
  Directory directory(options.directory);
  Result<DirectoryLock> lock = DirectoryLock::Take(options.directory);
  // What else is wrong with a directory is better said by its reader.
  if (absl::IsFailedPrecondition(lock.status())) return lock.status();
  POOLMARK_ASSIGN_OR_RETURN(LoadedDirectory loaded, directory.Load(false));
  JudgeTable table;
  bool judge = options.settings.metric == "judge";
  if (judge) {
    POOLMARK_RETURN_IF_ERROR(
        Analyze(loaded, options.settings, &table).status());  // refuse before the first call
    POOLMARK_ASSIGN_OR_RETURN(table, Rate(loaded, options, context));
  }
  POOLMARK_ASSIGN_OR_RETURN(Analysis analysis, Analyze(loaded, options.settings, judge ? &table : nullptr));
  POOLMARK_ASSIGN_OR_RETURN(std::string rows, EncodeRows(analysis.rows));
  POOLMARK_ASSIGN_OR_RETURN(std::string statistics, EncodeStatistics(analysis));
  POOLMARK_ASSIGN_OR_RETURN(std::string summary, EncodeSummary(analysis.summary));
  POOLMARK_RETURN_IF_ERROR(directory.SaveResults(rows, statistics, summary));
  return analysis;
}

namespace {

AccuracyResult ShortResult(const Summary& s) {
  return {s.verdict,
          s.run_fingerprint,
          s.candidate.figures,
          s.num_questions - s.unscored_questions,
          s.invalid_reasons,
          s.samples_needed,
          NothingToLose(s).value_or("")};
}

}  // namespace

Result<AccuracyResult> FinishAccuracy(const AnalyzeOptions& options, const JudgeContext& context) {
  POOLMARK_ASSIGN_OR_RETURN(Analysis analysis, AnalyzeDirectory(options, context));
  POOLMARK_ASSIGN_OR_RETURN(LoadedDirectory loaded, Directory(options.directory).Load(false));
  POOLMARK_RETURN_IF_ERROR(
      AtomicWriteFile(JoinPath(options.directory, "report.html"), ReportHtml(loaded, analysis)));
  return ShortResult(analysis.summary);
}

Result<AccuracyResult> ReadAccuracy(const std::string& directory) {
  const std::string file = JoinPath(directory, "summary.json");
  if (!FileExists(file)) return NotFound(file, "is not there");
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(file, 64 << 20));
  POOLMARK_ASSIGN_OR_RETURN(Summary summary, DecodeSummary(text, file));
  return ShortResult(summary);
}

std::string DescribeAccuracy(const AccuracyResult& result) {
  std::string text = absl::StrCat("delta ", Fixed3(result.candidate.delta));
  if (result.candidate.standard_error)
    absl::StrAppend(&text, " +- ", Fixed3(2 * *result.candidate.standard_error));
  absl::StrAppend(&text, " over ", result.questions, result.questions == 1 ? " question" : " questions");
  for (const std::string& reason : result.invalid_reasons) absl::StrAppend(&text, "; ", reason);
  if (result.samples_needed > 0)
    absl::StrAppend(&text, "; about ", result.samples_needed, " questions would settle it");
  if (!result.says_nothing.empty()) absl::StrAppend(&text, "; ", result.says_nothing);
  return text;
}

}  // namespace poolmark::quality

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "cli/commands/quality_commands.h"
#include "cli/commands/quality_support.h"
#include "cli/output/interrupt.h"
#include "cli/output/terminal.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/http/stoppable_client.h"
#include "common/quality/accuracy.h"
#include "common/quality/codec.h"
#include "common/quality/recompute.h"
#include "common/quality/report_html.h"
#include "common/quality/report_text.h"
#include "common/quality/verify.h"

namespace poolmark::cli {
namespace {

constexpr uint64_t kMaxFile = uint64_t{1} << 30;
constexpr size_t kMostOnTerminal = 4000;  // bytes of one text of `show`

int ExitCode(quality::Verdict verdict) {
  switch (verdict) {
    case quality::Verdict::kPass:
      return 0;
    case quality::Verdict::kFail:
      return 1;
    case quality::Verdict::kUnderpowered:
      return 3;
    case quality::Verdict::kInvalid:
      return 4;
  }
  return 70;
}

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

struct Results {
  quality::Summary summary;
  std::vector<quality::Row> rows;
};

Result<Results> LoadResults(const std::string& directory) {
  std::string summary_file = JoinPath(directory, "summary.json");
  if (!FileExists(summary_file))
    return NotFound(summary_file, "is missing", "run poolmark quality analyze first");
  Results out;
  POOLMARK_ASSIGN_OR_RETURN(std::string summary, ReadFile(summary_file, kMaxFile));
  POOLMARK_ASSIGN_OR_RETURN(out.summary, quality::DecodeSummary(summary, summary_file));
  std::string rows_file = JoinPath(directory, "rows.jsonl");
  POOLMARK_ASSIGN_OR_RETURN(std::string rows, ReadFile(rows_file, kMaxFile));
  POOLMARK_ASSIGN_OR_RETURN(out.rows, quality::DecodeRows(rows, rows_file));
  return out;
}

}  // namespace

int RunQualityAnalyze(const QualityAnalyzeArguments& a) {
  quality::AnalyzeOptions options;
  options.directory = a.directory;
  options.settings.metric = a.metric;
  options.settings.tolerance = a.tolerance;
  options.settings.min_blend_share = a.min_blend_share;
  options.settings.min_reuse_ratio = a.min_reuse_ratio;
  if (!a.judge_model.empty()) options.settings.judge_model = a.judge_model;
  options.judge_url = a.judge_url;
  options.judge_parallel = a.judge_parallel;
  options.judge_templates = a.judge_templates;
  Result<Nanoseconds> timeout = ParseDuration(a.judge_timeout);
  if (!timeout.ok()) return Refuse(timeout.status());
  options.judge_timeout = *timeout;
  Result<std::string> key = ApiKey(a.judge_key_file);
  if (!key.ok()) return Refuse(key.status());
  options.judge_api_key = *key;
  Interrupt interrupt;
  const StopMessage said(interrupt.token());
  ProgressLine progress;
  std::unique_ptr<http::Client> client = http::MakeStoppableClient(interrupt.token());
  quality::JudgeContext context{
      client.get(), [&](Nanoseconds wait) { SleepUnlessStopped(interrupt.token(), wait); }, interrupt.token(),
      [&](const quality::JudgeProgress& p) {
        progress.Show(absl::StrCat("judge: ", p.done, "/", p.total, ", ", p.unrated, " without a rating"),
                      p.done == p.total);
      }};
  Result<quality::Analysis> analysis = quality::AnalyzeDirectory(options, context);
  if (!analysis.ok()) return Refuse(analysis.status());
  if (a.output == "json") {
    Result<std::string> text = quality::EncodeSummary(analysis->summary);
    if (!text.ok()) return Refuse(text.status());
    Print(*text);
    for (const std::string& warning : analysis->warnings)
      std::fprintf(stderr, "warning: %s\n", warning.c_str());
  } else {
    Print(quality::SummaryText(*analysis));
    Print(absl::StrCat("  rows: ", JoinPath(a.directory, "rows.jsonl"), "\n"));
  }
  return ExitCode(analysis->summary.verdict);
}

int RunQualityShow(const QualityShowArguments& a) {
  Result<Results> results = LoadResults(a.directory);
  if (!results.ok()) return Refuse(results.status());
  Result<quality::LoadedDirectory> loaded = quality::Directory(a.directory).Load(a.responses);
  if (!loaded.ok()) return Refuse(loaded.status());
  const bool known = a.qid.empty() || std::any_of(results->rows.begin(), results->rows.end(),
                                                  [&](const quality::Row& row) { return row.qid == a.qid; });
  if (!known) {
    return Refuse(NotFound(JoinPath(a.directory, "rows.jsonl"),
                           absl::StrCat("has no question '", quality::Printable(a.qid), "'")));
  }
  Print(quality::ShowText(results->rows, *loaded,
                          {a.qid, a.all, a.responses, StdoutIsTerminal() ? kMostOnTerminal : 0}));
  return 0;
}

int RunQualityVerify(const std::string& directory) {
  Result<quality::VerifyReport> report = quality::VerifyDirectory(directory);
  if (!report.ok()) return Refuse(report.status());
  for (const std::string& line : report->checked) Print("checked " + line + "\n");
  for (const std::string& line : report->warnings) Print("warning " + line + "\n");
  for (const std::string& line : report->problems) Print("problem " + line + "\n");
  Print(report->problems.empty() ? "sound\n"
                                 : absl::StrCat(report->problems.size(),
                                                report->problems.size() == 1 ? " problem\n" : " problems\n"));
  return report->problems.empty() ? 0 : 1;
}

int RunQualityCompare(const std::string& a, const std::string& b) {
  Result<Results> left = LoadResults(a);
  if (!left.ok()) return Refuse(left.status());
  Result<Results> right = LoadResults(b);
  if (!right.ok()) return Refuse(right.status());
  auto plan_of = [](const std::string& directory) {
    auto plan = quality::Directory(directory).LoadPlan();
    return plan.ok() ? *std::move(plan) : std::nullopt;
  };
  std::optional<quality::Plan> left_plan = plan_of(a);
  std::optional<quality::Plan> right_plan = plan_of(b);
  std::vector<std::string> differences = quality::WhyNotComparable(
      left->summary, right->summary, left_plan ? &*left_plan : nullptr, right_plan ? &*right_plan : nullptr);
  if (!differences.empty()) {
    std::fprintf(stderr, "poolmark: %s and %s cannot be compared, their run fingerprints differ:\n",
                 a.c_str(), b.c_str());
    for (const std::string& difference : differences) std::fprintf(stderr, "  %s\n", difference.c_str());
    return 2;
  }
  Print(quality::CompareText(left->summary, left->rows, right->summary, right->rows));
  return 0;
}

int RunQualityReport(const std::string& directory, const std::string& out) {
  Result<quality::LoadedDirectory> loaded = quality::Directory(directory).Load(false);
  if (!loaded.ok()) return Refuse(loaded.status());
  Result<quality::Recomputed> again = quality::Recompute(*loaded, directory);
  if (!again.ok()) return Refuse(again.status());
  // A page may not tell another verdict than the files beside it.
  if (!again->problems.empty()) {
    return Refuse(Precondition(directory, again->problems.front(), "run poolmark quality analyze again"));
  }
  std::string file = out.empty() ? JoinPath(directory, "report.html") : out;
  // A slip of the hand must not turn a result into a page.
  if (FileExists(file)) {
    Result<std::string> older = ReadFile(file, kMaxFile);
    if (!older.ok() || !older->starts_with("<!doctype html>"))
      return Refuse(Precondition(file, "exists and is no report", "give --out another name"));
  }
  if (Status written = AtomicWriteFile(file, quality::ReportHtml(*loaded, again->analysis)); !written.ok())
    return Refuse(written);
  Print(file + "\n");
  return 0;
}

}  // namespace poolmark::cli

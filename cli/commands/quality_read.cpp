#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/commands/quality_commands.h"
#include "cli/commands/quality_support.h"
#include "cli/output/interrupt.h"
#include "cli/output/table.h"
#include "cli/output/terminal.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/http/stoppable_client.h"
#include "common/quality/accuracy.h"
#include "common/quality/codec.h"
#include "common/quality/recompute.h"
#include "common/quality/report_html.h"
#include "common/quality/report_json.h"
#include "common/quality/report_text.h"
#include "common/quality/verify.h"

namespace poolmark::cli {
namespace {

constexpr size_t kMostOnTerminal = 4000;  // bytes of one text of `show`

int CodeOfVerdict(quality::Verdict verdict) {
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
// For people: whatever in it came from models, servers and files, only the line ends act.
void PrintText(const std::string& text) {
  Print(Printable(text, true));
}

int PrintJson(const Result<std::string>& text) {
  if (!text.ok()) return Refuse(text.status(), "json");
  Print(*text);
  return 0;
}

struct Results {
  quality::Summary summary;
  std::vector<quality::Row> rows;
};

Result<Results> LoadResults(const std::string& directory) {
  const quality::Directory files(directory);
  Results out;
  POOLMARK_ASSIGN_OR_RETURN(std::string summary, files.ReadResult("summary.json"));
  POOLMARK_ASSIGN_OR_RETURN(out.summary, quality::DecodeSummary(summary, files.File("summary.json")));
  POOLMARK_ASSIGN_OR_RETURN(std::string rows, files.ReadResult("rows.jsonl"));
  POOLMARK_ASSIGN_OR_RETURN(out.rows, quality::DecodeRows(rows, files.File("rows.jsonl")));
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
  if (!timeout.ok()) return Refuse(timeout.status(), a.output);
  options.judge_timeout = *timeout;
  Result<std::string> key = ApiKey(a.judge_key_file);
  if (!key.ok()) return Refuse(key.status(), a.output);
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
  if (!analysis.ok()) return Refuse(analysis.status(), a.output);
  if (a.output == "json") {
    Result<std::string> text = quality::EncodeSummary(analysis->summary);
    if (!text.ok()) return Refuse(text.status(), a.output);
    Print(*text);
    for (const std::string& warning : analysis->warnings)
      std::fprintf(stderr, "warning: %s\n", Printable(warning).c_str());
  } else {
    PrintText(quality::SummaryText(*analysis));
    PrintText(absl::StrCat("  rows: ", JoinPath(a.directory, "rows.jsonl"), "\n"));
  }
  return CodeOfVerdict(analysis->summary.verdict);
}

int RunQualityShow(const QualityShowArguments& a) {
  Result<Results> results = LoadResults(a.directory);
  if (!results.ok()) return Refuse(results.status(), a.output);
  Result<quality::LoadedDirectory> loaded = quality::Directory(a.directory).Load(a.responses);
  if (!loaded.ok()) return Refuse(loaded.status(), a.output);
  const bool known = a.qid.empty() || std::any_of(results->rows.begin(), results->rows.end(),
                                                  [&](const quality::Row& row) { return row.qid == a.qid; });
  if (!known) {
    return Refuse(NotFound(JoinPath(a.directory, "rows.jsonl"),
                           absl::StrCat("has no question '", quality::Printable(a.qid), "'")),
                  a.output);
  }
  if (a.output == "json")
    return PrintJson(quality::ShowJson(results->rows, *loaded, {a.qid, a.all, a.responses, 0}));
  PrintText(quality::ShowText(results->rows, *loaded,
                              {a.qid, a.all, a.responses, StdoutIsTerminal() ? kMostOnTerminal : 0}));
  return 0;
}

int RunQualityVerify(const std::string& directory, const std::string& output) {
  Result<quality::VerifyReport> report = quality::VerifyDirectory(directory);
  if (!report.ok()) return Refuse(report.status(), output);
  const int code = report->problems.empty() ? 0 : 1;
  if (output == "json") {
    const int printed = PrintJson(quality::VerifyJson(*report));
    return printed != 0 ? printed : code;
  }
  for (const std::string& line : report->checked) Print("checked " + Printable(line) + "\n");
  for (const std::string& line : report->warnings) Print("warning " + Printable(line) + "\n");
  for (const std::string& line : report->problems) Print("problem " + Printable(line) + "\n");
  Print(report->problems.empty() ? "sound\n"
                                 : absl::StrCat(report->problems.size(),
                                                report->problems.size() == 1 ? " problem\n" : " problems\n"));
  return code;
}

int RunQualityCompare(const std::string& a, const std::string& b, const std::string& output) {
  Result<Results> left = LoadResults(a);
  if (!left.ok()) return Refuse(left.status(), output);
  Result<Results> right = LoadResults(b);
  if (!right.ok()) return Refuse(right.status(), output);
  auto plan_of = [](const std::string& directory) {
    auto plan = quality::Directory(directory).LoadPlan();
    return plan.ok() ? *std::move(plan) : std::nullopt;
  };
  std::optional<quality::Plan> left_plan = plan_of(a);
  std::optional<quality::Plan> right_plan = plan_of(b);
  std::vector<std::string> differences = quality::WhyNotComparable(
      left->summary, right->summary, left_plan ? &*left_plan : nullptr, right_plan ? &*right_plan : nullptr);
  if (!differences.empty() && output == "json") {
    Errors errors;
    for (const std::string& difference : differences)
      errors.push_back({absl::StatusCode::kFailedPrecondition, "not_comparable", absl::StrCat(a, " and ", b),
                        difference, "compare runs of one run_fingerprint"});
    WriteErr(ErrorText(errors, Format::kJson));
    return 2;
  }
  if (!differences.empty()) {
    std::fprintf(stderr, "poolmark: %s and %s cannot be compared, their run fingerprints differ:\n",
                 Printable(a).c_str(), Printable(b).c_str());
    for (const std::string& difference : differences)
      std::fprintf(stderr, "  %s\n", Printable(difference).c_str());
    return 2;
  }
  if (output == "json")
    return PrintJson(quality::CompareJson(left->summary, left->rows, right->summary, right->rows));
  PrintText(quality::CompareText(left->summary, left->rows, right->summary, right->rows));
  return 0;
}

int RunQualityReport(const std::string& directory, const std::string& out, const std::string& output) {
  Result<quality::LoadedDirectory> loaded = quality::Directory(directory).Load(false);
  if (!loaded.ok()) return Refuse(loaded.status(), output);
  Result<quality::Recomputed> again = quality::Recompute(*loaded, directory);
  if (!again.ok()) return Refuse(again.status(), output);
  // A page may not tell another verdict than the files beside it.
  if (!again->problems.empty()) {
    return Refuse(Precondition(directory, again->problems.front(), "run poolmark quality analyze again"),
                  output);
  }
  std::string file = out.empty() ? JoinPath(directory, "report.html") : out;
  // A slip of the hand must not turn a result into a page.
  if (FileExists(file)) {
    Result<std::string> older = ReadFile(file, quality::kMaxFileBytes);
    if (!older.ok() || !older->starts_with("<!doctype html>"))
      return Refuse(Precondition(file, "exists and is no report", "give --out another name"), output);
  }
  if (Status written = AtomicWriteFile(file, quality::ReportHtml(*loaded, again->analysis)); !written.ok())
    return Refuse(written, output);
  Print(output == "json" ? JsonText({{"report", file}}, Format::kJson) : Printable(file) + "\n");
  return 0;
}

}  // namespace poolmark::cli

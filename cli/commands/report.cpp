#include "cli/commands/report.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/json_output.h"
#include "cli/output/terminal.h"
#include "common/base/files.h"
#include "common/report/html.h"
#include "common/report/knee_page.h"
#include "common/report/load_report.h"
#include "common/report/text.h"
#include "common/results/layout.h"

namespace poolmark::cli {
namespace {

struct ReportFlags {
  std::string directory, out;
  bool json = false, no_page = false;
};

// A directory that `poolmark load --out` wrote, without a job around it.
bool IsOf(const std::string& directory, const char* file) {
  return FileExists(JoinPath(directory, file)) && !FileExists(JoinPath(directory, results::kJobFile));
}

Status WritePage(const ReportFlags& flags, const std::string& page) {
  if (flags.no_page) return absl::OkStatus();
  const std::string path = flags.out.empty() ? JoinPath(flags.directory, results::kReportFile) : flags.out;
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(path, page));
  if (!flags.json) WriteOut("page: " + Printable(path) + "\n\n");
  return absl::OkStatus();
}

// 0: some request succeeded; 1: none did, or the load was interrupted; 3: stored figures differ.
Result<int> RunLoad(const ReportFlags& flags) {
  POOLMARK_ASSIGN_OR_RETURN(const report::LoadReport load, report::ReadLoadReport(flags.directory));
  POOLMARK_RETURN_IF_ERROR(WritePage(flags, report::LoadPage(load)));
  if (flags.json) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, report::LoadReportJson(load));
    WriteOut(text);
  } else {
    WriteOut(Printable(report::LoadReportText(load), true));
  }
  if (!load.load.differences.empty()) return 3;
  return load.load.summary.ok > 0 && !load.load.summary.interrupted ? 0 : 1;
}

// The --out of a sweep. 0: a knee was found; 1: none; 3: stored figures differ, or records of levels are
// missing.
Result<int> RunKnee(const ReportFlags& flags) {
  POOLMARK_ASSIGN_OR_RETURN(const report::KneeReport knee, report::ReadKneeReport(flags.directory));
  POOLMARK_RETURN_IF_ERROR(WritePage(flags, report::KneePage(knee)));
  if (!flags.json) {
    WriteOut(Printable(report::KneeText(knee), true));
  } else {
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, report::KneeJson(knee));
    WriteOut(text);
  }
  if (!knee.problems.empty() || !knee.differences.empty()) return 3;
  return knee.knee.has_value() ? 0 : 1;
}

// 0: valid; 1: invalid, incomplete or no result; 3: stored figures differ from what the files give, or files
// are damaged.
Result<int> RunJob(const ReportFlags& flags) {
  if (IsOf(flags.directory, report::kLoadFile)) return RunLoad(flags);
  if (IsOf(flags.directory, report::kKneeFile)) return RunKnee(flags);
  POOLMARK_ASSIGN_OR_RETURN(const report::Recomputed job, report::Recompute(flags.directory));
  POOLMARK_RETURN_IF_ERROR(WritePage(flags, report::ReportPage(job)));
  if (flags.json) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, report::ReportJson(job));
    WriteOut(text);
  } else {
    WriteOut(Printable(report::ReportText(job), true));
  }
  if (!job.problems.empty() || !job.differences.empty()) return 3;
  return job.summary.verdict == "VALID" ? 0 : 1;
}

}  // namespace

void AddReport(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* report = app.add_subcommand(
      "report", "Compute summary, verdict and page of a results directory again, from its files alone");
  report
      ->add_option("directory", flags->directory,
                   "Results directory of a job, or the --out of a load or of its --find-knee")
      ->required();
  report->add_option("--out", flags->out, "Where to write the page (default: report.html in the directory)");
  report->add_flag("--no-page", flags->no_page, "Write no page");
  AddJsonOutput(*report, &flags->json, "the summary, differences and problems");
  report->footer(
      "Exit status: 0 valid, 1 invalid, incomplete or no result, 2 refused, 3 files are damaged or differ "
      "from what follows from them. Of a load: 0 some request succeeded, 1 none did or it was interrupted; "
      "of a sweep: 0 a knee was "
      "found, 1 none.");
  report->callback([flags, &exit_code] {
    const auto result = RunJob(*flags);
    if (!result.ok()) WriteFailure(result.status(), flags->json);
    exit_code = result.ok() ? *result : 2;
  });
}

}  // namespace poolmark::cli

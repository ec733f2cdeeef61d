#include "cli/commands/compare.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands/json_output.h"
#include "cli/output/exit_code.h"
#include "cli/output/terminal.h"
#include "common/base/files.h"

namespace poolmark::cli {
namespace {

struct CompareFlags {
  std::vector<std::string> directories;
  std::string html;
  bool json = false, allow_machines = false, fail_on_worse = false;
};

Result<int> RunCompare(const CompareFlags& flags) {
  report::CompareOptions options;
  options.allow_machines = flags.allow_machines;
  POOLMARK_ASSIGN_OR_RETURN(const auto comparison, report::CompareDirectories(flags.directories, options));
  if (!flags.html.empty())
    POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(flags.html, report::ComparisonPage(comparison)));
  if (flags.json) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, report::ComparisonJson(comparison));
    WriteOut(text);
  } else {
    WriteOut(Printable(report::ComparisonText(comparison), true));
  }
  const int code = ExitCodeOf(comparison, flags.fail_on_worse);
  if (code == kExitJobInvalid)
    WriteErr(
        "poolmark: not every test point is compared (the output names the others): nothing says that none is "
        "worse\n");
  return code;
}

}  // namespace

int ExitCodeOf(const report::JobComparison& comparison, bool fail_on_worse) {
  if (comparison.refused()) return kExitUsage;
  if (comparison.damaged) return kExitJobFailed;
  if (!fail_on_worse) return kExitOk;
  const bool worse = std::any_of(comparison.comparisons.begin(), comparison.comparisons.end(),
                                 [](const auto& one) { return one.verdict == "worse"; });
  if (worse) return kExitFailed;
  return comparison.complete ? kExitOk : kExitJobInvalid;
}

void AddCompare(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* compare = app.add_subcommand(
      "compare",
      "Compare results directories with the first; refuse what is not comparable and name what differs");
  compare->add_option("directories", flags->directories, "Results directories, the baseline first")
      ->required()
      ->expected(2, -1);
  compare->add_option("--html", flags->html, "Also write a page to this file");
  AddJsonOutput(*compare, &flags->json, "the comparison");
  compare->add_flag("--allow-machines", flags->allow_machines,
                    "Compare although machines, GPUs or networks differ");
  compare->add_flag("--fail-on-worse", flags->fail_on_worse,
                    "Exit 1 when any figure is worse and 4 when a test point is not compared, for a gate");
  compare->footer(
      "Exit status: 0 compared, 2 refused, 3 compared, but files of a directory are damaged or differ from "
      "what follows from them; with --fail-on-worse also 1 a figure is worse, 4 none is, but a test point is "
      "in one directory only or has no pair of valid repeats.");
  compare->callback([flags, &exit_code] {
    const auto result = RunCompare(*flags);
    if (!result.ok()) WriteFailure(result.status(), flags->json);
    exit_code = result.ok() ? *result : 2;
  });
}

}  // namespace poolmark::cli

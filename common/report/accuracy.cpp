// The accuracy runs of stacks that compress KV, a line each, beside the repeats that they decide.
#include <map>

#include "common/base/html.h"
#include "common/report/drawing.h"
#include "common/report/format.h"
#include "common/report/sections.h"
#include "common/results/layout.h"

namespace poolmark::report {

std::string AccuracySection(const Recomputed& job) {
  std::map<std::string, stats::AccuracyEvidence> stacks;  // the last repeat's word
  for (const auto& repeat : job.repeats) {
    const stats::AccuracyEvidence& accuracy = repeat.facts.evidence.accuracy;
    if (!accuracy.compression.empty() && accuracy.compression != "none")
      stacks[repeat.facts.point.stack] = accuracy;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [stack, accuracy] : stacks) {
    const bool pass = accuracy.verdict == "PASS";
    const std::string page = accuracy.directory + "/report.html";
    rows.push_back({EscapeHtml(stack), EscapeHtml(accuracy.compression),
                    Badge(accuracy.verdict.empty() ? "no result" : accuracy.verdict, pass ? "good" : "bad"),
                    accuracy.detail.empty() ? "<span class=\"none\">–</span>" : EscapeHtml(accuracy.detail),
                    accuracy.directory.empty() ? "<span class=\"none\">–</span>"
                    // No other address than the one where it lies, whatever the file says.
                    : accuracy.directory == results::QualityDir(stack)
                        ? "<a href=\"" + EscapeHtml(page) + "\">" + EscapeHtml(page) + "</a>"
                        : EscapeHtml(page)});
  }
  if (rows.empty()) return "";
  return "<h3>Answers of stacks that compress KV</h3>" +
         Table("Accuracy runs", {"Stack", "Compression", "Verdict", "Against the reference", "Report"},
               rows) +
         "<h3>Repeats of all stacks</h3>";
}

}  // namespace poolmark::report

#include "common/report/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/report/charts.h"
#include "common/report/format.h"
#include "common/report/sections.h"
#include "common/report/sentences.h"
#include "common/report/workloads.h"
#include "common/results/figures.h"

namespace poolmark::report {
namespace {

using results::SummaryPoint;

std::string FigureText(const SummaryPoint& point, const std::string& name) {
  const auto at = point.figures.find(name);
  if (at == point.figures.end()) return "–";
  return FormatInterval(at->second) + (IsMarked(point, name) ? " *" : "");
}

std::string VerdictText(const std::string& verdict) {
  if (verdict == "VALID") return "valid";
  if (verdict == "INVALID") return "invalid";
  if (verdict == "INCOMPLETE") return "incomplete (its points are valid)";
  return "no result";
}

// The three-part line under the headline, once where all points share it, else with the points it belongs to.
void AddMeasuredLines(const results::SummaryFile& summary, std::string* out) {
  std::vector<std::pair<std::string, std::string>> lines;  // line, points
  for (const SummaryPoint& point : summary.points) {
    auto at = std::find_if(lines.begin(), lines.end(),
                           [&](const auto& line) { return line.first == point.measured_line; });
    if (at == lines.end()) at = lines.insert(lines.end(), {point.measured_line, ""});
    at->second += (at->second.empty() ? "" : ", ") + point.point.stack + " " + point.point.workload + "-" +
                  point.point.level;
  }
  for (const auto& [line, points] : lines) *out += line + (lines.size() > 1 ? ": " + points : "") + "\n";
}

std::string NameOf(const SummaryPoint& point) {
  return point.point.stack + " " + point.point.workload + "-" + point.point.level;
}

void AddConcerns(const SummaryPoint& point, std::string* out) {
  const std::string name = NameOf(point);
  for (const auto& repeat : point.repeats) {
    for (const auto& reason : repeat.reasons) {
      *out += "invalid: " + name + " repeat " + std::to_string(repeat.repeat) + ": " +
              std::string(stats::ReasonSentence(reason.reason)) + " (" + reason.detail + ")\n";
    }
  }
  for (const auto& warning : point.warnings) *out += "warning: " + name + ": " + warning + "\n";
  if (point.preliminary) *out += "preliminary: " + name + ": fewer than three valid repeats\n";
}

}  // namespace

std::string ReportText(const Recomputed& given) {
  const auto scaled = WithScaledNames(given);
  const Recomputed& job = scaled ? *scaled : given;
  const auto& summary = job.summary;
  std::string out = "job " + summary.job_id + ": " + summary.state + ", " + VerdictText(summary.verdict) +
                    ", " + (summary.publishable ? "publishable" : "not publishable") + "\n";
  if (!job.directory.job.reason.empty()) out += "ended early: " + job.directory.job.reason + "\n";
  AddMeasuredLines(summary, &out);
  for (const auto& line : WorkloadLines(job.directory.job)) out += line + "\n";
  if (!summary.points.empty()) {
    std::vector<std::vector<std::string>> rows = {
        {"point", "repeats", "TTFT P50", "TTFT P99", "TPOT P50", "tokens/s", "reused", "captured"}};
    for (const auto& point : summary.points) {
      const auto& repeats = point.repeats;
      const auto valid =
          std::count_if(repeats.begin(), repeats.end(), [](const auto& repeat) { return repeat.valid; });
      rows.push_back({point.point.stack + " " + point.point.workload + "-" + point.point.level +
                          (point.diagnostic ? " (diagnostic)" : ""),
                      std::to_string(valid) + "/" + std::to_string(repeats.size()),
                      FigureText(point, "ttft_p50_seconds"), FigureText(point, "ttft_p99_seconds"),
                      FigureText(point, "tpot_p50_seconds"), FigureText(point, "output_tokens_per_second"),
                      FigureText(point, "reused"), FigureText(point, "reuse_captured")});
    }
    out += "\n" + TextTable(rows);
    if (std::any_of(summary.points.begin(), summary.points.end(),
                    [](const SummaryPoint& point) { return point.client_limited; }))
      out += "* includes the load generator's own delay: its machine was too slow for the load\n";
    const auto own = std::count_if(summary.points.begin(), summary.points.end(),
                                   [](const SummaryPoint& point) { return point.engine_cache; });
    const bool all = own == static_cast<std::ptrdiff_t>(summary.points.size());
    rows = {{"prompt tokens from",
             all       ? "engine cache"
             : own > 0 ? "GPU or engine cache"
                       : "GPU",
             "host", "storage", "remote", "computed", "not attributed"}};
    for (const auto& point : summary.points) {
      rows.push_back({point.point.stack + " " + point.point.workload + "-" + point.point.level,
                      FigureText(point, "source_gpu"), FigureText(point, "source_host"),
                      FigureText(point, "source_storage"), FigureText(point, "source_remote"),
                      FigureText(point, "source_computed"), FigureText(point, "source_not_attributed")});
    }
    out += "\n" + TextTable(rows);
  }
  std::vector<std::vector<std::string>> rows = {
      {"against " + summary.baseline, "figure", "change", "verdict"}};
  for (const auto& one : summary.comparisons) {
    if (one.figure != "ttft_p50_seconds" && one.figure != "ttft_p99_seconds" &&
        one.figure != "output_tokens_per_second" && one.figure != "reused")
      continue;
    rows.push_back({one.candidate + " " + one.workload + "-" + one.level,
                    results::TitleOf(one.figure) + (IsMarked(summary.points, one) ? " *" : ""),
                    (one.relative.value_or(0) > 0 ? "+" : "") + FormatValue(one.relative, "share"),
                    one.verdict + (one.repeats_needed
                                       ? " (" + std::to_string(*one.repeats_needed) + " repeats would tell)"
                                       : "")});
  }
  if (rows.size() > 1) out += "\n" + TextTable(rows);
  std::string concerns;
  Sentences notes;
  for (const auto& point : summary.points) {
    AddConcerns(point, &concerns);
    notes.AddNotes(point, NameOf(point));
  }
  for (const auto& note : notes.Lines(summary.points.size())) concerns += "note: " + note + "\n";
  for (const auto& workload : job.directory.job.workloads) {
    for (const auto& note : ReplayNotesOf(workload))
      concerns += "note: " + workload.name + ": " + note + "\n";
  }
  for (const auto& line_ : summary.held_back_by) concerns += "held back: " + line_ + "\n";
  for (const auto& note : summary.notes) concerns += "note: " + note + "\n";
  if (!concerns.empty()) out += "\n" + concerns;
  for (const auto& problem : job.problems) out += "file: " + problem.path + ": " + problem.message + "\n";
  for (const auto& one : job.differences)
    out += "differs: " + one.file + ": " + one.path + " is " + one.stored + ", computed again " +
           one.computed + "\n";
  if (job.problems.empty() && job.differences.empty()) out += "\n" + FollowsText(job) + "\n";
  return out;
}

std::string FollowsText(const Recomputed& job) {
  std::string out = "Every stored figure and verdict follows from the files";
  for (size_t i = 0; i < job.unchecked.size(); ++i)
    out += (i == 0 ? ", except what was not computed again: " : "; ") + job.unchecked[i];
  return out + ".";
}

Result<std::string> ReportJson(const Recomputed& job) {
  POOLMARK_ASSIGN_OR_RETURN(const std::string summary, results::Encode(job.summary));
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(summary, "summary"));
  Json out = {{"summary", std::move(json)},
              {"problems", Json::array()},
              {"differences", Json::array()},
              {"checked", job.checked},
              {"unchecked", job.unchecked}};
  for (const auto& problem : job.problems)
    out["problems"].push_back({{"path", problem.path}, {"problem", problem.message}});
  for (const auto& one : job.differences)
    out["differences"].push_back(
        {{"file", one.file}, {"path", one.path}, {"stored", one.stored}, {"computed", one.computed}});
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(out, 1));
  return text + "\n";
}

}  // namespace poolmark::report

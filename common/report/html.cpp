#include "common/report/html.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/version.h"
#include "common/report/assets.h"
#include "common/report/charts.h"
#include "common/report/format.h"
#include "common/report/sections.h"
#include "common/results/layout.h"

namespace poolmark::report {
namespace {

using results::SummaryPoint;

std::string PointName(const SummaryPoint& point) {
  return point.point.stack + ", " + point.point.workload + ", " + LevelTitle(point.point.level);
}

std::string StateBadges(const Recomputed& job) {
  const auto& summary = job.summary;
  std::string out =
      Badge(job.directory.job.state, job.directory.job.state == "SUCCEEDED" ? "good" : "bad") + " ";
  if (summary.verdict == "VALID") out += Badge("valid", "good");
  if (summary.verdict == "INVALID") out += Badge("invalid", "bad");
  if (summary.verdict == "INCOMPLETE") out += Badge("incomplete", "warn");
  if (summary.verdict == "NO_RESULT") out += Badge("no result", "bad");
  out += " " + (summary.publishable ? Badge("publishable", "good") : Badge("not publishable", "warn"));
  const bool simulated = std::any_of(summary.points.begin(), summary.points.end(),
                                     [](const auto& point) { return point.simulated; });
  if (simulated) out += " " + Badge("simulated engines", "warn");
  if (std::any_of(summary.points.begin(), summary.points.end(),
                  [](const auto& point) { return point.preliminary; }))
    out += " " + Badge("preliminary", "warn");
  out +=
      " " + Badge("tear-down " + job.directory.job.teardown, job.directory.job.teardown == "CLEAN"  ? "good"
                                                             : job.directory.job.teardown == "NONE" ? ""
                                                                                                    : "bad");
  return out;
}

std::string Header(const Recomputed& job) {
  const auto& file = job.directory.job;
  std::string out = "<header><h1>Job " + Escape(file.job_id) + "</h1><p>" + StateBadges(job) + "</p>";
  std::vector<std::string> lines;
  for (const SummaryPoint& point : job.summary.points) {
    if (std::find(lines.begin(), lines.end(), point.measured_line) == lines.end())
      lines.push_back(point.measured_line);
  }
  for (const auto& line : lines) out += "<p class=\"lead\">" + Escape(line) + "</p>";
  out += "<p class=\"soft\">" + Escape(file.started.empty() ? "Never started" : "Started " + file.started) +
         (file.ended.empty() ? "" : ", ended " + Escape(file.ended)) +
         ". Starting state: " + Escape(file.starting_state) + ". " + std::to_string(file.repeats) +
         " repeats asked. Poolmark " + Escape(file.poolmark_version) + ".</p>";
  if (!file.reason.empty())
    out += Box("bad",
               file.failed_check.empty() ? "The job ended early"
                                         : "The job stopped at the check " + file.failed_check,
               {file.reason});
  return out + "</header>\n";
}

std::string Concerns(const Recomputed& job) {
  std::string out;
  for (const SummaryPoint& point : job.summary.points) {
    std::vector<std::string> reasons;
    for (const auto& repeat : point.repeats) {
      for (const auto& reason : repeat.reasons) {
        reasons.push_back("repeat " + std::to_string(repeat.repeat) + ": " +
                          std::string(stats::ReasonSentence(reason.reason)) + " (" + reason.detail + ")");
      }
    }
    out += Box("bad",
               PointName(point) + (point.valid ? ": some repeats are invalid"
                                               : ": invalid, its figures are diagnostics, never results"),
               reasons);
    out += Box("warn", PointName(point) + ": warnings", point.warnings);
    if (point.preliminary)
      out += Box("warn", PointName(point), {"Preliminary: fewer than three valid repeats."});
  }
  if (!job.summary.publishable)
    out += Box("", "What holds the result back from publication", job.summary.held_back_by);
  out += Box("", "Notes", job.summary.notes);
  return out;
}

std::string Card(const SummaryPoint& point, const std::string& figure, const std::string& title) {
  const auto at = point.figures.find(figure);
  if (at == point.figures.end() || !at->second.mean.has_value()) return "";
  return "<div class=\"card\"><b>" + Escape(FormatInterval(at->second)) + "</b><span>" + Escape(title) +
         "</span></div>";
}

// The figures of one point at a glance.
std::string Cards(const SummaryPoint& point) {
  std::string out = "<h3>" + Escape(PointName(point)) + " " +
                    (point.valid ? "" : Badge("invalid: diagnostics", "bad")) +
                    (point.preliminary ? Badge("preliminary", "warn") : "") + "</h3><div class=\"cards\">";
  for (const auto& [figure, title] : {std::pair{"ttft_p50_seconds", "time to first token, median"},
                                      {"ttft_p99_seconds", "time to first token, P99"},
                                      {"output_tokens_per_second", "output throughput"},
                                      {"reused", "of the prompt tokens reused"},
                                      {"reuse_captured", "of the possible reuse captured"},
                                      {"tokens_per_joule", "output tokens per joule"}}) {
    out += Card(point, figure, title);
  }
  return out + "</div>";
}

}  // namespace

std::string Page(const std::string& title, const std::vector<std::pair<std::string, std::string>>& sections,
                 const std::string& body, const std::vector<Chart>& charts) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">"
      "<link rel=\"icon\" href=\"data:,\"><title>" +
      Escape(title) + "</title>\n<style>\n";
  out.append(PageCss());
  out +=
      "</style></head>\n<body><a class=\"skip\" href=\"#main\">To the content</a>\n<nav "
      "aria-label=\"Sections\"><ul>";
  for (const auto& [id, name] : sections) out += "<li><a href=\"#" + id + "\">" + Escape(name) + "</a></li>";
  out += "</ul></nav>\n" + body;
  out += "<footer>Written by poolmark " + Escape(std::string(Version())) +
         ". Charts by Chart.js 3.9.1 (MIT).</footer>\n";
  if (!charts.empty()) {
    Json data = Json::array();
    for (const Chart& chart : charts) data.push_back(ToJson(chart));
    std::string text = DumpJson(data).value_or("[]");
    for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
      text.replace(at, 1, "\\u003c");  // no </script> inside
    out += "<script type=\"application/json\" id=\"charts-data\">" + text + "</script>\n<script>";
    out.append(ChartJs());
    out += "</script>\n<script>";
    out.append(PageJs());
    out += "</script>\n";
  }
  return out + "</body></html>\n";
}

std::string ReportPage(const Recomputed& job) {
  std::vector<Chart> charts;
  std::string pictures;
  for (const std::string& workload : WorkloadsOf(job.summary)) {
    const auto& workloads = job.directory.job.workloads;
    const auto at = std::find_if(workloads.begin(), workloads.end(),
                                 [&](const auto& one) { return one.name == workload; });
    std::string shape = at == workloads.end() ? "" : at->shape;
    if (at != workloads.end() && at->token_scale != "1" && !at->token_scale.empty())
      shape += ", token scale " + at->token_scale;
    pictures +=
        "<h3>" + Escape(workload) + " <small>" + Escape(shape) + "</small></h3><div class=\"charts\">";
    for (Chart& chart : ChartsOf(workload, job.summary, job.repeats)) {
      pictures += ToHtml(chart);
      charts.push_back(std::move(chart));
    }
    pictures += "</div>";
  }
  std::string cards, tables;
  for (const SummaryPoint& point : job.summary.points) {
    cards += Cards(point);
    tables += "<h3>" + Escape(PointName(point)) + "</h3>" + Box("", "Notes", point.notes) + PointTable(point);
  }
  const auto section = [](const std::string& id, const std::string& title, const std::string& content) {
    return "<section id=\"" + id + "\"><h2>" + title + "</h2>\n" + content + "</section>\n";
  };
  std::string body = Header(job) + "<main id=\"main\">\n";
  body += section("results", "Results",
                  Concerns(job) + (cards.empty() ? "<p class=\"soft\">Nothing was measured.</p>" : cards));
  if (!pictures.empty()) body += section("pictures", "Pictures", pictures);
  body += section("comparison", "Comparison", ComparisonSection(job.summary));
  if (!tables.empty()) body += section("measures", "All measures", tables);
  body += section("repeats", "Repeats", AccuracySection(job) + RepeatSection(job));
  body += section("network", "KV transfer, energy, network", TransferSection(job));
  body += section("steps", "Steps and evidence", StepsSection(job));
  body += section("plan", "Plan", PlanSection(job));
  body += section("sources", "Where each number comes from", SourcesSection(job));
  body += section("files", "Files", FilesSection(job)) + "</main>\n";
  return Page("Poolmark job " + job.directory.job.job_id,
              {{"results", "Results"},
               {"pictures", "Pictures"},
               {"comparison", "Comparison"},
               {"measures", "Measures"},
               {"repeats", "Repeats"},
               {"network", "Network and energy"},
               {"steps", "Steps"},
               {"plan", "Plan"},
               {"sources", "Sources"},
               {"files", "Files"}},
              body, charts);
}

Result<Recomputed> WriteReport(const std::string& directory, const RecomputeOptions& options) {
  POOLMARK_ASSIGN_OR_RETURN(Recomputed job, Recompute(directory, options));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(directory, results::kReportFile), ReportPage(job)));
  return job;
}

}  // namespace poolmark::report

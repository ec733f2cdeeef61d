#include "common/report/html.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/version.h"
#include "common/report/assets.h"
#include "common/report/charts.h"
#include "common/report/format.h"
#include "common/report/gap_chart.h"
#include "common/report/headline.h"
#include "common/report/load_timeline.h"
#include "common/report/sections.h"
#include "common/report/sentences.h"
#include "common/report/workloads.h"
#include "common/results/layout.h"

namespace poolmark::report {
namespace {

using results::SummaryPoint;

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
  std::string out = "<header><h1>Job " + EscapeHtml(file.job_id) + "</h1><p>" + StateBadges(job) + "</p>";
  // What the figures were measured over; with the points where not all are alike.
  std::vector<std::pair<std::string, std::string>> lines;
  for (const SummaryPoint* point : OrderedPoints(job.summary)) {
    const auto at = std::find_if(lines.begin(), lines.end(),
                                 [&](const auto& line) { return line.first == point->measured_line; });
    if (at == lines.end()) {
      lines.emplace_back(point->measured_line, PointName(*point));
    } else {
      at->second += "; " + PointName(*point);
    }
  }
  for (const auto& [line, points] : lines)
    out += "<p class=\"lead\">" + EscapeHtml(line) +
           (lines.size() > 1 ? " <small>" + EscapeHtml(points) + "</small>" : "") + "</p>";
  std::string what;
  for (const auto& stack : file.stacks)
    what += (what.empty() ? "" : ", ") + stack.name + (stack.name == file.baseline ? " (baseline)" : "");
  for (const auto& workload : file.workloads) {
    what += " · " + workload.name + " (" + workload.shape + ")";
    for (size_t i = 0; i < workload.levels.size(); ++i)
      what += (i == 0 ? " at " : ", ") + LevelTitle(workload.levels[i]);
  }
  out += "<p>" + EscapeHtml(what) + "</p>";
  out += "<p class=\"soft\">" +
         EscapeHtml(file.started.empty() ? "Never started" : "Started " + file.started) +
         (file.ended.empty() ? "" : ", ended " + EscapeHtml(file.ended)) +
         ". Starting state: " + EscapeHtml(file.starting_state) + ". " + std::to_string(file.repeats) +
         (file.repeats == 1 ? " repeat" : " repeats") + " asked. Poolmark " +
         EscapeHtml(file.poolmark_version) + ".</p>";
  if (!file.reason.empty()) {
    std::vector<std::string> reasons;  // one a line
    for (size_t at = 0; at < file.reason.size();) {
      const size_t end = std::min(file.reason.find('\n', at), file.reason.size());
      if (end > at) reasons.push_back(file.reason.substr(at, end - at));
      at = end + 1;
    }
    out += Box("bad",
               file.state == "SUCCEEDED" || file.state == "INVALID" ? "What happened during the job"
               : file.failed_check.empty()                          ? "The job ended early"
                                           : "The job stopped at the check " + file.failed_check,
               reasons);
  }
  return out + "</header>\n";
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
      EscapeHtml(title) + "</title>\n<style>\n";
  out.append(BaseCss());
  out.append(PageCss());
  out += "</style><script>";
  out.append(ThemeJs());
  out +=
      "</script></head>\n<body><a class=\"skip\" href=\"#main\">To the content</a>\n<nav "
      "aria-label=\"Sections\"><div class=\"bar\"><ul>";
  for (const auto& [id, name] : sections)
    out += "<li><a href=\"#" + id + "\">" + EscapeHtml(name) + "</a></li>";
  out += "</ul>";
  if (!charts.empty())
    out += "<button id=\"tables\" type=\"button\" aria-pressed=\"false\" hidden>Tables</button>";
  out += std::string(kThemeChoice) + "</div></nav>\n" + body;
  out += "<footer>Written by poolmark " + EscapeHtml(std::string(Version())) +
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

std::string ReportPage(const Recomputed& given) {
  const auto scaled = WithScaledNames(given);
  const Recomputed& job = scaled ? *scaled : given;
  std::vector<Chart> charts;
  std::string results = JobConcerns(job.summary);
  for (const std::string& workload : WorkloadsOf(job.summary)) {
    const auto& workloads = job.directory.job.workloads;
    const auto at = std::find_if(workloads.begin(), workloads.end(),
                                 [&](const auto& one) { return one.name == workload; });
    const bool known = at != workloads.end();
    results += "<h3>" + EscapeHtml(workload) + " <small>" + EscapeHtml(known ? at->shape : "") +
               "</small></h3>" + (known ? ReplayBox(*at) : "") + WorkloadConcerns(workload, job.summary) +
               HeadlineChanges(workload, job.summary) + "<div class=\"charts\">";
    std::vector<Chart> drawn = ChartsOf(workload, job.summary, job.repeats);
    drawn.push_back(GapChart(workload, job));
    drawn.push_back(LoadTimeline(workload, job));
    std::erase_if(drawn, [](const Chart& chart) { return !HasData(chart); });
    for (Chart& chart : drawn) {
      results += ToHtml(chart);
      charts.push_back(std::move(chart));
    }
    results += "</div>";
  }
  std::string tables;
  for (const SummaryPoint* point : OrderedPoints(job.summary)) {
    Sentences notes;
    notes.AddNotes(*point, "");
    tables += "<details><summary>" + EscapeHtml(PointName(*point)) + " <small>" +
              std::to_string(point->figures.size()) + " measures, " + std::to_string(point->repeats.size()) +
              " repeats</small></summary>" + Box("", "Notes", notes.Lines(0)) + PointTable(*point) +
              "</details>";
  }
  std::vector<std::pair<std::string, std::string>> sections;
  std::string body = Header(job) + "<main id=\"main\">\n";
  const auto section = [&](const std::string& id, const std::string& name, const std::string& title,
                           const std::string& content) {
    sections.emplace_back(id, name);
    body += "<section id=\"" + id + "\"><h2>" + title + "</h2>\n" + content + "</section>\n";
  };
  section("results", "Results", "Results",
          results + (tables.empty() ? "<p class=\"soft\">Nothing was measured.</p>" : ""));
  if (!tables.empty()) section("glance", "At a glance", "At a glance", Glance(job.summary));
  section("comparison", "Comparison", "Comparison", ComparisonSection(job.summary));
  if (!tables.empty()) section("measures", "Measures", "All measures", tables);
  if (!job.repeats.empty()) {
    section("repeats", "Repeats", "Repeats", AccuracySection(job) + RepeatSection(job));
    section("network", "Network and energy", "KV transfer, energy, network", TransferSection(job));
  }
  section("steps", "Steps", "Steps and evidence", StepsSection(job));
  section("plan", "Plan", "Plan: workloads and stacks", WorkloadsSection(job) + PlanSection(job));
  section("sources", "Sources", "Where each number comes from", SourcesSection(job));
  section("files", "Files", "Files", FilesSection(job));
  return Page("Poolmark job " + job.directory.job.job_id, sections, body + "</main>\n", charts);
}

Result<Recomputed> WriteReport(const std::string& directory, const RecomputeOptions& options) {
  POOLMARK_ASSIGN_OR_RETURN(Recomputed job, Recompute(directory, options));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(directory, results::kReportFile), ReportPage(job)));
  return job;
}

}  // namespace poolmark::report

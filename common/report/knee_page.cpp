#include "common/report/knee_page.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/printable.h"
#include "common/report/format.h"
#include "common/report/html.h"
#include "common/report/sections.h"

namespace poolmark::report {
namespace {

std::string Name(const KneeReport& report, double level) {
  return FormatValue(level, "") + (report.of_rate ? " requests/s" : level == 1 ? " user" : " users");
}

std::string Verdict(const KneeReport& report) {
  char share[64];
  std::snprintf(share, sizeof share, "%g %%", 100 * report.share);
  const std::string limits = std::string(share) + " of the requests within " + report.slo;
  if (report.interrupted) return "The sweep was interrupted: no knee is known (" + limits + ").";
  if (!report.error.empty())
    return "The sweep ended before its time (" + report.error + "): no knee is known.";
  if (!report.problems.empty())
    return "No knee is known, since the records of a level are missing or damaged (" + limits + ").";
  if (report.levels.empty()) return "No level was measured.";
  if (!report.knee.has_value()) {
    const auto by_client = [&](const KneeLevel& level) {
      return level.client_limited && level.share.value_or(0) >= report.share;
    };
    if (std::any_of(report.levels.begin(), report.levels.end(), by_client))
      return "No knee is known: at a level with " + limits + " this client was too slow.";
    return "No level had " + limits + ".";
  }
  return "The highest load with " + limits + ": " + Name(report, *report.knee) +
         (report.open_end ? " or more" : "") + ".";
}

std::string LevelCell(const std::optional<double>& value, const char* unit, const KneeLevel& level) {
  return value.has_value() ? FormatValue(*value, unit) + (level.client_limited ? " *" : "") : "not measured";
}

std::vector<std::vector<std::string>> Rows(const KneeReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const KneeLevel& level : report.levels)
    rows.push_back({Name(report, level.level),
                    !level.known   ? "no records"
                    : level.passed ? "held"
                                   : "failed",
                    level.share.has_value() ? FormatValue(*level.share, "share") : "not measured",
                    LevelCell(level.goodput, "requests/s", level),
                    LevelCell(level.tokens_per_second, "tokens/s", level),
                    LevelCell(level.ttft_p50, "s", level), LevelCell(level.ttft_p99, "s", level),
                    LevelCell(level.tpot_p99, "s", level), level.client_limited ? "client too slow" : ""});
  return rows;
}

std::vector<std::string> KneeDifferences(const KneeReport& report) {
  std::vector<std::string> lines;
  for (const KneeDifference& one : report.differences)
    lines.push_back(one.file + ": " + one.what.path + " is " + one.what.stored + ", computed again " +
                    one.what.computed);
  return lines;
}

const std::vector<std::string> kHead = {"Level",    "",         "Good",     "Goodput", "Output tokens",
                                        "TTFT P50", "TTFT P99", "TPOT P99", ""};

}  // namespace

std::vector<Chart> KneeCharts(const KneeReport& report) {
  std::vector<Chart> charts;
  using Get = std::optional<double> (*)(const KneeLevel&);
  const auto add = [&](const char* name, const char* title, const char* unit, Get get) {
    Chart chart = LineChart(report.of_rate ? "Requests per second" : "Users",
                            report.of_rate ? "requests/s" : "", title, unit);
    chart.name = name;
    Series series;
    series.label = name;
    series.color = "s0";
    for (const KneeLevel& level : report.levels) {
      const auto value = get(level);
      if (!value.has_value()) continue;
      series.points.emplace_back(level.level, *value);
      series.notes.push_back(Name(report, level.level));
      series.own_delay.push_back(level.client_limited);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
    charts.push_back(std::move(chart));
  };
  add("Good requests", "Share of requests within the limits", "share",
      [](const KneeLevel& l) { return l.share; });
  add("Goodput", "Good requests per second", "requests/s", [](const KneeLevel& l) { return l.goodput; });
  add("Output tokens", "Output tokens per second", "tokens/s",
      [](const KneeLevel& l) { return l.tokens_per_second; });
  add("TTFT P50", "Time to first token, P50", "s", [](const KneeLevel& l) { return l.ttft_p50; });
  add("TTFT P99", "Time to first token, P99", "s", [](const KneeLevel& l) { return l.ttft_p99; });
  add("TPOT P99", "Time per output token, P99", "s", [](const KneeLevel& l) { return l.tpot_p99; });
  Chart chart = Choose("Show", std::move(charts));
  chart.id = "levels";
  chart.title = "By load level";
  chart.text = "Each point is a level that was measured; one at which this client was too slow is marked *.";
  if (!HasData(chart)) return {};
  return {chart};
}

std::string KneePage(const KneeReport& report) {
  const std::vector<Chart> charts = KneeCharts(report);
  std::string body = "<header><h1>Sweep of " + EscapeHtml(report.model) + "</h1><p class=\"lead\">" +
                     EscapeHtml(Verdict(report)) +
                     "</p></header><main id=\"main\">\n<section id=\"levels-all\"><h2>Levels</h2>";
  for (const Chart& chart : charts) body += "<div class=\"charts\">" + ToHtml(chart) + "</div>";
  std::vector<std::vector<std::string>> rows = Rows(report);
  for (auto& row : rows) {
    for (auto& cell : row) cell = EscapeHtml(cell);
  }
  body += Box("bad", "Levels without records", report.problems) +
          Box("bad", "Stored figures that do not follow from the records", KneeDifferences(report));
  body += rows.empty() ? "<p class=\"soft\">No level was measured.</p>" : Table("Levels", kHead, rows);
  body += Box("", "Notes", report.notes) + "</section></main>\n";
  return Page("Poolmark sweep", {{"levels-all", "Levels"}}, body, charts);
}

std::string KneeText(const KneeReport& report) {
  std::vector<std::vector<std::string>> rows = Rows(report);
  rows.insert(rows.begin(), kHead);
  // What the files say is not to command a terminal.
  std::string out = Printable(Verdict(report)) + "\n\n" + TextTable(rows);
  for (const std::string& problem : report.problems) out += "problem: " + Printable(problem) + "\n";
  for (const std::string& line : KneeDifferences(report)) out += "differs: " + Printable(line) + "\n";
  if (report.problems.empty() && report.differences.empty())
    out += "\nEvery stored figure follows from the records.\n";
  return out;
}

Result<std::string> KneeJson(const KneeReport& report) {
  Json differences = Json::array();
  for (const KneeDifference& one : report.differences)
    differences.push_back({{"file", one.file},
                           {"path", one.what.path},
                           {"stored", one.what.stored},
                           {"computed", one.what.computed}});
  POOLMARK_ASSIGN_OR_RETURN(
      std::string text,
      DumpJson({{"knee", report.stored}, {"differences", differences}, {"problems", report.problems}}, 1));
  return text + "\n";
}

}  // namespace poolmark::report

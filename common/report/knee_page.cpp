#include "common/report/knee_page.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/report/format.h"
#include "common/report/html.h"
#include "common/report/sections.h"

namespace poolmark::report {
namespace {

std::optional<double> Number(const Json& json, const char* key, const char* inside = nullptr,
                             double factor = 1) {
  const auto at = json.find(key);
  if (at == json.end()) return std::nullopt;
  if (inside != nullptr) return at->is_object() ? Number(*at, inside, nullptr, factor) : std::nullopt;
  return at->is_number() ? std::optional(at->get<double>() * factor) : std::nullopt;
}

KneeLevel LevelOf(const Json& json) {
  KneeLevel level;
  level.level = json.at("level").get<double>();
  level.share = json.at("share").get<double>();
  level.passed = json.at("passed").get<bool>();
  level.client_limited = json.at("client_limited").get<bool>();
  const Json& summary = json.at("summary");
  level.goodput = Number(summary, "goodput", "per_second");
  level.tokens_per_second = Number(summary, "output_tokens_per_second");
  level.ttft_p50 = Number(summary, "ttft_ms", "p50", 1e-3);
  level.ttft_p99 = Number(summary, "ttft_ms", "p99", 1e-3);
  level.tpot_p99 = Number(summary, "time_per_output_token_ms", "p99", 1e-3);
  return level;
}

std::string Name(const KneeReport& report, double level) {
  return FormatValue(level, "") + (report.of_rate ? " requests/s" : level == 1 ? " user" : " users");
}

std::string Verdict(const KneeReport& report) {
  char share[64];
  std::snprintf(share, sizeof share, "%g %%", 100 * report.share);
  const std::string limits = std::string(share) + " of the requests within " + report.slo;
  if (report.interrupted) return "The sweep was interrupted: no knee is known (" + limits + ").";
  if (!report.knee.has_value()) return "No level had " + limits + ".";
  return "The highest load with " + limits + ": " + Name(report, *report.knee) +
         (report.open_end ? " or more" : "") + ".";
}

std::string Cell(const std::optional<double>& value, const char* unit, const KneeLevel& level) {
  return value.has_value() ? FormatValue(*value, unit) + (level.client_limited ? " *" : "") : "not measured";
}

std::vector<std::vector<std::string>> Rows(const KneeReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const KneeLevel& level : report.levels)
    rows.push_back({Name(report, level.level), level.passed ? "held" : "failed",
                    FormatValue(level.share, "share"), Cell(level.goodput, "requests/s", level),
                    Cell(level.tokens_per_second, "tokens/s", level), Cell(level.ttft_p50, "s", level),
                    Cell(level.ttft_p99, "s", level), Cell(level.tpot_p99, "s", level),
                    level.client_limited ? "client too slow" : ""});
  return rows;
}
const std::vector<std::string> kHead = {"Level",    "",         "Good",     "Goodput", "Output tokens",
                                        "TTFT P50", "TTFT P99", "TPOT P99", ""};

}  // namespace

Result<KneeReport> ReadKneeReport(const std::string& directory) {
  KneeReport out;
  const std::string path = JoinPath(directory, kKneeFile);
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  try {
    out.knee = Number(json, "knee");
    out.open_end = json.at("open_end").get<bool>();
    out.interrupted = json.at("interrupted").get<bool>();
    out.share = json.at("share").get<double>();
    out.slo = json.at("slo").get<std::string>();
    for (const Json& level : json.at("levels")) {
      out.levels.push_back(LevelOf(level));
      const Json& load = level.at("summary").at("load");
      out.of_rate = load.at("load").contains("rate");
      if (load.at("model").is_string()) out.model = load["model"].get<std::string>();
      for (const Json& note : level.at("summary").at("notes")) {
        const auto line = Name(out, out.levels.back().level) + ": " + note.get<std::string>();
        out.notes.push_back(line);
      }
    }
  } catch (const Json::exception& error) {
    return InvalidInput(path, std::string("it is no knee.json of this version: ") + error.what());
  }
  std::sort(out.levels.begin(), out.levels.end(),
            [](const KneeLevel& a, const KneeLevel& b) { return a.level < b.level; });
  return out;
}

std::vector<Chart> KneeCharts(const KneeReport& report) {
  std::vector<Chart> charts;
  using Get = std::optional<double> (*)(const KneeLevel&);
  const auto add = [&](const char* name, const char* title, const char* unit, Get get) {
    Chart chart;
    chart.kind = Chart::Kind::kLine;
    chart.name = name;
    chart.x_title = report.of_rate ? "Requests per second" : "Users";
    chart.x_unit = report.of_rate ? "requests/s" : "";
    chart.y_title = title;
    chart.y_unit = unit;
    Series series;
    series.label = name;
    series.color = "s0";
    for (const KneeLevel& level : report.levels) {
      const auto value = get(level);
      if (!value.has_value()) continue;
      series.points.emplace_back(level.level, *value);
      series.notes.push_back(Name(report, level.level));
      // A level that the client could not hold says little about the server.
      series.marks.push_back(level.client_limited ? Mark::kInvalid : Mark::kNone);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
    charts.push_back(std::move(chart));
  };
  add("Good requests", "Share of requests within the limits", "share",
      [](const KneeLevel& l) { return std::optional(l.share); });
  add("Goodput", "Good requests per second", "requests/s", [](const KneeLevel& l) { return l.goodput; });
  add("Output tokens", "Output tokens per second", "tokens/s",
      [](const KneeLevel& l) { return l.tokens_per_second; });
  add("TTFT P50", "Time to first token, P50", "s", [](const KneeLevel& l) { return l.ttft_p50; });
  add("TTFT P99", "Time to first token, P99", "s", [](const KneeLevel& l) { return l.ttft_p99; });
  add("TPOT P99", "Time per output token, P99", "s", [](const KneeLevel& l) { return l.tpot_p99; });
  Chart chart = Choose("Show", std::move(charts));
  chart.id = "levels";
  chart.title = "By load level";
  chart.text = "Each point is a level that was measured; one at which this client was too slow is marked.";
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
  body += rows.empty() ? "<p class=\"soft\">No level was measured.</p>" : Table("Levels", kHead, rows);
  body += Box("", "Notes", report.notes) + "</section></main>\n";
  return Page("Poolmark sweep", {{"levels-all", "Levels"}}, body, charts);
}

std::string KneeText(const KneeReport& report) {
  std::vector<std::vector<std::string>> rows = Rows(report);
  rows.insert(rows.begin(), kHead);
  return Verdict(report) + "\n\n" + TextTable(rows);
}

}  // namespace poolmark::report

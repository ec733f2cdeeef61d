// The comparison of jobs as text, JSON and page.
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/report/charts.h"
#include "common/report/compare.h"
#include "common/report/format.h"
#include "common/report/html.h"
#include "common/report/sections.h"
#include "common/results/figures.h"

namespace poolmark::report {
namespace {

std::string Line(const Unlike& one) {
  return one.directory + ": " + one.what + " is " + one.other + ", in the first it is " + one.first;
}

// Changes with their intervals, one bar a point and figure.
std::vector<Chart> ChangeCharts(const JobComparison& comparison) {
  std::vector<Chart> out;
  for (const char* figure : {"ttft_p50_seconds", "ttft_p99_seconds", "output_tokens_per_second", "reused"}) {
    Chart chart;
    chart.id = std::string("change-") + IdOf(figure);
    chart.title = results::TitleOf(figure);
    chart.text = "Change against the first job, with its 95 % interval over pairs of repeats.";
    chart.x_title = "Candidate";
    chart.y_title = "Change";
    chart.y_unit = "share";
    Series series;
    series.label = "Change";
    for (const auto& one : comparison.comparisons) {
      if (one.figure != figure || !one.relative.has_value()) continue;
      chart.labels.push_back(one.candidate + ", " + one.workload + ", " + LevelTitle(one.level));
      series.values.push_back(*one.relative);
      series.low.push_back(one.low);
      series.high.push_back(one.high);
    }
    if (series.values.empty()) continue;
    chart.series.push_back(std::move(series));
    out.push_back(std::move(chart));
  }
  return out;
}

}  // namespace

std::string ComparisonText(const JobComparison& comparison) {
  std::string out;
  for (const auto& one : comparison.unlike)
    out += (one.refuses ? "cannot be compared: " : "differs: ") + Line(one) + "\n";
  if (comparison.refused()) return out + "refused: the results cannot be compared\n";
  std::vector<std::vector<std::string>> rows = {
      {"point", "figure", "first", "other", "change", "95 %", "verdict"}};
  for (const auto& one : comparison.comparisons) {
    if (one.pairs == 0) continue;
    rows.push_back({one.candidate + " " + one.workload + "-" + one.level, results::TitleOf(one.figure),
                    FormatValue(one.baseline_mean, results::UnitOf(one.figure)),
                    FormatValue(one.candidate_mean, results::UnitOf(one.figure)),
                    FormatValue(one.relative, "share"),
                    one.low ? FormatValue(*one.low, "share") + " to " + FormatValue(*one.high, "share") : "–",
                    one.verdict + (one.repeats_needed
                                       ? " (" + std::to_string(*one.repeats_needed) + " repeats would tell)"
                                       : "")});
  }
  out += rows.size() > 1 ? TextTable(rows) : "no pair of valid repeats\n";
  for (const auto& note : comparison.notes) out += "note: " + note + "\n";
  return out;
}

Result<std::string> ComparisonJson(const JobComparison& comparison) {
  Json json = {{"directories", comparison.directories},
               {"comparable", !comparison.refused()},
               {"differs", Json::array()},
               {"comparisons", Json::array()},
               {"notes", comparison.notes}};
  for (const auto& one : comparison.unlike)
    json["differs"].push_back({{"directory", one.directory},
                               {"what", one.what},
                               {"first", one.first},
                               {"other", one.other},
                               {"refuses", one.refuses}});
  // The comparisons in the form of summary.json.
  results::SummaryFile summary;
  summary.comparisons = comparison.comparisons;
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, results::Encode(summary));
  POOLMARK_ASSIGN_OR_RETURN(const Json encoded, ParseJson(text, "comparisons"));
  json["comparisons"] = encoded["comparisons"];
  POOLMARK_ASSIGN_OR_RETURN(std::string out, DumpJson(json, 1));
  return out + "\n";
}

std::string ComparisonPage(const JobComparison& comparison) {
  std::vector<std::string> refusals, differences;
  for (const auto& one : comparison.unlike) (one.refuses ? refusals : differences).push_back(Line(one));
  std::string body =
      "<header><h1>Comparison</h1><p class=\"soft\">" + Escape(comparison.directories.front()) + " against";
  for (size_t i = 1; i < comparison.directories.size(); ++i)
    body += (i > 1 ? ", " : " ") + Escape(comparison.directories[i]);
  body += "</p></header><main id=\"main\"><section id=\"what\"><h2>What differs</h2>" +
          Box("bad", "The results cannot be compared", refusals) + Box("", "Also different", differences);
  if (refusals.empty() && differences.empty()) body += "<p>Nothing that was recorded.</p>";
  body += Box("", "Notes", comparison.notes) + "</section>";
  const auto charts = comparison.refused() ? std::vector<Chart>() : ChangeCharts(comparison);
  if (!charts.empty()) {
    body += "<section id=\"pictures\"><h2>Pictures</h2><div class=\"charts\">";
    for (const Chart& chart : charts) body += ToHtml(chart);
    body += "</div></section>";
  }
  if (!comparison.refused()) {
    results::SummaryFile summary;
    summary.baseline = "the first job";
    summary.comparisons = comparison.comparisons;
    body += "<section id=\"table\"><h2>Verdicts</h2>" + ComparisonSection(summary) + "</section>";
  }
  body += "</main>";
  return Page("Poolmark comparison",
              {{"what", "What differs"}, {"pictures", "Pictures"}, {"table", "Verdicts"}}, body, charts);
}

}  // namespace poolmark::report

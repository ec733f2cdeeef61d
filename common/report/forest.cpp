#include "common/report/forest.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/report/charts.h"
#include "common/report/format.h"
#include "common/report/sections.h"
#include "common/results/figures.h"

namespace poolmark::report {
namespace {

using results::SummaryComparison;

// Half the width of the scale: the largest change shown, between 10 % and 100 %.
double DomainOf(const ComparisonList& rows) {
  double most = 0;
  for (const SummaryComparison* one : rows) {
    for (const auto& value :
         {one->relative.has_value() ? std::optional(*one->relative) : std::nullopt, one->low, one->high}) {
      if (value) most = std::max(most, std::abs(*value));
    }
  }
  for (const double domain : {0.1, 0.2, 0.3, 0.5}) {
    if (most <= domain) return domain;
  }
  return 1;
}

std::string Percent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%%", value);
  return text;
}

double Position(double value, double domain) {
  return 50 + std::clamp(value / domain, -1.0, 1.0) * 50;
}

std::string Style(const std::string& verdict) {
  return verdict == "better"         ? "good"
         : verdict == "worse"        ? "bad"
         : verdict == "underpowered" ? "warn"
                                     : "plain";
}

std::string Plot(const SummaryComparison& one, double domain) {
  std::string out = "<div class=\"range " + Style(one.verdict) + "\" aria-hidden=\"true\">";
  const double same_low = Position(-one.same_within, domain), same_high = Position(one.same_within, domain);
  out += "<i class=\"same\" style=\"left:" + Percent(same_low) + ";width:" + Percent(same_high - same_low) +
         "\"></i><i class=\"zero\" style=\"left:50%\"></i>";
  if (one.low && one.high) {
    const double low = Position(*one.low, domain), high = Position(*one.high, domain);
    out += "<i class=\"span\" style=\"left:" + Percent(low) + ";width:" + Percent(std::max(0.4, high - low)) +
           "\"></i>";
  }
  if (one.relative.has_value())
    out += "<i class=\"dot\" style=\"left:" + Percent(Position(*one.relative, domain)) + "\"></i>";
  return out + "</div>";
}

std::string Signed(double value) {
  return (value > 0 ? "+" : "") + FormatValue(value, "share");
}

}  // namespace

std::string Forest(const std::string& label, const ComparisonList& all, const ForestOptions& options) {
  ComparisonList rows = all;
  std::erase_if(rows, [](const auto* one) { return !one->relative.has_value() && one->pairs == 0; });
  if (rows.empty()) return "";
  const double domain = DomainOf(rows);
  std::vector<std::string> head = {"Measure"};
  if (options.level) head.emplace_back("Load level");
  if (options.full) {
    head.emplace_back("Baseline");
    head.emplace_back("Candidate");
  }
  head.push_back("<span class=\"scale\"><span>" + FormatValue(-domain, "share") +
                 "</span><span>0</span><span>" + Signed(domain) + "</span></span>");
  for (const char* text : {"Change (95 %)", "Verdict"}) head.emplace_back(text);
  if (options.full) {
    head.emplace_back("Pairs");
    head.emplace_back("Median of paired turns");
  }
  std::vector<std::vector<std::string>> cells;
  for (const SummaryComparison* one : rows) {
    std::vector<std::string> row = {EscapeHtml(results::TitleOf(one->figure))};
    if (options.points != nullptr && IsMarked(*options.points, *one)) row.back() += " *";
    if (options.full)
      row.back() +=
          std::string(" <small>") + (one->lower_is_better ? "lower" : "higher") + " is better</small>";
    if (options.level) row.push_back(EscapeHtml(LevelTitle(one->level)));
    if (options.full) {
      const std::string unit = results::UnitOf(one->figure);
      row.push_back(EscapeHtml(FormatValue(one->baseline_mean, unit)));
      row.push_back(EscapeHtml(FormatValue(one->candidate_mean, unit)));
    }
    row.push_back(Plot(*one, domain));
    std::string change =
        one->relative.has_value() ? EscapeHtml(Signed(*one->relative)) : EscapeHtml(one->relative.reason());
    if (one->low && one->high)
      change += " <small>(" + EscapeHtml(Signed(*one->low) + " to " + Signed(*one->high)) + ")</small>";
    row.push_back(change);
    std::string verdict = Badge(one->verdict, Style(one->verdict));
    if (one->repeats_needed)
      verdict += " <small>" + std::to_string(*one->repeats_needed) + " repeats would tell</small>";
    row.push_back(verdict);
    if (options.full) {
      row.push_back(std::to_string(one->pairs));
      row.push_back(one->session_relative.has_value()
                        ? EscapeHtml(Signed(*one->session_relative)) + " <small>of " +
                              std::to_string(one->paired_sessions) + "</small>"
                        : "<span class=\"none\">–</span>");
    }
    cells.push_back(std::move(row));
  }
  std::string table = Table(label, head, cells, "forest");
  // The cells with the plot, by their content.
  for (size_t at = table.find("<td><div class=\"range"); at != std::string::npos;
       at = table.find("<td><div class=\"range", at + 1))
    table.replace(at, 4, "<td class=\"plot\">");
  return table;
}

std::string VerdictCounts(const ComparisonList& rows) {
  size_t better = 0, worse = 0, same = 0, open = 0;
  for (const auto* one : rows) {
    if (one->pairs == 0) continue;
    better += one->verdict == "better";
    worse += one->verdict == "worse";
    same += one->verdict == "same";
    open += one->verdict == "underpowered";
  }
  return "Better in " + std::to_string(better) + ", worse in " + std::to_string(worse) + ", the same in " +
         std::to_string(same) + ", too few repeats to tell in " + std::to_string(open) + ".";
}

}  // namespace poolmark::report

#include "common/report/sections.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/report/charts.h"
#include "common/report/forest.h"
#include "common/report/format.h"
#include "common/report/headline.h"
#include "common/results/figures.h"

namespace poolmark::report {
namespace {

using results::SummaryFigure;
using results::SummaryPoint;

std::string Missing(const std::string& reason) {
  return "<span class=\"none\" title=\"" + EscapeHtml(reason) + "\">not measured</span><br><small>" +
         EscapeHtml(reason) + "</small>";
}

std::string ValueCell(const Measured<double>& value, const std::string& unit) {
  return value.has_value() ? EscapeHtml(FormatValue(*value, unit)) : Missing(value.reason());
}

std::string FigureCell(const SummaryFigure& figure) {
  return figure.mean.has_value() ? EscapeHtml(FormatInterval(figure)) : Missing(figure.mean.reason());
}

const std::vector<std::string>& FigureOrder() {
  static const std::vector<std::string> order = {"ttft_mean_seconds",
                                                 "ttft_p50_seconds",
                                                 "ttft_p90_seconds",
                                                 "ttft_p99_seconds",
                                                 "tpot_mean_seconds",
                                                 "tpot_p50_seconds",
                                                 "tpot_p90_seconds",
                                                 "tpot_p99_seconds",
                                                 "itl_mean_seconds",
                                                 "itl_p50_seconds",
                                                 "itl_p90_seconds",
                                                 "itl_p99_seconds",
                                                 "latency_mean_seconds",
                                                 "latency_p50_seconds",
                                                 "latency_p90_seconds",
                                                 "latency_p99_seconds",
                                                 "output_tokens_per_second",
                                                 "output_tokens_per_second_per_gpu",
                                                 "requests_per_second",
                                                 "failed_share",
                                                 "source_gpu",
                                                 "source_host",
                                                 "source_storage",
                                                 "source_remote",
                                                 "source_computed",
                                                 "source_not_attributed",
                                                 "prompt_tokens",
                                                 "closure_error",
                                                 "reusable",
                                                 "reused",
                                                 "reuse_captured",
                                                 "kv_bytes_per_second",
                                                 "kv_share_of_line",
                                                 "gpu_kv_usage_mean",
                                                 "gpu_kv_usage_peak",
                                                 "working_set_tokens",
                                                 "working_set_ratio",
                                                 "joules",
                                                 "tokens_per_joule",
                                                 "tokens_per_joule_with_network",
                                                 "variation",
                                                 "drift",
                                                 "achieved_concurrency",
                                                 "client_lateness_p99_seconds",
                                                 "sent_late_p99_seconds"};
  return order;
}

// By workload, load level, stack and number.
std::vector<const results::RepeatFile*> OrderedRepeats(const Recomputed& job) {
  std::vector<const results::RepeatFile*> out;
  for (const SummaryPoint* point : OrderedPoints(job.summary)) {
    for (const auto& repeat : job.repeats) {
      if (repeat.facts.point == point->point) out.push_back(&repeat);
    }
  }
  return out;
}

}  // namespace

std::string Badge(const std::string& text, const std::string& style) {
  return "<span class=\"badge " + style + "\">" + EscapeHtml(text) + "</span>";
}

std::string Box(const std::string& style, const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string out = "<div class=\"box " + style + "\"><p><strong>" + EscapeHtml(title) + "</strong></p><ul>";
  for (const auto& line : lines) out += "<li>" + EscapeHtml(line) + "</li>";
  return out + "</ul></div>\n";
}

std::string Table(const std::string& label, const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows, const std::string& style) {
  std::string out = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" + EscapeHtml(label) +
                    "\"><table class=\"" + style + "\"><thead><tr>";
  for (const auto& cell : head) out += "<th scope=\"col\">" + cell + "</th>";
  out += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      out += i == 0 ? "<th scope=\"row\">" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
    out += "</tr>";
  }
  return out + "</tbody></table></div>\n";
}

bool IsMarked(const SummaryPoint& point, const std::string& figure) {
  if (!point.client_limited) return false;
  for (const char* of : {"ttft_", "tpot_", "itl_", "latency_", "goodput"}) {
    if (figure.starts_with(of)) return true;
  }
  return false;
}

bool IsMarked(const std::vector<SummaryPoint>& points, const results::SummaryComparison& one) {
  return std::any_of(points.begin(), points.end(), [&](const SummaryPoint& point) {
    return point.point.workload == one.workload && point.point.level == one.level &&
           (point.point.stack == one.baseline || point.point.stack == one.candidate) &&
           IsMarked(point, one.figure);
  });
}

std::string PointTable(const SummaryPoint& point) {
  std::vector<std::string> head = {"Measure", point.diagnostic ? "Diagnostic" : "Mean ± 95 %",
                                   "Repeats that count"};
  for (const auto& repeat : point.repeats)
    head.push_back("Repeat " + std::to_string(repeat.repeat) + (repeat.valid ? "" : " (invalid)"));
  std::vector<std::string> names;
  for (const auto& name : FigureOrder()) {
    if (point.figures.contains(name)) names.push_back(name);
    if (name != "failed_share") continue;
    for (const auto& [other, figure] : point.figures) {
      if (other.starts_with("goodput")) names.push_back(other);
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& name : names) {
    const SummaryFigure& figure = point.figures.at(name);
    std::vector<std::string> row = {
        EscapeHtml(results::TitleOf(name, point.engine_cache) + (IsMarked(point, name) ? " *" : "")),
        FigureCell(figure), std::to_string(figure.n)};
    for (const auto& value : figure.repeats)
      row.push_back(value.has_value()
                        ? EscapeHtml(FormatValue(*value, figure.unit))
                        : "<span class=\"none\" title=\"" + EscapeHtml(value.reason()) + "\">–</span>");
    rows.push_back(std::move(row));
  }
  const std::string mark = point.client_limited ? std::string("<p class=\"soft\">") + kOwnDelay + "</p>" : "";
  return mark + Table("Measures of " + point.point.stack + ", " + point.point.workload + ", " +
                          LevelTitle(point.point.level),
                      head, rows, point.diagnostic ? "diagnostic" : "");
}

std::string ComparisonSection(const results::SummaryFile& summary) {
  if (summary.comparisons.empty()) {
    return "<p class=\"soft\">" +
           EscapeHtml(summary.baseline.empty()
                          ? "The job names no baseline: its results are compared with nothing."
                          : "Nothing to compare with the baseline " + summary.baseline + ".") +
           "</p>";
  }
  std::string out =
      "<p>Pairs of repeats under the same load, candidate against baseline. <em>Same</em>: the whole 95 % "
      "interval lies within ±5 % (the shaded stretch). <em>Underpowered</em>: too few repeats to tell. "
      "Paired "
      "turns compare the same turn of the same session in both.</p>";
  if (std::any_of(summary.comparisons.begin(), summary.comparisons.end(),
                  [&](const auto& one) { return IsMarked(summary.points, one); }))
    out +=
        "<p class=\"soft\">* a mean of this change includes the load generator's own delay: its machine was "
        "too slow for the load.</p>";
  using Group = std::tuple<std::string, std::string, std::string>;  // candidate, workload, level
  std::map<Group, ComparisonList> groups;
  std::vector<Group> order;
  for (const auto& one : summary.comparisons) {
    auto& list = groups[{one.candidate, one.workload, one.level}];
    if (list.empty()) order.emplace_back(one.candidate, one.workload, one.level);
    list.push_back(&one);
  }
  std::stable_sort(order.begin(), order.end(), [](const Group& a, const Group& b) {
    return std::pair(std::get<0>(a), std::get<1>(a)) == std::pair(std::get<0>(b), std::get<1>(b)) &&
           LevelBefore(std::get<2>(a), std::get<2>(b));
  });
  for (const auto& group : order) {
    const auto& [candidate, workload, level] = group;
    const ComparisonList& list = groups.at(group);
    const std::string title =
        candidate + " against " + list.front()->baseline + ": " + workload + ", " + LevelTitle(level);
    const std::string table = Forest("Comparison of " + title, list, {false, true, &summary.points});
    out += "<details><summary>" + EscapeHtml(title) + " <small>" +
           EscapeHtml(table.empty() ? "no pair of valid repeats" : VerdictCounts(list)) +
           "</small></summary>" +
           (table.empty() ? "<p class=\"soft\">No pair of valid repeats.</p>" : table) + "</details>";
  }
  return out;
}

std::string RepeatSection(const Recomputed& job) {
  std::vector<std::vector<std::string>> rows;
  for (const results::RepeatFile* repeat : OrderedRepeats(job)) {
    const auto& facts = repeat->facts;
    const auto& figures = repeat->figures;
    std::string reasons;
    for (const auto& reason : figures.reasons)
      reasons += "<div class=\"bad\">" +
                 EscapeHtml(std::string(stats::ReasonSentence(reason.reason)) + ": " + reason.detail) +
                 "</div>";
    for (const auto& warning : figures.warnings)
      reasons += "<div class=\"warn\">" + EscapeHtml(warning) + "</div>";
    rows.push_back({EscapeHtml(facts.point.stack + ", " + facts.point.workload + ", " +
                               LevelTitle(facts.point.level) + ", repeat " + std::to_string(facts.repeat)),
                    figures.valid ? Badge("valid", "good") : Badge("invalid", "bad"),
                    EscapeHtml(figures.measured_line), std::to_string(figures.requests.requests),
                    std::to_string(figures.requests.failed), ValueCell(figures.stability.variation, "share"),
                    ValueCell(figures.stability.drift, "share"),
                    ValueCell(figures.sources.closure_error, "share"),
                    EscapeHtml(FormatValue(figures.sources.skew_tokens, "tokens")),
                    reasons.empty() ? "<span class=\"soft\">–</span>" : reasons});
  }
  return Table("All repeats",
               {"Repeat", "Validity", "Measured", "Requests", "Failed", "Variation", "Drift", "Closure error",
                "Skew", "Reasons and warnings"},
               rows);
}

std::string TransferSection(const Recomputed& job) {
  std::vector<std::vector<std::string>> transfers, links, counters, energy;
  for (const results::RepeatFile* one_repeat : OrderedRepeats(job)) {
    const results::RepeatFile& repeat = *one_repeat;
    const std::string name = repeat.facts.point.stack + ", " + repeat.facts.point.workload + ", " +
                             LevelTitle(repeat.facts.point.level) + ", repeat " +
                             std::to_string(repeat.facts.repeat);
    for (const auto& one : repeat.figures.transfers) {
      transfers.push_back({EscapeHtml(name), EscapeHtml(one.from + " → " + one.to), EscapeHtml(one.path),
                           ValueCell(one.bytes_per_second, "bytes/s"),
                           ValueCell(one.line_bytes_per_second, "bytes/s"),
                           ValueCell(one.share_of_line, "share")});
    }
    if (repeat.figures.transfers.empty() && repeat.figures.kv_bytes_per_second.has_value()) {
      transfers.push_back({EscapeHtml(name), "all engines together", "–",
                           ValueCell(repeat.figures.kv_bytes_per_second, "bytes/s"), "–", "–"});
    }
    for (const auto& one : repeat.figures.links) {
      links.push_back({EscapeHtml(name), EscapeHtml(one.machine + " " + one.nic),
                       EscapeHtml(one.switch_name + " " + one.port),
                       Badge(one.verdict, one.verdict == "differ"  ? "warn"
                                          : one.verdict == "agree" ? "good"
                                                                   : ""),
                       ValueCell(one.out_difference, "share"), ValueCell(one.in_difference, "share")});
    }
    for (const auto& one : repeat.facts.switch_counters) {
      counters.push_back(
          {EscapeHtml(name),
           EscapeHtml(one.switch_name + " " + one.port + (one.queue.empty() ? "" : " queue " + one.queue)),
           EscapeHtml(one.counter) + (one.confirmed ? "" : " " + Badge("unconfirmed", "warn")),
           EscapeHtml(one.kind), ValueCell(one.value, one.unit)});
    }
    for (const auto& one : repeat.figures.energy.machines) {
      energy.push_back(
          {EscapeHtml(name), EscapeHtml(one.machine), EscapeHtml(std::string(stats::PowerKindName(one.kind))),
           one.energy.has_value() ? EscapeHtml(FormatValue((*one.energy).joules, "J"))
                                  : Missing(one.energy.reason()),
           one.energy.has_value() ? EscapeHtml(FormatValue((*one.energy).covered_seconds, "s")) : "–"});
    }
    for (const auto& one : repeat.figures.energy.switches) {
      energy.push_back({EscapeHtml(name), EscapeHtml("switch " + one.name), "PSU input, the pool's share",
                        ValueCell(one.share, "J"), "–"});
    }
  }
  std::string out = "<h3>KV between machines beside the line rate</h3>";
  out += transfers.empty()
             ? "<p class=\"soft\">No stack of this job moves KV between machines.</p>"
             : Table("KV transfer", {"Repeat", "Machines", "Path", "KV", "Line rate", "Share of line"},
                     transfers);
  out += "<h3>Energy</h3>";
  out += energy.empty() ? "<p class=\"soft\">No machine reported its power.</p>"
                        : Table("Energy", {"Repeat", "Of", "Power from", "Energy", "Covered"}, energy);
  out += "<h3>Network cards and switch ports</h3>";
  out += links.empty() ? "<p class=\"soft\">No switch was read.</p>"
                       : Table("Agreement of cards and ports",
                               {"Repeat", "Card", "Port", "Verdict", "Out", "In"}, links);
  if (!counters.empty())
    out += Table("Switch counters", {"Repeat", "Port", "Counter", "Kind", "Value"}, counters);
  return out;
}

}  // namespace poolmark::report

#include "common/report/sections.h"

#include <algorithm>
#include <map>

#include "common/report/charts.h"
#include "common/report/format.h"
#include "common/results/figures.h"

namespace poolmark::report {
namespace {

using results::SummaryComparison;
using results::SummaryFigure;
using results::SummaryPoint;

std::string Missing(const std::string& reason) {
  return "<span class=\"none\" title=\"" + Escape(reason) + "\">not measured</span><br><small>" +
         Escape(reason) + "</small>";
}

std::string ValueCell(const Measured<double>& value, const std::string& unit) {
  return value.has_value() ? Escape(FormatValue(*value, unit)) : Missing(value.reason());
}

std::string FigureCell(const SummaryFigure& figure) {
  return figure.mean.has_value() ? Escape(FormatInterval(figure)) : Missing(figure.mean.reason());
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

}  // namespace

std::string Badge(const std::string& text, const std::string& style) {
  return "<span class=\"badge " + style + "\">" + Escape(text) + "</span>";
}

std::string Box(const std::string& style, const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string out = "<div class=\"box " + style + "\"><p><strong>" + Escape(title) + "</strong></p><ul>";
  for (const auto& line : lines) out += "<li>" + Escape(line) + "</li>";
  return out + "</ul></div>\n";
}

std::string Table(const std::string& label, const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows, const std::string& style) {
  std::string out = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" + Escape(label) +
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
    std::vector<std::string> row = {Escape(results::TitleOf(name)), FigureCell(figure),
                                    std::to_string(figure.n)};
    for (const auto& value : figure.repeats)
      row.push_back(value.has_value()
                        ? Escape(FormatValue(*value, figure.unit))
                        : "<span class=\"none\" title=\"" + Escape(value.reason()) + "\">–</span>");
    rows.push_back(std::move(row));
  }
  return Table(
      "Measures of " + point.point.stack + ", " + point.point.workload + ", " + LevelTitle(point.point.level),
      head, rows, point.diagnostic ? "diagnostic" : "");
}

std::string ComparisonSection(const results::SummaryFile& summary) {
  if (summary.comparisons.empty()) {
    return "<p class=\"soft\">" +
           Escape(summary.baseline.empty()
                      ? "The job names no baseline: its results are compared with nothing."
                      : "Nothing to compare with the baseline " + summary.baseline + ".") +
           "</p>";
  }
  std::string out =
      "<p>Pairs of repeats under the same load, candidate against baseline. <em>Same</em>: the whole 95 % "
      "interval lies within ±5 %. "
      "<em>Underpowered</em>: too few repeats to tell. Paired sessions compare the same turn of the same "
      "session in both.</p>";
  std::map<std::pair<std::string, std::string>, std::vector<const SummaryComparison*>> groups;
  for (const auto& one : summary.comparisons)
    groups[{one.candidate, one.workload + ", " + LevelTitle(one.level)}].push_back(&one);
  for (const auto& [group, list] : groups) {
    std::vector<std::vector<std::string>> rows;
    for (const SummaryComparison* one : list) {
      if (!one->relative.has_value() && one->pairs == 0) continue;
      const std::string style = one->verdict == "better"         ? "good"
                                : one->verdict == "worse"        ? "bad"
                                : one->verdict == "underpowered" ? "warn"
                                                                 : "";
      std::string change = one->relative.has_value() ? FormatValue(*one->relative, "share") : "not measured";
      if (one->low)
        change += " (" + FormatValue(*one->low, "share") + " to " + FormatValue(*one->high, "share") + ")";
      std::string verdict = Badge(one->verdict, style);
      if (one->repeats_needed)
        verdict += " <small>" + std::to_string(*one->repeats_needed) + " repeats would tell</small>";
      const std::string unit = results::UnitOf(one->figure);
      rows.push_back({Escape(results::TitleOf(one->figure)), Escape(FormatValue(one->baseline_mean, unit)),
                      Escape(FormatValue(one->candidate_mean, unit)), Escape(change), verdict,
                      std::to_string(one->pairs),
                      one->session_relative.has_value()
                          ? Escape(FormatValue(*one->session_relative, "share")) + " <small>of " +
                                std::to_string(one->paired_sessions) + "</small>"
                          : "<span class=\"none\">–</span>"});
    }
    if (rows.empty()) {
      out += "<h3>" + Escape(group.first + ", " + group.second) +
             "</h3><p class=\"soft\">No pair of valid repeats.</p>";
      continue;
    }
    out += "<h3>" + Escape(group.first + " against " + summary.baseline + ": " + group.second) + "</h3>";
    out += Table(
        "Comparison of " + group.first,
        {"Measure", "Baseline", "Candidate", "Change (95 %)", "Verdict", "Pairs", "Median of paired turns"},
        rows);
  }
  return out;
}

std::string RepeatSection(const Recomputed& job) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& repeat : job.repeats) {
    const auto& facts = repeat.facts;
    const auto& figures = repeat.figures;
    std::string reasons;
    for (const auto& reason : figures.reasons)
      reasons += "<div class=\"bad\">" +
                 Escape(std::string(stats::ReasonSentence(reason.reason)) + ": " + reason.detail) + "</div>";
    for (const auto& warning : figures.warnings)
      reasons += "<div class=\"warn\">" + Escape(warning) + "</div>";
    rows.push_back({Escape(facts.point.stack + ", " + facts.point.workload + ", " +
                           LevelTitle(facts.point.level) + ", repeat " + std::to_string(facts.repeat)),
                    figures.valid ? Badge("valid", "good") : Badge("invalid", "bad"),
                    Escape(figures.measured_line), std::to_string(figures.requests.requests),
                    std::to_string(figures.requests.failed), ValueCell(figures.stability.variation, "share"),
                    ValueCell(figures.stability.drift, "share"),
                    ValueCell(figures.sources.closure_error, "share"),
                    Escape(FormatValue(figures.sources.skew_tokens, "tokens")),
                    reasons.empty() ? "<span class=\"soft\">–</span>" : reasons});
  }
  return Table("All repeats",
               {"Repeat", "Validity", "Measured", "Requests", "Failed", "Variation", "Drift", "Closure error",
                "Skew", "Reasons and warnings"},
               rows);
}

std::string TransferSection(const Recomputed& job) {
  std::vector<std::vector<std::string>> transfers, links, counters, energy;
  for (const auto& repeat : job.repeats) {
    const std::string name = repeat.facts.point.stack + ", " + LevelTitle(repeat.facts.point.level) +
                             ", repeat " + std::to_string(repeat.facts.repeat);
    for (const auto& one : repeat.figures.transfers) {
      transfers.push_back({Escape(name), Escape(one.from + " → " + one.to), Escape(one.path),
                           ValueCell(one.bytes_per_second, "bytes/s"),
                           ValueCell(one.line_bytes_per_second, "bytes/s"),
                           ValueCell(one.share_of_line, "share")});
    }
    if (repeat.figures.transfers.empty() && repeat.figures.kv_bytes_per_second.has_value()) {
      transfers.push_back({Escape(name), "all engines together", "–",
                           ValueCell(repeat.figures.kv_bytes_per_second, "bytes/s"), "–", "–"});
    }
    for (const auto& one : repeat.figures.links) {
      links.push_back({Escape(name), Escape(one.machine + " " + one.nic),
                       Escape(one.switch_name + " " + one.port),
                       Badge(one.verdict, one.verdict == "differ"  ? "warn"
                                          : one.verdict == "agree" ? "good"
                                                                   : ""),
                       ValueCell(one.out_difference, "share"), ValueCell(one.in_difference, "share")});
    }
    for (const auto& one : repeat.facts.switch_counters) {
      counters.push_back(
          {Escape(name),
           Escape(one.switch_name + " " + one.port + (one.queue.empty() ? "" : " queue " + one.queue)),
           Escape(one.counter) + (one.confirmed ? "" : " " + Badge("unconfirmed", "warn")), Escape(one.kind),
           ValueCell(one.value, one.unit)});
    }
    for (const auto& one : repeat.figures.energy.machines) {
      energy.push_back(
          {Escape(name), Escape(one.machine), Escape(std::string(stats::PowerKindName(one.kind))),
           one.energy.has_value() ? Escape(FormatValue((*one.energy).joules, "J"))
                                  : Missing(one.energy.reason()),
           one.energy.has_value() ? Escape(FormatValue((*one.energy).covered_seconds, "s")) : "–"});
    }
    for (const auto& one : repeat.figures.energy.switches) {
      energy.push_back({Escape(name), Escape("switch " + one.name), "PSU input, the pool's share",
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

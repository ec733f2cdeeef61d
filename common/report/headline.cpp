#include "common/report/headline.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/report/charts.h"
#include "common/report/forest.h"
#include "common/report/format.h"
#include "common/report/sections.h"
#include "common/report/sentences.h"
#include "common/results/figures.h"

namespace poolmark::report {
namespace {

using results::SummaryComparison;
using results::SummaryFile;
using results::SummaryPoint;

constexpr const char* kHeadlines[] = {"ttft_p50_seconds", "ttft_p99_seconds", "output_tokens_per_second",
                                      "reused"};

std::string ShortName(const SummaryPoint& point) {
  return point.point.stack + ", " + LevelTitle(point.point.level);
}

std::string HeadlineCell(const SummaryPoint& point, const std::string& figure, const SummaryFile& summary) {
  const auto at = point.figures.find(figure);
  if (at == point.figures.end() || !at->second.mean.has_value())
    return "<span class=\"none\">not measured</span>";
  std::string out = EscapeHtml(FormatInterval(at->second));
  if (point.diagnostic) out = "<span class=\"soft\">" + out + "</span>";
  for (const SummaryComparison& one : summary.comparisons) {
    if (one.candidate != point.point.stack || one.workload != point.point.workload ||
        one.level != point.point.level || one.figure != figure || !one.relative.has_value())
      continue;
    const std::string style = one.verdict == "better"         ? "good"
                              : one.verdict == "worse"        ? "bad"
                              : one.verdict == "underpowered" ? "warn"
                                                              : "";
    out += "<br><small class=\"" + style + "\">" + (*one.relative > 0 ? "+" : "") +
           EscapeHtml(FormatValue(*one.relative, "share") + ", " + one.verdict) + "</small>";
  }
  return out;
}

std::string StateCell(const SummaryPoint& point) {
  std::string out = point.valid ? Badge("valid", "good") : Badge("invalid", "bad");
  if (point.preliminary) out += " " + Badge("preliminary", "warn");
  if (point.simulated) out += " " + Badge("simulated", "warn");
  if (point.client_limited) out += " " + Badge("client too slow: latencies marked *", "bad");
  std::set<std::string> reasons;
  for (const auto& repeat : point.repeats) {
    for (const auto& reason : repeat.reasons)
      reasons.insert("repeat " + std::to_string(repeat.repeat) + ": " +
                     std::string(stats::ReasonSentence(reason.reason)));
  }
  for (const auto& reason : reasons) out += "<br><small class=\"bad\">" + EscapeHtml(reason) + "</small>";
  for (const auto& warning : point.warnings)
    out += "<br><small class=\"warn\">" + EscapeHtml(warning) + "</small>";
  return out;
}

}  // namespace

std::string PointName(const SummaryPoint& point) {
  return point.point.stack + ", " + point.point.workload + ", " + LevelTitle(point.point.level);
}

std::vector<const SummaryPoint*> OrderedPoints(const SummaryFile& summary) {
  std::vector<const SummaryPoint*> out;
  for (const auto& workload : WorkloadsOf(summary)) {
    for (const auto& level : LevelsOf(workload, summary)) {
      const size_t first = out.size();
      for (const SummaryPoint& point : summary.points) {
        if (point.point.workload == workload && point.point.level == level) out.push_back(&point);
      }
      std::stable_partition(
          out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
          [&](const SummaryPoint* point) { return point->point.stack == summary.baseline; });
    }
  }
  return out;
}

std::string JobConcerns(const SummaryFile& summary) {
  std::string out;
  if (!summary.publishable)
    out += Box("", "What holds the result back from publication", summary.held_back_by);
  return out + Box("", "Notes", summary.notes);
}

std::string WorkloadConcerns(const std::string& workload, const SummaryFile& summary) {
  Sentences reasons, warnings, notes;
  size_t points = 0;
  bool invalid = false;
  for (const SummaryPoint* point : OrderedPoints(summary)) {
    if (point->point.workload != workload) continue;
    ++points;
    const std::string name = ShortName(*point);
    if (!point->valid) {
      invalid = true;
      reasons.Add("invalid, its figures are diagnostics, never results.", name, name);
    }
    for (const auto& repeat : point->repeats) {
      for (const auto& reason : repeat.reasons)
        reasons.Add(std::string(stats::ReasonSentence(reason.reason)) + " (" + reason.detail + ")",
                    name + ", repeat " + std::to_string(repeat.repeat), name);
    }
    for (const auto& warning : point->warnings) warnings.Add(warning, name, name);
    if (point->preliminary) warnings.Add("Preliminary: fewer than three valid repeats.", name, name);
    notes.AddNotes(*point, name);
  }
  std::string out =
      Box("bad", invalid ? "Invalid" : "Some repeats are invalid and do not count", reasons.Lines(0));
  out += Box("warn", "How much weight the figures can carry", warnings.Lines(points));
  const auto lines = notes.Lines(points);
  if (!lines.empty())
    out += "<details><summary>" + std::to_string(lines.size()) + (lines.size() == 1 ? " note" : " notes") +
           " on these figures</summary>" + Box("", "Notes", lines) + "</details>";
  return out;
}

std::string HeadlineChanges(const std::string& workload, const SummaryFile& summary) {
  std::vector<std::string> candidates;
  for (const auto& one : summary.comparisons) {
    if (one.workload == workload &&
        std::find(candidates.begin(), candidates.end(), one.candidate) == candidates.end())
      candidates.push_back(one.candidate);
  }
  std::string out;
  for (const auto& candidate : candidates) {
    ComparisonList list;
    for (const char* figure : kHeadlines) {
      const size_t first = list.size();
      for (const auto& one : summary.comparisons) {
        if (one.workload == workload && one.candidate == candidate && one.figure == figure)
          list.push_back(&one);
      }
      std::sort(list.begin() + static_cast<std::ptrdiff_t>(first), list.end(),
                [](const auto* a, const auto* b) { return LevelBefore(a->level, b->level); });
    }
    const std::string title = candidate + " against " + list.front()->baseline;
    const std::string table = Forest(title + ", " + workload, list, {true, false, &summary.points});
    if (table.empty()) continue;
    out += "<h4>" + EscapeHtml(title) + "</h4><p class=\"soft\">" + VerdictCounts(list) +
           " <span class=\"wide\">The dot is the change, the bar its 95 % interval over pairs of repeats; "
           "within the shaded "
           "stretch both are the same. Times are better to the left, throughput and reuse to the "
           "right.</span></p>" +
           table;
  }
  return out;
}

std::string Glance(const SummaryFile& summary) {
  std::vector<std::string> figures = {"ttft_p50_seconds",         "ttft_p99_seconds", "tpot_p50_seconds",
                                      "output_tokens_per_second", "reused",           "reuse_captured"};
  const auto points = OrderedPoints(summary);
  for (const char* optional : {"output_tokens_per_second_per_gpu", "tokens_per_joule"}) {
    if (std::any_of(points.begin(), points.end(), [&](const SummaryPoint* point) {
          const auto at = point->figures.find(optional);
          return at != point->figures.end() && at->second.mean.has_value();
        }))
      figures.emplace_back(optional);
  }
  std::vector<std::string> head = {"Test point"};
  for (const auto& figure : figures) head.push_back(EscapeHtml(results::TitleOf(figure)));
  head.emplace_back("State");
  std::vector<std::vector<std::string>> rows;
  for (const SummaryPoint* point : points) {
    std::vector<std::string> row = {EscapeHtml(PointName(*point))};
    for (const auto& figure : figures) row.push_back(HeadlineCell(*point, figure, summary));
    row.push_back(StateCell(*point));
    rows.push_back(std::move(row));
  }
  return Table("Test points at a glance", head, rows, "glance");
}

}  // namespace poolmark::report

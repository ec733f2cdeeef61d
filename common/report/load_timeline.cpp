#include "common/report/load_timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/report/chart_data.h"
#include "common/report/charts.h"
#include "common/report/workloads.h"

namespace poolmark::report {
namespace {

constexpr size_t kMaxBytes = 64u << 20;
// Points of a line; more are averaged in groups, so that long loads keep the page small.
constexpr size_t kMaxPoints = 120;

struct Measure {
  const char* name;
  const char* key;     // of a line
  const char* inside;  // of the object at `key`; null: the value itself
  const char* y_title;
  const char* unit;
  double factor;
};
constexpr Measure kMeasures[] = {
    {"in flight", "in_flight", nullptr, "Requests in flight", "requests", 1},
    {"ended per second", "ended_per_s", nullptr, "Requests ended per second", "requests/s", 1},
    {"failed so far", "failed", nullptr, "Failed requests", "requests", 1},
    {"own lateness", "lateness_ms", "p99", "The load generator's lateness, P99", "s", 1e-3},
    {"largest own lateness", "lateness_ms", "max", "The load generator's largest lateness", "s", 1e-3},
    {"time to first token", "ttft_ms", "p50", "Time to first token, P50 of each second", "s", 1e-3},
};

using Points = std::vector<std::pair<double, double>>;

// Lines that are none of ours (a torn last one) are left out: the picture stands for what can be read.
std::vector<Json> ReadLines(const std::string& path) {
  std::vector<Json> lines;
  const auto text = ReadFile(path, kMaxBytes);
  if (!text.ok()) return lines;
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    auto line = ParseJson(std::string_view(*text).substr(at, end - at), "timeline.jsonl");
    if (line.ok() && line->is_object() && line->contains("t") && (*line)["t"].is_number())
      lines.push_back(std::move(*line));
    at = end + 1;
  }
  return lines;
}

Points PointsOf(const std::vector<Json>& lines, const Measure& measure) {
  Points all;
  for (const Json& line : lines) {
    auto value = line.find(measure.key);
    if (value == line.end()) continue;
    if (measure.inside != nullptr) {
      if (!value->is_object() || !value->contains(measure.inside)) continue;
      value = value->find(measure.inside);
    }
    if (value->is_number()) all.emplace_back(line["t"].get<double>(), value->get<double>() * measure.factor);
  }
  const size_t group = (all.size() + kMaxPoints - 1) / kMaxPoints;
  if (group <= 1) return all;
  Points out;
  for (size_t at = 0; at < all.size(); at += group) {
    const size_t end = std::min(at + group, all.size());
    double x = 0, y = 0;
    for (size_t i = at; i < end; ++i) {
      x += all[i].first;
      y += all[i].second;
    }
    const double count = static_cast<double>(end - at);
    out.emplace_back(x / count, y / count);
  }
  return out;
}

}  // namespace

std::vector<Chart> TimelineCharts(const std::string& name, const std::vector<TimelineOf>& loads) {
  std::vector<Chart> charts;
  for (const Measure& measure : kMeasures) {
    Chart chart = LineChart("Time from the start of the load", "s", measure.y_title, measure.unit);
    chart.name = name + measure.name;
    charts.push_back(std::move(chart));
  }
  for (const TimelineOf& load : loads) {
    const auto lines = ReadLines(load.path);
    for (size_t m = 0; m < charts.size(); ++m) {
      Series series = load.as;
      series.points = PointsOf(lines, kMeasures[m]);
      if (!series.points.empty()) charts[m].series.push_back(std::move(series));
    }
  }
  return charts;
}

Chart LoadTimeline(const std::string& workload, const Recomputed& job) {
  const ChartData data(workload, job.summary, job.repeats);
  std::vector<Chart> charts;
  for (const auto& level : data.levels()) {
    std::vector<TimelineOf> loads;
    for (const auto& stack : data.stacks()) {
      for (const results::RepeatFile* repeat : data.Repeats({stack, level})) {
        loads.push_back(
            {JoinPath(job.directory.path, JoinPath(StoredDirectory(job, *repeat), "timeline.jsonl")),
             data.SeriesOf(stack, *repeat)});
      }
    }
    const std::string name = data.levels().size() > 1 ? LevelTitle(level) + ": " : "";
    for (Chart& chart : TimelineCharts(name, loads)) charts.push_back(std::move(chart));
  }
  Chart chart = Choose("Show", std::move(charts));
  chart.id = "load-" + data.id();
  chart.title = "The load generator over time";
  chart.text = kTimelineText;
  return chart;
}

}  // namespace poolmark::report

// Curves of single repeats: percentiles, throughput over time, goodput along the scale of the limits.
#include <algorithm>
#include <cstdio>

#include "common/report/chart_data.h"
#include "common/report/charts.h"

namespace poolmark::report {
namespace {

using results::RepeatFile;

// Every repeat of a level, one legend line a stack; invalid ones dashed.
template <class Points>
void AddRepeats(const ChartData& data, const std::string& level, bool of_latencies, Chart* chart,
                Points points_of) {
  for (const auto& stack : data.stacks()) {
    for (const RepeatFile* repeat : data.Repeats({stack, level})) {
      Series series = data.SeriesOf(stack, *repeat);
      series.points = points_of(*repeat);
      if (of_latencies) ChartData::MarkOwnDelay(*repeat, &series);
      if (!series.points.empty()) chart->series.push_back(std::move(series));
    }
  }
}

using Curve = std::vector<std::pair<double, double>> stats::RequestFigures::*;

Chart Percentiles(const ChartData& data, const std::string& level, const std::string& title, Curve curve) {
  Chart chart = LineChart("Share of requests", "share", title, "s");
  chart.name = LevelTitle(level);
  AddRepeats(data, level, true, &chart,
             [curve](const RepeatFile& repeat) { return repeat.figures.requests.*curve; });
  return chart;
}

Chart AllPercentiles(const ChartData& data, const std::string& id, const std::string& title,
                     const std::string& text, Curve curve) {
  std::vector<Chart> levels;
  for (const auto& level : data.levels()) levels.push_back(Percentiles(data, level, title, curve));
  Chart chart = Choose("Load level", std::move(levels));
  chart.id = id + "-" + data.id();
  chart.title = title + ", all percentiles";
  chart.text = text;
  return chart;
}

Chart OverTime(const ChartData& data, const std::string& level) {
  Chart chart = LineChart("Time from the start of the load", "s", "Output tokens per second", "tokens/s");
  chart.name = LevelTitle(level);
  double warm_up = 0, load_end = 0, drain_end = 0;
  AddRepeats(data, level, false, &chart, [&](const RepeatFile& repeat) {
    const auto& stability = repeat.figures.stability;
    const auto& facts = repeat.facts;
    std::vector<std::pair<double, double>> points;
    for (size_t i = 0; i < stability.tokens_per_second.size(); ++i)
      points.emplace_back(facts.measured_from + static_cast<double>(i) * stability.window_seconds,
                          stability.tokens_per_second[i]);
    // The last window holds to its end.
    if (!points.empty())
      points.emplace_back(points.back().first + stability.window_seconds, points.back().second);
    warm_up = std::max(warm_up, facts.warm_up_seconds);
    load_end = std::max(load_end, facts.measured_to);
    drain_end = std::max(drain_end, facts.drain_end);
    return points;
  });
  for (Series& series : chart.series) series.stepped = true;
  if (warm_up > 0) chart.bands.push_back({0, warm_up, "warm-up"});
  if (drain_end > load_end && load_end > 0) chart.bands.push_back({load_end, drain_end, "drain"});
  return chart;
}

Chart Goodput(const ChartData& data, const std::string& level, const std::string& slo) {
  Chart chart = LineChart("Scale of the limits", "ratio", "Good requests per second", "requests/s");
  chart.name = LevelTitle(level);
  AddRepeats(data, level, true, &chart, [&](const RepeatFile& repeat) {
    for (const auto& goodput : repeat.figures.requests.goodput) {
      if (goodput.slo == slo) return goodput.curve;
    }
    return std::vector<std::pair<double, double>>();
  });
  return chart;
}

}  // namespace

std::vector<Chart> TimeCharts(const ChartData& data) {
  std::vector<Chart> times, out;
  for (const auto& level : data.levels()) times.push_back(OverTime(data, level));
  out.push_back(AllPercentiles(data, "percentiles", "Time to first token",
                               "Each repeat: the share of requests whose first token came within the time. A "
                               "line that climbs late has a short tail.",
                               &stats::RequestFigures::ttft_curve));
  out.push_back(AllPercentiles(data, "gaps", "Time per output token",
                               "Each repeat: the share of requests whose mean gap between output tokens was "
                               "at most this.",
                               &stats::RequestFigures::tpot_curve));
  Chart time = Choose("Load level", std::move(times));
  time.id = "time-" + data.id();
  time.title = "Output throughput over time";
  time.text =
      "Tokens that arrived in each window of the measured time, over the window's length, each repeat a "
      "line. Stability is reported, not graded.";
  out.push_back(std::move(time));
  for (const auto& point : data.points()) {
    const RepeatFile* repeat = data.OneRepeat(point);
    if (repeat == nullptr) continue;
    for (const stats::Slo& slo : repeat->facts.slos) {
      std::vector<Chart> levels;
      for (const auto& level : data.levels()) levels.push_back(Goodput(data, level, slo.name));
      Chart chart = Choose("Load level", std::move(levels));
      chart.id = "slo-" + IdOf(slo.name) + "-" + data.id();
      chart.title = "Goodput along the scale of " + slo.name;
      chart.text =
          "Requests per second that met both limits, when both limits are this many times the preset's. "
          "Limits by: " +
          slo.source + ".";
      if (slo.share) {
        char share[64];
        std::snprintf(share, sizeof share, " It asks for %g %% of the requests.", 100 * *slo.share);
        chart.text += share;
      }
      out.push_back(std::move(chart));
    }
    break;  // every point of a job has the same presets
  }
  return out;
}

}  // namespace poolmark::report

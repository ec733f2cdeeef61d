#include "common/report/gap_chart.h"

#include "common/report/chart_data.h"
#include "common/report/charts.h"
#include "common/report/workloads.h"

namespace poolmark::report {

std::vector<std::pair<double, double>> GapCurve(const load::Accumulator& records) {
  std::vector<std::pair<double, double>> points;
  const auto at = [&](double share) {
    if (const auto gap = load::GapPercentile(records, share)) points.emplace_back(share, *gap / 1e9);
  };
  for (int i = 0; i < 100; ++i) at(i / 100.0);
  for (const double share : {0.995, 0.999, 1.0}) at(share);
  return points;
}

Chart GapChart(const std::string& workload, const Recomputed& job) {
  const ChartData data(workload, job.summary, job.repeats);
  std::vector<Chart> levels;
  for (const auto& level : data.levels()) {
    Chart chart = LineChart("Share of gaps", "share", "Gap between output events", "s");
    chart.name = LevelTitle(level);
    for (const auto& stack : data.stacks()) {
      for (const results::RepeatFile* repeat : data.Repeats({stack, level})) {
        const auto curve = job.gap_curves.find(StoredDirectory(job, *repeat));
        if (curve == job.gap_curves.end()) continue;
        Series series = data.SeriesOf(stack, *repeat);
        series.points = curve->second;
        ChartData::MarkOwnDelay(*repeat, &series);
        chart.series.push_back(std::move(series));
      }
    }
    levels.push_back(std::move(chart));
  }
  Chart chart = Choose("Load level", std::move(levels));
  chart.id = "pooled-gaps-" + data.id();
  chart.title = "Inter-token latency, all percentiles";
  chart.text =
      "Each repeat: the share of the gaps between output events, all requests pooled, that were at most "
      "this. A stall "
      "shows here, which a mean for each request hides.";
  return chart;
}

}  // namespace poolmark::report

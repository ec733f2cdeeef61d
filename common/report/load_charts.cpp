// The pictures of a load of its own: percentile curves, what happened over time, goodput.
#include <algorithm>

#include "common/base/files.h"
#include "common/report/gap_chart.h"
#include "common/report/load_report.h"
#include "common/report/load_timeline.h"
#include "common/stats/percentile_curve.h"

namespace poolmark::report {
namespace {

using load::RequestFigures;
using Points = std::vector<std::pair<double, double>>;

// Of the successful requests of the window, in seconds.
template <class Get>
Points CurveOf(const LoadReport& report, Get get) {
  std::vector<double> values;
  for (const RequestFigures& request : report.load.records.requests) {
    if (request.primer || request.window_time < report.load.window.start ||
        request.outcome != load::Outcome::kOk)
      continue;
    const double nanoseconds = static_cast<double>(get(request));
    if (nanoseconds >= 0) values.push_back(nanoseconds / 1e9);  // below 0: not measured
  }
  std::sort(values.begin(), values.end());
  return stats::PercentileCurve(values);
}

Chart NamedLines(const std::string& name, const std::string& x, const std::string& x_unit,
                 const std::string& y, const std::string& y_unit) {
  Chart chart = LineChart(x, x_unit, y, y_unit);
  chart.name = name;
  return chart;
}

void Add(Chart* chart, const std::string& label, Points points) {
  if (points.empty()) return;
  Series series;
  series.label = label;
  series.color = "s" + std::to_string(chart->series.size() % 8);
  series.points = std::move(points);
  chart->series.push_back(std::move(series));
}

Chart PercentileChart(const std::string& name, const std::string& y, const std::string& of = "requests") {
  return NamedLines(name, "Share of " + of, "share", y, "s");
}

Chart TtftChart(const LoadReport& report) {
  Chart chart = PercentileChart("", "Time to first token");
  chart.id = "ttft";
  chart.title = "Time to first token, all percentiles";
  chart.text =
      "The share of successful requests whose first output came within the time, as the program saw it and "
      "by "
      "the kernel's receive stamps. Where the two part, the program was late.";
  Add(&chart, "as the program saw it", CurveOf(report, [](const RequestFigures& r) { return r.ttft; }));
  Add(&chart, "by the kernel's stamps",
      CurveOf(report, [](const RequestFigures& r) { return r.kernel_ttft; }));
  if (report.load.options.mode != load::LoadOptions::Mode::kClosed)
    Add(&chart, "from the actual send",
        CurveOf(report, [](const RequestFigures& r) { return r.ttft_from_sent; }));
  return chart;
}

Chart GapChart(const LoadReport& report) {
  Chart gaps = PercentileChart("Inter-token latency", "Gap between output events", "gaps");
  Add(&gaps, "inter-token latency", GapCurve(report.load.records));
  Chart tokens = PercentileChart("Time per output token", "Time per output token");
  Add(&tokens, "time per output token",
      CurveOf(report, [](const RequestFigures& r) { return r.time_per_output_token; }));
  Chart latency = PercentileChart("Request latency", "Request latency");
  Add(&latency, "request latency", CurveOf(report, [](const RequestFigures& r) { return r.latency; }));
  Chart chart = Choose("Show", {gaps, tokens, latency});
  chart.id = "gaps";
  chart.title = "Gaps between tokens, all percentiles";
  chart.text =
      "Inter-token latency: gaps between output events, all requests pooled, so that a stall shows. Time per "
      "output token: each request's mean. Request latency: to its last output.";
  return chart;
}

template <class Get>
Points PointsOverTime(const LoadReport& report, Get get) {
  Points points;
  for (size_t i = 0; i < report.bins.size(); ++i)
    points.emplace_back(static_cast<double>(i) * report.bin_seconds,
                        static_cast<double>(get(report.bins[i])) / report.bin_seconds);
  // The last stretch holds to its end.
  points.emplace_back(static_cast<double>(report.bins.size()) * report.bin_seconds, points.back().second);
  return points;
}

void AddBands(const LoadReport& report, Chart* chart) {
  const auto& window = report.load.window;
  if (window.start > 0) chart->bands.push_back({0, static_cast<double>(window.start) / 1e9, "warm-up"});
  if (window.total_end > window.load_end)
    chart->bands.push_back(
        {static_cast<double>(window.load_end) / 1e9, static_cast<double>(window.total_end) / 1e9, "drain"});
}

Chart TimeChart(const LoadReport& report) {
  const auto chart_of = [&](const std::string& name, const std::string& y, const std::string& unit) {
    return NamedLines(name, "Time from the start of the load", "s", y, unit);
  };
  Chart tokens = chart_of("Output tokens", "Output tokens per second", "tokens/s");
  Add(&tokens, "output tokens that arrived",
      PointsOverTime(report, [](const LoadBin& bin) { return bin.output_tokens; }));
  Chart requests = chart_of("Requests", "Requests per second", "requests/s");
  Add(&requests, "started", PointsOverTime(report, [](const LoadBin& bin) { return bin.started; }));
  Add(&requests, "ended well", PointsOverTime(report, [](const LoadBin& bin) { return bin.ended[0]; }));
  Chart failures = chart_of("Failures", "Failed requests per second", "requests/s");
  for (size_t i = 1; i < load::kOutcomes; ++i) {
    if (std::any_of(report.bins.begin(), report.bins.end(),
                    [i](const auto& bin) { return bin.ended[i] > 0; }))
      Add(&failures, std::string(load::OutcomeName(static_cast<load::Outcome>(i))),
          PointsOverTime(report, [i](const LoadBin& bin) { return bin.ended[i]; }));
  }
  std::vector<Chart> charts = {tokens, requests, failures};
  for (Chart& chart : charts) {
    for (Series& series : chart.series) series.stepped = true;
    AddBands(report, &chart);
  }
  Chart chart = Choose("Show", std::move(charts));
  chart.id = "time";
  chart.title = "Throughput over time";
  char length[32];
  std::snprintf(length, sizeof length, "%g", report.bin_seconds);
  chart.text = std::string("What arrived, started, ended or failed in each ") + length +
               " s, over that length; warm-up and drain are shaded and in no figure.";
  return chart;
}

Chart TimelineChart(const LoadReport& report) {
  Series series;
  series.label = "this load";
  series.color = "s0";
  auto charts = TimelineCharts("", {{JoinPath(report.directory, "timeline.jsonl"), series}});
  for (Chart& chart : charts) AddBands(report, &chart);
  Chart chart = Choose("Show", std::move(charts));
  chart.id = "timeline";
  chart.title = "The load generator over time";
  chart.text = kTimelineText;
  return chart;
}

Chart GoodputChart(const LoadReport& report) {
  const load::Summary& summary = report.load.summary;
  Chart chart = NamedLines("", "Scale of the limits", "ratio", "Good requests per second", "requests/s");
  chart.id = "goodput";
  chart.title = "Goodput along the scale of the limits";
  chart.text =
      "Requests per second that met every limit, when all limits are this many times those asked for";
  if (summary.slo.has_value()) chart.text += " (" + summary.slo->name + ")";
  chart.text += ".";
  Points points;
  for (const load::GoodputPoint& point : summary.goodput) points.emplace_back(point.scale, point.per_second);
  std::sort(points.begin(), points.end());
  Add(&chart, "goodput", std::move(points));
  return chart;
}

}  // namespace

std::vector<Chart> LoadCharts(const LoadReport& report) {
  std::vector<Chart> charts = {TtftChart(report), GapChart(report), TimeChart(report), TimelineChart(report),
                               GoodputChart(report)};
  std::erase_if(charts, [](const Chart& chart) { return !HasData(chart); });
  return charts;
}

}  // namespace poolmark::report

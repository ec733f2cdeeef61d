// Figures by load level: a bar for each stack, with its interval.
#include "common/report/chart_data.h"
#include "common/report/charts.h"
#include "common/results/figures.h"

namespace poolmark::report {
namespace {

// One figure by load level, a series for each stack.
Chart ByLevel(const ChartData& data, const std::string& figure, std::string name) {
  Chart chart;
  chart.name = std::move(name);
  chart.x_title = "Load level";
  chart.y_title = results::TitleOf(figure);
  for (const auto& level : data.levels()) chart.labels.push_back(LevelTitle(level));
  for (const auto& stack : data.stacks()) {
    Series series;
    series.label = data.StackTitle(stack);
    series.color = data.Color(stack);
    for (const auto& level : data.levels()) {
      const results::SummaryFigure* value = data.Figure({stack, level}, figure);
      if (value != nullptr && !value->unit.empty()) chart.y_unit = value->unit;
      series.values.push_back(MeanOf(value));
      series.low.push_back(value ? value->low : std::nullopt);
      series.high.push_back(value ? value->high : std::nullopt);
      series.marks.push_back(data.MarkOf({stack, level}));
      series.own_delay.push_back(data.HasOwnDelay({stack, level}, figure));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart Family(const ChartData& data, const std::string& id, const std::string& title,
             const std::vector<std::pair<std::string, std::string>>& figures) {
  std::vector<Chart> charts;
  for (const auto& [figure, name] : figures) charts.push_back(ByLevel(data, figure, name));
  Chart chart = Choose("Show", std::move(charts));
  chart.id = id + "-" + data.id();
  chart.title = title;
  chart.text = "Mean over the valid repeats, with its 95 % interval.";
  return chart;
}

// The trade that load makes: more tokens a second against a later first token.
Chart Trade(const ChartData& data, const std::string& figure, std::string name) {
  Chart chart = LineChart("Output tokens per second", "tokens/s", results::TitleOf(figure), "s");
  chart.name = std::move(name);
  for (const auto& stack : data.stacks()) {
    Series series;
    series.label = data.StackTitle(stack);
    series.color = data.Color(stack);
    for (const auto& level : data.levels()) {
      const auto x = MeanOf(data.Figure({stack, level}, "output_tokens_per_second"));
      const auto y = MeanOf(data.Figure({stack, level}, figure));
      if (!x || !y) continue;
      series.points.emplace_back(*x, *y);
      series.notes.push_back(LevelTitle(level));
      series.marks.push_back(data.MarkOf({stack, level}));
      series.own_delay.push_back(data.HasOwnDelay({stack, level}, figure));
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::vector<Chart> LevelCharts(const ChartData& data) {
  std::vector<Chart> charts;
  charts.push_back(Family(data, "ttft", "Time to first token",
                          {{"ttft_p50_seconds", "Median"},
                           {"ttft_p90_seconds", "P90"},
                           {"ttft_p99_seconds", "P99"},
                           {"ttft_mean_seconds", "Mean"}}));
  charts.push_back(Family(data, "throughput", "Throughput",
                          {{"output_tokens_per_second", "Output tokens"},
                           {"output_tokens_per_second_per_gpu", "Output tokens per GPU"},
                           {"requests_per_second", "Requests"}}));
  if (data.levels().size() > 1) {
    Chart trade =
        Choose("Show", {Trade(data, "ttft_p50_seconds", "Median"), Trade(data, "ttft_p90_seconds", "P90"),
                        Trade(data, "ttft_p99_seconds", "P99")});
    trade.id = "trade-" + data.id();
    trade.title = "Latency against throughput";
    trade.text =
        "Each point is a load level: to the right more tokens a second, further down an earlier first token. "
        "Means over the valid repeats.";
    charts.push_back(std::move(trade));
  }
  return charts;
}

Chart OtherMeasures(const ChartData& data) {
  std::vector<std::pair<std::string, std::string>> figures = {
      {"tpot_p50_seconds", "Time per output token, median"},
      {"tpot_p99_seconds", "Time per output token, P99"},
      {"itl_p99_seconds", "Inter-token latency, P99"},
      {"latency_p50_seconds", "Request latency, median"},
      {"reuse_captured", "Reuse captured"},
      {"kv_bytes_per_second", "KV transfer bandwidth"},
      {"kv_share_of_line", "KV transfer, share of the line rate"},
      {"gpu_kv_usage_mean", data.engine_cache() ? "Engine cache use, mean" : "GPU KV use, mean"},
      {"gpu_kv_usage_peak", data.engine_cache() ? "Engine cache use, peak" : "GPU KV use, peak"},
      {"working_set_ratio", "Working set ratio"},
      {"tokens_per_joule", "Output tokens per joule"},
      {"tokens_per_joule_with_network", "Output tokens per joule, with network"},
      {"variation", "Variation of throughput"},
      {"failed_share", "Failed requests"},
  };
  for (const auto& repeat : data.all_repeats()) {
    if (repeat.facts.point.workload != data.workload()) continue;
    for (const auto& slo : repeat.facts.slos)
      figures.emplace_back("goodput." + slo.name, "Goodput under " + slo.name);
    break;
  }
  return Family(data, "others", "Other measures by load level", figures);
}

}  // namespace poolmark::report

// Where the prompt tokens came from, and what was possible.
#include <map>

#include "common/report/chart_data.h"
#include "common/report/charts.h"

namespace poolmark::report {
namespace {

using results::RepeatFile;

void LabelByPoint(const ChartData& data, Chart* chart) {
  chart->horizontal = true;
  chart->x_title = "Load level and stack";
  chart->y_title = "Share of prompt tokens";
  chart->y_unit = "share";
  for (const auto& point : data.points())
    chart->labels.push_back(LevelTitle(point.level) + ", " + point.stack);
}

Chart Sources(const ChartData& data) {
  Chart chart;
  chart.id = "sources-" + data.id();
  chart.title = "Where every prompt token came from";
  chart.text = "By the engines' own counters. What no engine reported is not attributed, never computed.";
  chart.stacked = true;
  LabelByPoint(data, &chart);
  const std::pair<const char*, std::string> parts[] = {
      {"gpu", data.engine_cache() ? "Engine cache" : "GPU cache"},
      {"host", "Host memory"},
      {"storage", "Storage"},
      {"remote", "Remote KV"},
      {"computed", "Computed"},
      {"not_attributed", "Not attributed"}};
  for (const auto& [part, label] : parts) {
    Series series;
    series.label = label;
    series.color = std::string(part) == "not_attributed" ? "none" : part;
    series.stack = "sources";
    for (const auto& point : data.points()) {
      series.values.push_back(MeanOf(data.Figure(point, std::string("source_") + part)));
      series.marks.push_back(data.MarkOf(point));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart Captured(const ChartData& data) {
  Chart chart;
  chart.id = "captured-" + data.id();
  chart.title = "Reuse captured against possible";
  chart.text =
      "Reusable is what an ideal cache of unlimited size could have served; reused is what the pool served "
      "from any tier. Captured is reused divided by reusable.";
  LabelByPoint(data, &chart);
  for (size_t i = 0; i < chart.labels.size(); ++i) {
    if (const auto captured = MeanOf(data.Figure(data.points()[i], "reuse_captured"))) {
      char text[48];
      std::snprintf(text, sizeof text, "\ncaptured %.0f %%", *captured * 100);
      chart.labels[i] += text;
    }
  }
  for (const auto& [figure, label, color] :
       {std::tuple{"reusable", "Reusable", "none"}, {"reused", "Reused", "s2"}}) {
    Series series;
    series.label = label;
    series.color = color;
    for (const auto& point : data.points()) {
      const auto* value = data.Figure(point, figure);
      series.values.push_back(MeanOf(value));
      series.low.push_back(value ? value->low : std::nullopt);
      series.high.push_back(value ? value->high : std::nullopt);
      series.marks.push_back(data.MarkOf(point));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart ReuseCurve(const ChartData& data, const std::string& level) {
  Chart chart = LineChart("Cache size in tokens", "tokens", "Share of prompt tokens", "share");
  chart.name = LevelTitle(level);
  chart.x_log = true;
  // By the engines' block size, of which there is one as a rule; of a repeat that counts, if one does.
  std::map<uint32_t, const RepeatFile*> by_block;
  for (const auto& stack : data.stacks()) {
    const RepeatFile* repeat = data.OneRepeat({stack, level});
    if (repeat == nullptr || repeat->facts.reuse.curve.empty()) continue;
    const RepeatFile*& known = by_block[repeat->facts.reuse.block_tokens];
    if (known == nullptr || (!known->figures.valid && repeat->figures.valid)) known = repeat;
  }
  for (const auto& [block, repeat] : by_block) {
    Series series;
    series.label = "LRU cache of that size";
    if (by_block.size() > 1) series.label += ", blocks of " + std::to_string(block);
    series.color = "soft";
    for (const auto& [size, share] : repeat->facts.reuse.curve) {
      if (size > 0) series.points.emplace_back(size, share);
    }
    chart.series.push_back(std::move(series));
  }
  for (const auto& stack : data.stacks()) {
    Series series;
    series.label = data.StackTitle(stack) + ", measured";
    series.color = data.Color(stack);
    series.markers = true;
    for (const RepeatFile* repeat : data.Repeats({stack, level})) {
      const auto& figures = repeat->figures;
      if (figures.gpu_kv_capacity_tokens.has_value() && *figures.gpu_kv_capacity_tokens > 0 &&
          figures.reused.has_value()) {
        series.points.emplace_back(*figures.gpu_kv_capacity_tokens, *figures.reused);
        series.notes.push_back("repeat " + std::to_string(repeat->facts.repeat));
        series.marks.push_back(figures.valid ? Mark::kNone : Mark::kInvalid);
      }
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::vector<Chart> ReuseCharts(const ChartData& data) {
  std::vector<Chart> curves;
  for (const auto& level : data.levels()) curves.push_back(ReuseCurve(data, level));
  Chart curve = Choose("Load level", std::move(curves));
  curve.id = "curve-" + data.id();
  curve.title = "Reuse by cache size";
  curve.text =
      "What one LRU cache of that size could serve of this workload, and what each pool served with the "
      "engine caches it had. A pool above the curve is served by tiers below the GPU; one below it loses "
      "reuse to eviction, misses or routing.";
  return {Sources(data), Captured(data), std::move(curve)};
}

}  // namespace poolmark::report

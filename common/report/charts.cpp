#include "common/report/charts.h"

#include <algorithm>
#include <cstdlib>

namespace poolmark::report {
namespace {

using results::PointId;
using results::RepeatFile;
using results::SummaryFigure;
using results::SummaryFile;
using results::SummaryPoint;

constexpr size_t kMaxSeries = 8;

const SummaryPoint* Find(const SummaryFile& summary, const std::string& stack, const std::string& workload,
                         const std::string& level) {
  for (const SummaryPoint& point : summary.points) {
    if (point.point == PointId{stack, workload, level}) return &point;
  }
  return nullptr;
}

const SummaryFigure* Find(const SummaryPoint* point, const std::string& figure) {
  if (point == nullptr) return nullptr;
  const auto at = point->figures.find(figure);
  return at == point->figures.end() ? nullptr : &at->second;
}

std::optional<double> MeanOf(const SummaryFigure* figure) {
  return figure != nullptr && figure->mean.has_value() ? std::optional(*figure->mean) : std::nullopt;
}

std::vector<std::string> StacksOf(const std::string& workload, const SummaryFile& summary) {
  std::vector<std::string> out;
  for (const SummaryPoint& point : summary.points) {
    if (point.point.workload == workload && std::find(out.begin(), out.end(), point.point.stack) == out.end())
      out.push_back(point.point.stack);
  }
  // The baseline first, so that it keeps its colour.
  std::stable_partition(out.begin(), out.end(),
                        [&](const std::string& stack) { return stack == summary.baseline; });
  return out;
}

std::string StackTitle(const std::string& stack, const SummaryFile& summary) {
  return stack == summary.baseline ? stack + " (baseline)" : stack;
}
std::string Color(size_t index) {
  return "s" + std::to_string(index % kMaxSeries);
}

// One figure by load level, a series for each stack.
Chart ByLevel(const std::string& workload, const SummaryFile& summary, const std::string& figure,
              std::string title, std::string text, std::string y) {
  Chart chart;
  chart.id = IdOf(figure) + "-" + IdOf(workload);
  chart.title = std::move(title);
  chart.text = std::move(text);
  chart.x_title = "Load level";
  chart.y_title = std::move(y);
  const auto levels = LevelsOf(workload, summary);
  for (const auto& level : levels) chart.labels.push_back(LevelTitle(level));
  size_t color = 0;
  for (const auto& stack : StacksOf(workload, summary)) {
    Series series;
    series.label = StackTitle(stack, summary);
    series.color = Color(color++);
    for (const auto& level : levels) {
      const SummaryFigure* value = Find(Find(summary, stack, workload, level), figure);
      if (value != nullptr) chart.y_unit = value->unit;
      series.values.push_back(MeanOf(value));
      series.low.push_back(value ? value->low : std::nullopt);
      series.high.push_back(value ? value->high : std::nullopt);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

struct PointLabel {
  std::string stack, level;
};
std::vector<PointLabel> Points(const std::string& workload, const SummaryFile& summary) {
  std::vector<PointLabel> out;
  for (const auto& level : LevelsOf(workload, summary)) {
    for (const auto& stack : StacksOf(workload, summary)) {
      if (Find(summary, stack, workload, level) != nullptr) out.push_back({stack, level});
    }
  }
  return out;
}

Chart Sources(const std::string& workload, const SummaryFile& summary,
              const std::vector<RepeatFile>& repeats) {
  Chart chart;
  chart.id = "sources-" + IdOf(workload);
  chart.title = "Where every prompt token came from";
  chart.text = "By the engines' own counters. What no engine reported is not attributed, never computed.";
  chart.stacked = true;
  chart.x_title = "Stack and load level";
  chart.y_title = "Share of prompt tokens";
  chart.y_unit = "share";
  const bool engine_cache = std::any_of(repeats.begin(), repeats.end(), [&](const RepeatFile& repeat) {
    return repeat.facts.point.workload == workload &&
           std::any_of(repeat.facts.engines.begin(), repeat.facts.engines.end(),
                       [](const auto& engine) { return !engine.has_gpu; });
  });
  const std::pair<const char*, std::string> parts[] = {{"gpu", engine_cache ? "Engine cache" : "GPU cache"},
                                                       {"host", "Host memory"},
                                                       {"storage", "Storage"},
                                                       {"remote", "Remote KV"},
                                                       {"computed", "Computed"},
                                                       {"not_attributed", "Not attributed"}};
  const auto points = Points(workload, summary);
  for (const auto& point : points) chart.labels.push_back(point.stack + ", " + LevelTitle(point.level));
  for (const auto& [part, label] : parts) {
    Series series;
    series.label = label;
    series.color = std::string(part) == "not_attributed" ? "none" : part;
    series.stack = "sources";
    for (const auto& point : points)
      series.values.push_back(
          MeanOf(Find(Find(summary, point.stack, workload, point.level), std::string("source_") + part)));
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart Captured(const std::string& workload, const SummaryFile& summary) {
  Chart chart;
  chart.id = "captured-" + IdOf(workload);
  chart.title = "Reuse captured against possible";
  chart.text =
      "Reusable is what an ideal cache of unlimited size could have served; reused is what the pool served "
      "from any tier.";
  chart.x_title = "Stack and load level";
  chart.y_title = "Share of prompt tokens";
  chart.y_unit = "share";
  const auto points = Points(workload, summary);
  for (const auto& point : points) chart.labels.push_back(point.stack + ", " + LevelTitle(point.level));
  for (const auto& [figure, label, color] :
       {std::tuple{"reusable", "Reusable", "none"}, {"reused", "Reused", "s2"}}) {
    Series series;
    series.label = label;
    series.color = color;
    for (const auto& point : points) {
      const SummaryFigure* value = Find(Find(summary, point.stack, workload, point.level), figure);
      series.values.push_back(MeanOf(value));
      series.low.push_back(value ? value->low : std::nullopt);
      series.high.push_back(value ? value->high : std::nullopt);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart ReuseCurve(const std::string& workload, const SummaryFile& summary,
                 const std::vector<RepeatFile>& repeats) {
  Chart chart;
  chart.id = "curve-" + IdOf(workload);
  chart.title = "Reuse by cache size";
  chart.text =
      "What one LRU cache of that size could serve of this workload, and what each pool served with the GPU "
      "cache it had. "
      "A pool above the curve is served by tiers below the GPU; one below it loses reuse to eviction, misses "
      "or routing.";
  chart.kind = Chart::Kind::kLine;
  chart.x_title = "Cache size in tokens";
  chart.x_unit = "tokens";
  chart.y_title = "Share of prompt tokens";
  chart.y_unit = "share";
  chart.x_log = true;
  const auto stacks = StacksOf(workload, summary);
  size_t color = 0;
  for (const auto& level : LevelsOf(workload, summary)) {
    for (const RepeatFile& repeat : repeats) {
      if (repeat.facts.point.workload != workload || repeat.facts.point.level != level ||
          repeat.facts.reuse.curve.empty())
        continue;
      Series series;
      series.label = "LRU cache, " + LevelTitle(level);
      series.color = Color(7 - color++ % 4);
      for (const auto& [size, share] : repeat.facts.reuse.curve) {
        if (size > 0) series.points.emplace_back(size, share);
      }
      chart.series.push_back(std::move(series));
      break;
    }
  }
  for (size_t s = 0; s < stacks.size(); ++s) {
    Series series;
    series.label = StackTitle(stacks[s], summary) + ", measured";
    series.color = Color(s);
    series.markers = true;
    for (const RepeatFile& repeat : repeats) {
      const auto& figures = repeat.figures;
      if (repeat.facts.point.workload != workload || repeat.facts.point.stack != stacks[s]) continue;
      if (figures.gpu_kv_capacity_tokens.has_value() && *figures.gpu_kv_capacity_tokens > 0 &&
          figures.reused.has_value()) {
        series.points.emplace_back(*figures.gpu_kv_capacity_tokens, *figures.reused);
      }
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

// The first valid repeat of each point, else its first.
std::vector<const RepeatFile*> OneEach(const std::string& workload, const SummaryFile& summary,
                                       const std::vector<RepeatFile>& repeats) {
  std::vector<const RepeatFile*> out;
  for (const auto& point : Points(workload, summary)) {
    const RepeatFile* best = nullptr;
    for (const RepeatFile& repeat : repeats) {
      if (repeat.facts.point != PointId{point.stack, workload, point.level}) continue;
      if (best == nullptr || (repeat.figures.valid && !best->figures.valid)) best = &repeat;
    }
    if (best != nullptr && out.size() < kMaxSeries) out.push_back(best);
  }
  return out;
}

Chart Percentiles(const std::string& workload, const SummaryFile& summary,
                  const std::vector<RepeatFile>& repeats) {
  Chart chart;
  chart.id = "percentiles-" + IdOf(workload);
  chart.title = "Time to first token, all percentiles";
  chart.text = "One repeat of each point: the share of requests whose first token came within the time.";
  chart.kind = Chart::Kind::kLine;
  chart.x_title = "Share of requests";
  chart.x_unit = "share";
  chart.y_title = "Time to first token";
  chart.y_unit = "s";
  size_t color = 0;
  for (const RepeatFile* repeat : OneEach(workload, summary, repeats)) {
    Series series;
    series.label = repeat->facts.point.stack + ", " + LevelTitle(repeat->facts.point.level) + " (repeat " +
                   std::to_string(repeat->facts.repeat) + ")";
    series.color = Color(color++);
    series.points = repeat->figures.requests.ttft_curve;
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart OverTime(const std::string& workload, const SummaryFile& summary,
               const std::vector<RepeatFile>& repeats) {
  Chart chart;
  chart.id = "time-" + IdOf(workload);
  chart.title = "Output throughput over time";
  chart.text =
      "Tokens that arrived in each window of the measured time, over the window's length; the warm-up is "
      "shaded. Stability is reported, not graded.";
  chart.kind = Chart::Kind::kLine;
  chart.x_title = "Time from the start of the load";
  chart.x_unit = "s";
  chart.y_title = "Output tokens per second";
  chart.y_unit = "tokens/s";
  size_t color = 0;
  double warm_up = 0;
  for (const auto& point : Points(workload, summary)) {
    for (const RepeatFile& repeat : repeats) {
      if (repeat.facts.point != PointId{point.stack, workload, point.level} ||
          chart.series.size() >= 2 * kMaxSeries)
        continue;
      Series series;
      series.label = point.stack + ", " + LevelTitle(point.level) + " (repeat " +
                     std::to_string(repeat.facts.repeat) + ")";
      series.color = Color(color);
      series.dashed = !repeat.figures.valid;
      const auto& stability = repeat.figures.stability;
      for (size_t i = 0; i < stability.tokens_per_second.size(); ++i) {
        series.points.emplace_back(
            repeat.facts.measured_from + (static_cast<double>(i) + 0.5) * stability.window_seconds,
            stability.tokens_per_second[i]);
      }
      warm_up = std::max(warm_up, repeat.facts.warm_up_seconds);
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
    ++color;
  }
  if (warm_up > 0) chart.bands = {{0, warm_up}};
  return chart;
}

std::vector<Chart> GoodputCurves(const std::string& workload, const SummaryFile& summary,
                                 const std::vector<RepeatFile>& repeats) {
  std::vector<Chart> out;
  const auto chosen = OneEach(workload, summary, repeats);
  if (chosen.empty()) return out;
  for (const stats::Slo& slo : chosen.front()->facts.slos) {
    Chart chart;
    chart.id = "slo-" + IdOf(slo.name) + "-" + IdOf(workload);
    chart.title = "Goodput along the scale of " + slo.name;
    chart.text =
        "Requests per second that met both limits, when both limits are this many times the preset's. Limits "
        "by: " +
        slo.source;
    chart.kind = Chart::Kind::kLine;
    chart.x_title = "Scale of the limits";
    chart.x_unit = "ratio";
    chart.y_title = "Good requests per second";
    chart.y_unit = "requests/s";
    size_t color = 0;
    for (const RepeatFile* repeat : chosen) {
      for (const auto& goodput : repeat->figures.requests.goodput) {
        if (goodput.slo != slo.name) continue;
        Series series;
        series.label = repeat->facts.point.stack + ", " + LevelTitle(repeat->facts.point.level);
        series.color = Color(color);
        series.points = goodput.curve;
        if (!series.points.empty()) chart.series.push_back(std::move(series));
      }
      ++color;
    }
    if (!chart.series.empty()) out.push_back(std::move(chart));
  }
  return out;
}

bool HasData(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), [](const Series& series) {
    return !series.points.empty() || std::any_of(series.values.begin(), series.values.end(),
                                                 [](const auto& value) { return value.has_value(); });
  });
}

}  // namespace

std::vector<std::string> WorkloadsOf(const SummaryFile& summary) {
  std::vector<std::string> out;
  for (const SummaryPoint& point : summary.points) {
    if (std::find(out.begin(), out.end(), point.point.workload) == out.end())
      out.push_back(point.point.workload);
  }
  return out;
}

std::vector<std::string> LevelsOf(const std::string& workload, const SummaryFile& summary) {
  std::vector<std::string> out;
  for (const SummaryPoint& point : summary.points) {
    if (point.point.workload == workload && std::find(out.begin(), out.end(), point.point.level) == out.end())
      out.push_back(point.point.level);
  }
  std::sort(out.begin(), out.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.substr(0, 1), std::atof(a.substr(std::min<size_t>(1, a.size())).c_str())) <
           std::pair(b.substr(0, 1), std::atof(b.substr(std::min<size_t>(1, b.size())).c_str()));
  });
  return out;
}

std::string LevelTitle(const std::string& level) {
  if (level.size() < 2) return level;
  const std::string number = level.substr(1);
  if (level[0] == 'c') return number + (number == "1" ? " user" : " users");
  if (level[0] == 'r') return number + " requests/s";
  if (level[0] == 'x') return number == "1" ? "recorded speed" : number + " × recorded speed";
  return level;
}

std::string IdOf(const std::string& name) {
  std::string out;
  for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return out;
}

std::vector<Chart> ChartsOf(const std::string& workload, const SummaryFile& summary,
                            const std::vector<RepeatFile>& repeats) {
  std::vector<Chart> charts;
  const std::string over = "Mean over the valid repeats, with its 95 % interval.";
  charts.push_back(
      ByLevel(workload, summary, "ttft_p50_seconds", "Time to first token, median", over, "Seconds"));
  charts.push_back(
      ByLevel(workload, summary, "ttft_p99_seconds", "Time to first token, P99", over, "Seconds"));
  charts.push_back(ByLevel(workload, summary, "output_tokens_per_second", "Output throughput", over,
                           "Output tokens per second"));
  charts.push_back(
      ByLevel(workload, summary, "tpot_p50_seconds", "Time per output token, median", over, "Seconds"));
  charts.push_back(Sources(workload, summary, repeats));
  charts.push_back(Captured(workload, summary));
  charts.push_back(ReuseCurve(workload, summary, repeats));
  charts.push_back(Percentiles(workload, summary, repeats));
  charts.push_back(OverTime(workload, summary, repeats));
  for (Chart& chart : GoodputCurves(workload, summary, repeats)) charts.push_back(std::move(chart));
  std::erase_if(charts, [](const Chart& chart) { return !HasData(chart); });
  return charts;
}

}  // namespace poolmark::report

#include "common/report/charts.h"

#include <algorithm>
#include <cstdlib>

#include "common/report/chart_data.h"
#include "common/report/sections.h"

namespace poolmark::report {

using results::PointId;
using results::RepeatFile;
using results::SummaryFigure;
using results::SummaryFile;
using results::SummaryPoint;

ChartData::ChartData(std::string workload, const SummaryFile& summary, const std::vector<RepeatFile>& repeats)
    : workload_(std::move(workload)), id_(IdOf(workload_)), summary_(summary), repeats_(repeats) {
  for (const SummaryPoint& point : summary.points) {
    if (point.point.workload == workload_ &&
        std::find(stacks_.begin(), stacks_.end(), point.point.stack) == stacks_.end())
      stacks_.push_back(point.point.stack);
  }
  std::stable_partition(stacks_.begin(), stacks_.end(),
                        [&](const std::string& stack) { return stack == summary.baseline; });
  levels_ = LevelsOf(workload_, summary);
  for (const auto& level : levels_) {
    for (const auto& stack : stacks_) {
      if (Point(stack, level) != nullptr) points_.push_back({stack, level});
    }
  }
  engine_cache_ = std::any_of(repeats.begin(), repeats.end(), [&](const RepeatFile& repeat) {
    return repeat.facts.point.workload == workload_ &&
           std::any_of(repeat.facts.engines.begin(), repeat.facts.engines.end(),
                       [](const auto& engine) { return !engine.has_gpu; });
  });
}

const SummaryPoint* ChartData::Point(const std::string& stack, const std::string& level) const {
  for (const SummaryPoint& point : summary_.points) {
    if (point.point == PointId{stack, workload_, level}) return &point;
  }
  return nullptr;
}

const SummaryFigure* ChartData::Figure(const PointLabel& label, const std::string& figure) const {
  const SummaryPoint* point = Point(label.stack, label.level);
  if (point == nullptr) return nullptr;
  const auto at = point->figures.find(figure);
  return at == point->figures.end() ? nullptr : &at->second;
}

Mark ChartData::MarkOf(const PointLabel& label) const {
  const SummaryPoint* point = Point(label.stack, label.level);
  if (point == nullptr) return Mark::kNone;
  return !point->valid ? Mark::kInvalid : point->preliminary ? Mark::kPreliminary : Mark::kNone;
}

bool ChartData::HasOwnDelay(const PointLabel& label, const std::string& figure) const {
  const SummaryPoint* point = Point(label.stack, label.level);
  return point != nullptr && IsMarked(*point, figure);
}

void ChartData::MarkOwnDelay(const RepeatFile& repeat, Series* series) {
  if (!repeat.facts.client_limited) return;
  series->label += " *";
  series->group += " *";
  series->own_delay.assign(series->points.size(), true);
}

std::vector<const RepeatFile*> ChartData::Repeats(const PointLabel& point) const {
  std::vector<const RepeatFile*> out;
  for (const RepeatFile& repeat : repeats_) {
    if (repeat.facts.point == PointId{point.stack, workload_, point.level}) out.push_back(&repeat);
  }
  return out;
}

const RepeatFile* ChartData::OneRepeat(const PointLabel& point) const {
  const auto list = Repeats(point);
  if (list.empty()) return nullptr;
  const auto valid =
      std::find_if(list.begin(), list.end(), [](const RepeatFile* repeat) { return repeat->figures.valid; });
  return valid == list.end() ? list.front() : *valid;
}

std::string ChartData::StackTitle(const std::string& stack) const {
  return stack == summary_.baseline ? stack + " (baseline)" : stack;
}

Series ChartData::SeriesOf(const std::string& stack, const results::RepeatFile& repeat) const {
  Series series;
  series.group = StackTitle(stack);
  series.label = series.group + ", repeat " + std::to_string(repeat.facts.repeat) +
                 (repeat.figures.valid ? "" : " (invalid)");
  series.color = Color(stack);
  series.dashed = !repeat.figures.valid;
  return series;
}

std::string ChartData::Color(const std::string& stack) const {
  const auto at = std::find(stacks_.begin(), stacks_.end(), stack);
  return "s" + std::to_string((at - stacks_.begin()) % 8);
}

std::optional<double> MeanOf(const SummaryFigure* figure) {
  return figure != nullptr && figure->mean.has_value() ? std::optional(*figure->mean) : std::nullopt;
}

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
  std::sort(out.begin(), out.end(), LevelBefore);
  return out;
}

bool LevelBefore(const std::string& a, const std::string& b) {
  return std::pair(a.substr(0, 1), std::atof(a.substr(std::min<size_t>(1, a.size())).c_str())) <
         std::pair(b.substr(0, 1), std::atof(b.substr(std::min<size_t>(1, b.size())).c_str()));
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
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-') {
      out += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "_%02x", static_cast<unsigned char>(c));
      out += escaped;
    }
  }
  return out;
}

std::vector<Chart> ChartsOf(const std::string& workload, const SummaryFile& summary,
                            const std::vector<RepeatFile>& repeats) {
  const ChartData data(workload, summary, repeats);
  std::vector<Chart> charts = LevelCharts(data);
  for (auto make : {ReuseCharts, TimeCharts}) {
    for (Chart& chart : make(data)) charts.push_back(std::move(chart));
  }
  charts.push_back(OtherMeasures(data));
  std::erase_if(charts, [](const Chart& chart) { return !HasData(chart); });
  return charts;
}

}  // namespace poolmark::report

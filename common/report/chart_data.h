// What the charts have in common: points of a summary by stack and level, colours, marks. Internal to this
// directory; pure.
#pragma once
#include <string>
#include <vector>

#include "common/report/chart.h"
#include "common/results/repeat_file.h"
#include "common/results/summary_file.h"

namespace poolmark::report {

struct PointLabel {
  std::string stack, level;
};

// The job as the charts of one workload see it. Holds references: both files outlive it.
class ChartData {
 public:
  ChartData(std::string workload, const results::SummaryFile& summary,
            const std::vector<results::RepeatFile>& repeats);

  const std::string& workload() const { return workload_; }
  const std::string& id() const { return id_; }                       // of the workload, for elements
  const std::vector<std::string>& stacks() const { return stacks_; }  // baseline first
  const std::vector<std::string>& levels() const { return levels_; }
  const std::vector<PointLabel>& points() const { return points_; }  // level by level
  const std::vector<results::RepeatFile>& all_repeats() const { return repeats_; }

  const results::SummaryPoint* Point(const std::string& stack, const std::string& level) const;
  const results::SummaryFigure* Figure(const PointLabel& point, const std::string& figure) const;
  Mark MarkOf(const PointLabel& point) const;
  bool HasOwnDelay(const PointLabel& point, const std::string& figure) const;
  std::vector<const results::RepeatFile*> Repeats(const PointLabel& point) const;
  // The first valid repeat, else the first; null: none.
  const results::RepeatFile* OneRepeat(const PointLabel& point) const;
  std::string StackTitle(const std::string& stack) const;  // "base (baseline)"
  // A stack keeps its colour in every chart.
  std::string Color(const std::string& stack) const;
  // Every point of a curve of latencies, and its label, where the repeat's load was too slow for them.
  static void MarkOwnDelay(const results::RepeatFile& repeat, Series* series);
  // Without points: one legend line a stack, in its colour; an invalid repeat is dashed and says so.
  Series SeriesOf(const std::string& stack, const results::RepeatFile& repeat) const;
  bool engine_cache() const { return engine_cache_; }  // engines without a GPU

 private:
  std::string workload_, id_;
  const results::SummaryFile& summary_;
  const std::vector<results::RepeatFile>& repeats_;
  std::vector<std::string> stacks_, levels_;
  std::vector<PointLabel> points_;
  bool engine_cache_ = false;
};

std::optional<double> MeanOf(const results::SummaryFigure* figure);

// By subject, a file each.
std::vector<Chart> LevelCharts(const ChartData& data);  // level_charts.cpp
Chart OtherMeasures(const ChartData& data);
std::vector<Chart> ReuseCharts(const ChartData& data);  // reuse_charts.cpp
std::vector<Chart> TimeCharts(const ChartData& data);   // time_charts.cpp

}  // namespace poolmark::report

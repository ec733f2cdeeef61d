// Which test points two jobs have in common, and their figures.
#include <algorithm>

#include "common/report/charts.h"
#include "common/report/compare_parts.h"
#include "common/report/workloads.h"
#include "common/results/comparisons.h"
#include "common/results/summarize.h"

namespace poolmark::report {
namespace {

using results::PointId;
using results::RepeatFile;

constexpr size_t kMostNamed = 12;

std::vector<PointId> PointIdsOf(const Recomputed& job) {
  std::vector<PointId> out;
  for (const RepeatFile& repeat : job.repeats) {
    if (std::find(out.begin(), out.end(), repeat.facts.point) == out.end()) out.push_back(repeat.facts.point);
  }
  // As the tables have them: stacks and workloads as they come, levels by their number.
  std::stable_sort(out.begin(), out.end(), [](const PointId& a, const PointId& b) {
    return a.stack == b.stack && a.workload == b.workload && LevelBefore(a.level, b.level);
  });
  return out;
}

std::vector<std::string> StackNames(const Recomputed& job) {
  std::vector<std::string> out;
  for (const auto& repeat : job.repeats) {
    if (std::find(out.begin(), out.end(), repeat.facts.point.stack) == out.end())
      out.push_back(repeat.facts.point.stack);
  }
  return out;
}

std::vector<const RepeatFile*> Of(const Recomputed& job, const PointId& point) {
  std::vector<const RepeatFile*> out;
  for (const RepeatFile& repeat : job.repeats) {
    if (repeat.facts.point == point) out.push_back(&repeat);
  }
  return out;
}

// Called as in the tables.
std::string Named(const std::vector<PointId>& points, const results::JobFile& job) {
  std::string out;
  for (size_t i = 0; i < std::min(points.size(), kMostNamed); ++i)
    out += (i == 0 ? "" : ", ") + points[i].stack + " " + ShownName(job, points[i].workload) + "-" +
           points[i].level;
  if (points.size() > kMostNamed) out += " and " + std::to_string(points.size() - kMostNamed) + " more";
  return out.empty() ? "(none)" : out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> StackPairs(const Recomputed& first,
                                                            const Recomputed& other) {
  const auto left = StackNames(first), right = StackNames(other);
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& name : left) {
    if (std::find(right.begin(), right.end(), name) != right.end()) out.emplace_back(name, name);
  }
  if (out.empty() && left.size() == 1 && right.size() == 1) out.emplace_back(left[0], right[0]);
  return out;
}

PointCoverage CoverPoints(const Recomputed& first, const Recomputed& other) {
  const auto pairs = StackPairs(first, other);
  PointCoverage out;
  out.other_only = PointIdsOf(other);
  for (const PointId& point : PointIdsOf(first)) {
    const auto pair =
        std::find_if(pairs.begin(), pairs.end(), [&](const auto& one) { return one.first == point.stack; });
    const PointId there{pair == pairs.end() ? "" : pair->second, point.workload, point.level};
    const auto at = std::find(out.other_only.begin(), out.other_only.end(), there);
    if (pair == pairs.end() || at == out.other_only.end()) {
      out.first_only.push_back(point);
    } else {
      out.both.emplace_back(point, there);
      out.other_only.erase(at);
    }
  }
  return out;
}

std::optional<Unlike> UnlikePoints(const Recomputed& first, const Recomputed& other,
                                   const PointCoverage& points) {
  if (points.first_only.empty() && points.other_only.empty() && !points.both.empty()) return std::nullopt;
  return Unlike{other.directory.path, std::string(kTestPoints), Named(points.first_only, first.directory.job),
                Named(points.other_only, other.directory.job), points.both.empty()};
}

void ComparePoints(const Recomputed& first, const Recomputed& other, const PointCoverage& points,
                   JobComparison* out) {
  std::vector<PointId> without;
  for (const auto& [left, right] : points.both) {
    auto list =
        results::ComparePoint(Of(first, left), Of(other, right), results::RequestsIn(first.directory.path),
                              results::RequestsIn(other.directory.path));
    if (std::none_of(list.begin(), list.end(), [](const auto& one) { return one.pairs > 0; }))
      without.push_back(right);
    for (auto& one : list) {
      one.baseline = first.directory.job.job_id + ":" + left.stack;
      one.candidate = other.directory.job.job_id + ":" + right.stack;
      out->comparisons.push_back(std::move(one));
    }
  }
  if (!points.first_only.empty() || !points.other_only.empty() || !without.empty()) out->complete = false;
  if (!without.empty())
    out->notes.push_back(other.directory.path + ": no pair of valid repeats, so that nothing is compared: " +
                         Named(without, other.directory.job));
}

}  // namespace poolmark::report

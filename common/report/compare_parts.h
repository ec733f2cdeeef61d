// Parts of the comparison of two jobs, a file each. Internal to this directory; pure but for the requests
// that ComparePoints reads.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/report/compare.h"

namespace poolmark::report {

// Collects what is not the same in one directory and the first.
class Differences {
 public:
  Differences(std::string directory, std::vector<Unlike>* out)
      : directory_(std::move(directory)), out_(*out) {}
  void Same(const std::string& what, const std::string& first, const std::string& other, bool refuses) {
    if (first != other)
      out_.push_back({directory_, what, first.empty() ? "(nothing)" : first,
                      other.empty() ? "(nothing)" : other, refuses});
  }

 private:
  std::string directory_;
  std::vector<Unlike>& out_;
};

// Stacks of the same name; where each job has one stack only, those two.
std::vector<std::pair<std::string, std::string>> StackPairs(const Recomputed& first, const Recomputed& other);

// Workloads of one name must have sent the same, however their settings are written (compare_workloads.cpp).
void CompareWorkloads(const results::Directory& first, const results::Directory& other,
                      Differences* differences);

// Which test points two jobs have in common (compare_points.cpp); the stack is called as in `first`.
struct PointCoverage {
  std::vector<std::pair<results::PointId, results::PointId>> both;
  std::vector<results::PointId> first_only, other_only;
};
PointCoverage CoverPoints(const Recomputed& first, const Recomputed& other);
// Points that only one of the jobs has; refused where none is in common. Nothing: each has its counterpart.
std::optional<Unlike> UnlikePoints(const Recomputed& first, const Recomputed& other,
                                   const PointCoverage& points);
void ComparePoints(const Recomputed& first, const Recomputed& other, const PointCoverage& points,
                   JobComparison* out);

}  // namespace poolmark::report

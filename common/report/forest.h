// Changes against a baseline as a picture that is a table, too: point, 95 % interval, zero and the stretch
// that counts as the same. Pure.
#pragma once
#include <string>
#include <vector>

#include "common/results/summary_file.h"

namespace poolmark::report {

using ComparisonList = std::vector<const results::SummaryComparison*>;

struct ForestOptions {
  bool level = false;  // a column with the load level
  bool full = false;   // both means, pairs, and the median of paired turns beside the change
  // Of both sides: changes of figures that include the load generator's own delay get a `*`.
  const std::vector<results::SummaryPoint>* points = nullptr;
};
// Comparisons without a pair are left out; "" when none is left.
std::string Forest(const std::string& label, const ComparisonList& rows, const ForestOptions& options);

// "Better in 3, worse in 1, the same in 2, too few repeats to tell in 4."
std::string VerdictCounts(const ComparisonList& rows);

}  // namespace poolmark::report

// Gaps between output events, all requests of a load pooled, as percentile curves: of a job's repeats, or of
// a load alone. Internal to this directory; pure.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "common/load/accumulator.h"
#include "common/report/chart.h"
#include "common/report/recompute.h"

namespace poolmark::report {

// Share to seconds, from counts in buckets 0.1 % wide; empty without gaps.
std::vector<std::pair<double, double>> GapCurve(const load::Accumulator& records);

// Of one workload, each repeat a line, to choose by level; without series where no records could be read.
Chart GapChart(const std::string& workload, const Recomputed& job);

}  // namespace poolmark::report

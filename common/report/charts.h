// The pictures of a job: which figures go into which chart. Pure.
#pragma once
#include <string>
#include <vector>

#include "common/report/chart.h"
#include "common/results/repeat_file.h"
#include "common/results/summary_file.h"

namespace poolmark::report {

// Of one workload: TTFT and throughput by load level with intervals, latency against throughput, token
// sources stacked, reuse captured against possible, the reuse curve with the measured points on it,
// percentile curves, throughput over time with its windows, goodput along the SLO scale, and every other
// measure by load level to choose from. Without repeats only what the summary holds.
std::vector<Chart> ChartsOf(const std::string& workload, const results::SummaryFile& summary,
                            const std::vector<results::RepeatFile>& repeats);

// Workloads in the order of the points.
std::vector<std::string> WorkloadsOf(const results::SummaryFile& summary);
// Levels by their number: c4, c16, c128.
std::vector<std::string> LevelsOf(const std::string& workload, const results::SummaryFile& summary);
bool LevelBefore(const std::string& a, const std::string& b);
// "16 users", "5 requests/s", "trace at 2 times its speed".
std::string LevelTitle(const std::string& level);
// "a.b" -> "a-b": part of an element's id.
std::string IdOf(const std::string& name);

}  // namespace poolmark::report

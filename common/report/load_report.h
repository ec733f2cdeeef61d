// A load of its own (`poolmark load --out DIR`, no job): its figures computed again from its records, as a
// page, a text and JSON. Jobs have report/html.h. Reading touches files, the rest is pure.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/load/recompute.h"
#include "common/report/chart.h"

namespace poolmark::report {

inline constexpr char kLoadFile[] = "load.json";

// What happened in one stretch of the load's time.
struct LoadBin {
  double output_tokens = 0;  // that arrived, whichever request
  uint64_t started = 0;
  std::array<uint64_t, load::kOutcomes> ended{};
};

struct LoadReport {
  std::string directory;
  load::Recomputed load;
  double bin_seconds = 1;
  std::vector<LoadBin> bins;  // from the start of the load to the end of its drain
};

Result<LoadReport> ReadLoadReport(const std::string& directory);
// Percentile curves, throughput and outcomes over time, the timeline, goodput; without what has no data.
std::vector<Chart> LoadCharts(const LoadReport& report);
std::string LoadPage(const LoadReport& report);
// In what the load is not what its workload's file recorded, a sentence each.
std::vector<std::string> ReplayNotesOf(const LoadReport& report);
std::string LoadReportText(const LoadReport& report);
Result<std::string> LoadReportJson(const LoadReport& report);

}  // namespace poolmark::report

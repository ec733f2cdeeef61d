// A sweep to saturation (`poolmark load --find-knee --out DIR`) as a page, from its knee.json. Reading
// touches the file, the rest is pure.
#pragma once
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/result.h"
#include "common/report/chart.h"

namespace poolmark::report {

inline constexpr char kKneeFile[] = "knee.json";

// One measured level; milliseconds are seconds here, and nothing is what was not measured.
struct KneeLevel {
  double level = 0;
  double share = 0;
  bool passed = false, client_limited = false;
  std::optional<double> goodput, tokens_per_second, ttft_p50, ttft_p99, tpot_p99;
};

struct KneeReport {
  std::optional<double> knee;
  bool open_end = false, interrupted = false, of_rate = false;
  double share = 0;  // asked for
  std::string slo, model;
  std::vector<KneeLevel> levels;  // by load
  std::vector<std::string> notes;
};

Result<KneeReport> ReadKneeReport(const std::string& directory);
std::vector<Chart> KneeCharts(const KneeReport& report);
std::string KneePage(const KneeReport& report);
std::string KneeText(const KneeReport& report);

}  // namespace poolmark::report

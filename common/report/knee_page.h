// A sweep to saturation (`poolmark load --find-knee --out DIR`): every level computed again from its records,
// and the knee from the levels, as a page, a text and JSON. Reading touches files, the rest is pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/result.h"
#include "common/load/recompute.h"
#include "common/report/chart.h"

namespace poolmark::report {

inline constexpr char kKneeFile[] = "knee.json";

// One measured level; milliseconds are seconds here, and nothing is what was not measured.
struct KneeLevel {
  double level = 0;
  bool known = false;           // its records were read; without them it has no figures
  std::optional<double> share;  // nothing: no window, or not known
  bool passed = false, client_limited = false;
  std::optional<double> goodput, tokens_per_second, ttft_p50, ttft_p99, tpot_p99;
};

// A stored figure that does not follow from the records.
struct KneeDifference {
  std::string file;  // in the directory
  load::Difference what;
};

struct KneeReport {
  Json stored;  // knee.json
  std::optional<double> knee;
  bool open_end = false, interrupted = false, of_rate = false;
  std::string error;  // that ended the search; "": none
  double share = 0;   // asked for
  std::string slo, model;
  std::vector<KneeLevel> levels;  // by load
  std::vector<std::string> notes;
  std::vector<KneeDifference> differences;
  std::vector<std::string> problems;  // levels whose records are missing or damaged: then no knee is known
};

Result<KneeReport> ReadKneeReport(const std::string& directory);
std::vector<Chart> KneeCharts(const KneeReport& report);
std::string KneePage(const KneeReport& report);
std::string KneeText(const KneeReport& report);
Result<std::string> KneeJson(const KneeReport& report);

}  // namespace poolmark::report

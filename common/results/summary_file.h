// summary.json: every test point with means, intervals, sources and verdicts, and the comparisons. Made by
// Summarize (summarize.h) from the other files, so that it can be made again. Plain values.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/measured.h"
#include "common/base/result.h"
#include "common/results/repeat_file.h"
#include "common/stats/summary.h"

namespace poolmark::results {

// One measure of one point over its valid repeats (of an invalid point: over all, as diagnostics).
struct SummaryFigure {
  std::string unit;  // "s", "tokens/s", "share", …
  uint64_t n = 0;
  Measured<double> mean;
  std::optional<double> low, high;  // 95 % Student-t; null with fewer than two repeats
  std::optional<double> deviation;
  std::vector<Measured<double>> repeats;  // by repeat, in order of SummaryPoint::repeats
};

struct SummaryRepeat {
  int repeat = 1;
  int cycle = 1;
  bool valid = false;
  std::string directory;
  std::vector<stats::InvalidReason> reasons;
  std::vector<std::string> warnings, notes;
};

struct SummaryPoint {
  PointId point;
  std::string strategy, shape;
  bool simulated = false;
  bool engine_cache =
      false;  // engines without a GPU: `source_gpu` and `gpu_kv_*` are of their own caches (M7)
  std::string measured_line;
  bool valid = false;           // at least one valid repeat
  bool preliminary = false;     // valid, with fewer than three valid repeats
  bool diagnostic = false;      // the figures are of invalid repeats
  bool client_limited = false;  // of a repeat that counts: latencies include the load generator's own delay
  std::map<std::string, SummaryFigure> figures;  // docs/result-files.md lists the names
  std::vector<SummaryRepeat> repeats;
  std::vector<std::string> warnings;  // of its repeats, each once
  std::vector<std::string> notes;
  bool publishable = false;
  std::vector<std::string> held_back_by;
};

struct SummaryComparison {
  std::string baseline, candidate;  // stacks
  std::string workload, level, figure;
  bool lower_is_better = false;
  std::string verdict;           // "better", "worse", "same", "underpowered"
  uint64_t pairs = 0;            // repeats
  uint64_t paired_sessions = 0;  // requests of the same session and turn in both
  Measured<double> baseline_mean, candidate_mean;
  Measured<double> relative;        // (candidate - baseline) / baseline
  std::optional<double> low, high;  // of `relative`
  double same_within = 0.05;
  std::optional<uint64_t> repeats_needed;  // underpowered: to tell a difference of `same_within`
  Measured<double> session_relative;  // median over paired requests, where the figure is one of a request
};

struct SummaryFile {
  std::string job_id;
  std::string state;    // of the job
  std::string verdict;  // "VALID", "INVALID", "INCOMPLETE" (ended early, every point valid), "NO_RESULT"
  std::string baseline;
  std::vector<SummaryPoint> points;
  std::vector<SummaryComparison> comparisons;
  bool publishable = false;
  std::vector<std::string> held_back_by;
  std::vector<std::string> notes;
};

Result<std::string> Encode(const SummaryFile& file);
Result<SummaryFile> DecodeSummary(std::string_view text, std::string_view where);

}  // namespace poolmark::results

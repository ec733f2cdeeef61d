// A results directory judged again from its files alone (design, promise 3): figures from requests.jsonl.zst,
// verdicts from the stored evidence, the summary from both; and where that differs from what is stored. Pure
// but for reading.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/results/directory.h"

namespace poolmark::report {

struct Difference {
  std::string file;  // "points/cand/code-c4/repeat_2/repeat.json"
  std::string path;  // "figures.requests.ttft.p99"
  std::string stored, computed;
};

struct Recomputed {
  results::Directory directory;  // as stored
  std::vector<results::RepeatFile>
      repeats;                          // figures computed again; stored ones where requests cannot be read
  results::SummaryFile summary;         // computed again
  std::vector<Difference> differences;  // at most kMaxDifferences a file
  std::vector<results::Problem> problems;  // files that could not be read or checked
  // By directory of the repeat: share of the pooled gaps between output events to seconds.
  std::map<std::string, std::vector<std::pair<double, double>>> gap_curves;
  std::vector<std::string> checked;  // what was recomputed, for the reader
  // What could not be, though no file is damaged: an input that was too big to keep.
  std::vector<std::string> unchecked;
  // Of workloads that are shown with their token scale: what the files call them (workloads.h).
  std::map<std::string, std::string> stored_names;
};

inline constexpr size_t kMaxDifferences = 20;

struct RecomputeOptions {
  // Against SHA256SUMS, and that every file is there and whole; off while the directory is still being
  // written.
  bool check_sums = true;
  bool check_samples = true;  // counters' changes against samples/
};

// Refused like results::ReadDirectory.
Result<Recomputed> Recompute(const std::string& directory, const RecomputeOptions& options = {});

}  // namespace poolmark::report

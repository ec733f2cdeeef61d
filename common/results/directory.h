// A results directory read back as far as it can be: each file that cannot be read is named with its reason,
// the others count. Pure but for reading.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/result.h"
#include "common/results/cycle_files.h"
#include "common/results/inputs_file.h"
#include "common/results/job_file.h"
#include "common/results/manifest_file.h"
#include "common/results/plan_file.h"
#include "common/results/repeat_file.h"
#include "common/results/summary_file.h"

namespace poolmark::results {

struct Problem {
  std::string path;  // relative
  std::string message;
};

struct Directory {
  std::string path;
  JobFile job;
  std::optional<ManifestFile> manifest;
  std::optional<PreflightRecord> preflight;
  std::string plan;                 // JSON text; "" : none
  std::optional<PlanFile> planned;  // the same, where it can be read
  std::optional<InputsFile> inputs;
  std::map<int, VerifyRecord> verifies;
  std::map<int, TeardownRecord> teardowns;
  std::vector<RepeatFile> repeats;     // as stored
  std::optional<SummaryFile> summary;  // as stored
  std::vector<Problem> problems;
};

// Refused: a directory without a readable job.json, and one of another schema version (code
// "schema_version").
Result<Directory> ReadDirectory(const std::string& path);

// `RepeatDir` of a repeat, below the directory.
std::string DirectoryOf(const RepeatFile& repeat);

}  // namespace poolmark::results

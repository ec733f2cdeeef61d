// `poolmark workload inspect`: everything about a workload that can be known without an engine. Pure but for
// reading.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/workload/reuse.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

struct Spread {
  double mean = 0;
  int64_t p50 = 0, p90 = 0, p99 = 0, max = 0;
};

struct Inspection {
  std::string shape, format, file, scope;
  uint64_t sessions = 0;
  uint64_t primers = 0;
  Spread prompt, output, turns;
  Nanoseconds span{0};
  std::string level;  // "c4", "r5", "x1": what the working set was taken at
  Reuse reuse;
  std::optional<double> expected_share;     // synthetic and shared prompt: by formula
  std::optional<double> working_set_ratio;  // with a capacity
  std::vector<std::string> notes;
};

// The settings of a file: a JSON object with `shape`, or a trace or session file recognised by its first
// line.
Result<Json> DetectWorkload(const std::string& path);

Result<Inspection> Inspect(const WorkloadSpec& spec, std::optional<uint32_t> block_tokens,
                           std::optional<double> capacity_tokens);

Json ToJson(const Inspection& inspection);
// For people, with the curve as bars.
std::string ToText(const Inspection& inspection);

}  // namespace poolmark::workload

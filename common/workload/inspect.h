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

// What one repeat of the workload would measure, by a timeline without an engine. A shape that holds no load
// is measured whole: window and lifetime are the same requests then.
struct WindowReuse {
  std::string measured_line;  // "Measured over 15 min after a 5 min warm-up"
  bool held = false;
  // Its share() is that of the measured window, share_lifetime() that of all prompts since the cache was
  // empty.
  Reuse reuse;
  std::optional<double> working_set_ratio;
  std::optional<Nanoseconds> runs_out_at;  // no session is left for a free user
};

struct Inspection {
  std::string shape, format, file, scope;
  uint64_t sessions = 0;
  uint64_t primers = 0;
  Spread prompt, output, turns;
  Nanoseconds span{0};
  std::string level;  // "c4", "r5", "x1": what the working set was taken at
  Reuse reuse;        // of all requests of the data set
  WindowReuse window;
  std::optional<double> expected_share;     // synthetic and shared prompt: by formula
  std::optional<double> working_set_ratio;  // with a capacity
  std::vector<std::string> notes;
};

// The settings of a file: a JSON object with `shape`, or a trace or session file recognised by its first
// line. A `file` named in the JSON object is relative to that object's own directory.
Result<Json> DetectWorkload(const std::string& path);

Result<Inspection> Inspect(const WorkloadSpec& spec, std::optional<uint32_t> block_tokens,
                           std::optional<double> capacity_tokens);

Json ToJson(const Inspection& inspection);
// For people, with the curve as bars.
std::string ToText(const Inspection& inspection);

}  // namespace poolmark::workload

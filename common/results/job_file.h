// job.json: what was asked and how it ended. Plain values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/stats/requests.h"

namespace poolmark::results {

struct JobStack {
  std::string name;      // `as`
  std::string use;       // file or catalogue name
  std::string strategy;  // "shared"
  std::string digest;
  std::string vendor;  // "nvidia", "amd", "" (no GPU)
  bool simulated = false;
  std::string compression = "none";
  std::string path;  // "tcp", "rdma"
};

struct JobWorkload {
  std::string name;
  std::string shape;    // "agentic", "shared-prompt", "synthetic", "trace"
  std::string options;  // JSON of workload::OpenSource, without the marker
  std::string input;    // "inputs/mooncake.jsonl", "" : none or too big to keep
  std::string input_sha256;
  std::string token_scale = "1";
  std::vector<std::string> levels;  // "c4", "c16"
};

struct JobFile {
  std::string job_id;
  std::string state;                      // SUCCEEDED, INVALID, FAILED, CANCELLED, REFUSED
  std::string teardown;                   // NONE, CLEAN, DIRTY, UNKNOWN
  std::string reason;                     // why it ended early; "" : it did not
  std::string failed_check;               // of preflight or verification
  std::string submitted, started, ended;  // RFC 3339; "" : never
  std::string submitted_by;
  std::string poolmark_version;
  std::string head;
  std::vector<JobStack> stacks;
  std::string baseline;  // "" : none (M26)
  std::vector<JobWorkload> workloads;
  int repeats = 0;
  std::string starting_state = "empty";
  std::vector<std::string> slo;
  // The presets of that name as they were; nothing: written by a version that kept them in repeat.json alone.
  std::optional<std::vector<stats::Slo>> slo_limits;
  uint64_t seed = 0;
  std::vector<std::string> notes;
};

// As many as a job file can ask for.
inline constexpr int kMostRepeats = 1000;

Result<std::string> Encode(const JobFile& file);
Result<JobFile> DecodeJob(std::string_view text, std::string_view where);

}  // namespace poolmark::results

// Agentic data set replay (M20): recorded coding-agent sessions, one JSON object a line, with sub-agents. The
// format is that of the Weka/AgentX traces (callanjfox/kv-cache-tester). Block ids are kept as differences to
// the request before, so sessions of thousands of blocks a request stay small.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "common/workload/script.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

struct AgenticRequest {
  double start_seconds = 0;              // from the start of the session
  std::optional<double> answer_seconds;  // api_time
  std::optional<double> think_seconds;
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  std::string agent;  // "" for the main agent
  int32_t base = -1;  // an earlier request whose first `shared` blocks this one begins with
  uint32_t shared = 0;
  std::vector<uint64_t> blocks;  // those after the shared ones
  std::vector<uint32_t> after;
};

struct AgenticSession {
  std::string id;
  uint32_t block_tokens = 0;
  bool local_scope = true;               // block ids mean something only inside the session
  std::vector<AgenticRequest> requests;  // by start
};

// Errors name "file:line" and the field.
Result<std::vector<AgenticSession>> ReadAgentic(const std::string& path, std::optional<int64_t> limit);

// A user sends the next round when the last one ends and the recorded think time, scaled and capped, has
// passed. Sub-agents run beside their parent; the parent waits for those that had ended before its next round
// when it was recorded. With a start range, each of the first `concurrency` sessions begins at a drawn round,
// after a primer with the context before it.
std::unique_ptr<Workload> MakeAgentic(const WorkloadSpec& spec, std::vector<AgenticSession> sessions);

}  // namespace poolmark::workload

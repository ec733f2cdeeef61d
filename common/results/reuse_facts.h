// The workload's side of a repeat from the prompts that were sent: for the controller when a repeat ends and
// for `poolmark report` again. Pure but for reading.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/load/record.h"
#include "common/results/repeat_file.h"
#include "common/workload/measure.h"

namespace poolmark::results {

struct WorkloadInput {
  std::string options_json;  // as workload::OpenSource takes it
  std::string file;          // path of its data set; "" : none
  std::string level;         // "c16", "r5", "x2"
  bool warm_pass = false;    // starting state warm: the same prompts were sent once before, unmeasured
};

// One request as a load's prompts count; nothing for one that was not sent or was refused (another status
// than 2xx): no engine has its prompt, which no later one can reuse then.
std::optional<workload::SentRequest> SentOf(const load::RequestRecord& record);
// Reusable share, working set and reuse by cache size over what was sent. `block_tokens` of the engine.
Result<ReuseFacts> MeasureReuse(const WorkloadInput& input, std::vector<workload::SentRequest> sent,
                                double from, double to, uint32_t block_tokens);
// The same over the records of `requests_path`.
Result<ReuseFacts> MeasureReuse(const WorkloadInput& input, const std::string& requests_path, double from,
                                double to, uint32_t block_tokens);
// All of it not measured, for one reason.
ReuseFacts NoReuse(const std::string& reason);

}  // namespace poolmark::results

// The workload's side of a measured repeat: which prompts were sent when, and so what was reusable in the
// measured window. Pure.
#pragma once
#include <vector>

#include "common/load/record.h"
#include "common/workload/reuse.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

// `records` in any order; the window in nanoseconds from the start of the load. Requests that sent nothing
// are left out. `capacity`: see ReuseOptions. The warm-up's prompts count as earlier.
Reuse MeasureReuse(const Workload& workload, const WorkloadSpec& spec,
                   const std::vector<load::RequestRecord>& records, int64_t from, int64_t to,
                   uint32_t block_tokens);

// One request as the file of records has it.
struct SentRequest {
  uint64_t session = 0;
  uint32_t turn = 0;
  double sent = 0, end = 0;  // seconds
  bool primer = false;
};
// `warm_pass`: see ReuseOptions.
Reuse MeasureReuse(const Workload& workload, const WorkloadSpec& spec, std::vector<SentRequest> requests,
                   double from, double to, uint32_t block_tokens, bool warm_pass = false);

}  // namespace poolmark::workload

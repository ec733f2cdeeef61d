// Results of load workers on several machines as one: their records on one clock, in one file, and the
// summary of all. Blocks.
#pragma once
#include <string>
#include <vector>

#include "common/load/summary.h"

namespace poolmark::load {

// What one worker left: requests.jsonl.zst, timeline.jsonl and load.json.
struct WorkerResult {
  std::string directory;
  Nanoseconds clock_offset{0};  // how far its machine's clock is ahead of the common one, where that is known
};

// Writes the same files to `out`. Refused, with nothing written: workers that are not all parts of one plan
// (by its digest), the same worker twice, a missing one, starts that were not the same, a session that
// belongs to another worker, and an `out` that is one of the inputs. Times are shifted by the difference of
// the workers' starts on the common clock (M9). `slo`: nothing means the plan's.
Result<Summary> MergeLoads(const std::vector<WorkerResult>& workers, const std::string& out,
                           const std::optional<Slo>& slo);

}  // namespace poolmark::load

// Results of load workers on several machines as one: their records on one clock, in one file, and the
// summary of all. Blocks.
#pragma once
#include <string>
#include <vector>

#include "common/load/summary.h"

namespace poolmark::load {

// `directories` hold requests.jsonl.zst and load.json of one load each; writes the same files to `out`.
// Times are shifted by the difference of the workers' starts, so their clocks must agree (M9).
Result<Summary> MergeLoads(const std::vector<std::string>& directories, const std::string& out,
                           const std::optional<Slo>& slo);

}  // namespace poolmark::load

// The facts of a repeat held against what else in the directory tells them: the samples of its machines, the
// plan, preflight and the manifest. A fact that stands in repeat.json alone could be any number. Pure but for
// reading.
#pragma once
#include <string>
#include <vector>

#include "common/results/cycle_files.h"
#include "common/results/manifest_file.h"
#include "common/results/plan_file.h"
#include "common/results/repeat_file.h"

namespace poolmark::results {

// What stands beside the samples; what is null is missing, which its reader tells.
struct Witnesses {
  const PlanStack* stack = nullptr;  // of plan.json
  const PreflightRecord* preflight = nullptr;
  const ManifestFile* manifest = nullptr;
};

struct SampleCheck {
  std::vector<std::string> problems;
  std::vector<stats::InvalidReason> reasons;  // what the evidence keeps silent, and samples that are gone
};

// Where the facts say otherwise than the samples below `directory` (the repeat's own) and the witnesses do:
// counter changes of engines and their cache servers, size and use of caches, power, KV that moved, line rate
// and the path it took. One problem each, at most ten of a kind, and one for each machine whose samples are
// missing, damaged or cut. An error for samples of another schema version.
Result<SampleCheck> CompareWithSamples(const RepeatFacts& facts, const Witnesses& witnesses,
                                       const std::string& directory);

}  // namespace poolmark::results

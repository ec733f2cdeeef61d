// After a repeat: its evidence and counters become facts, the facts and the load's records become figures and
// a verdict (common/results), and both become repeat.json. Complete in every case, also for a repeat that
// ended early: it then says why it is invalid.
#pragma once
#include <map>
#include <string>

#include "common/results/repeat_file.h"
#include "controller/steps/benchmark.h"

namespace poolmark::controller {

Result<results::RepeatFile> Collect(const JobRun& run, const StackPlan& stack, const RepeatRecord& record,
                                    const VerifyEvidence& verified);

}  // namespace poolmark::controller

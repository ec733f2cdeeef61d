// After a restart of the controller in the middle of a job: what its preflight found is read back from
// preflight.json, so that later repeats are judged as the earlier ones are. Reads files; used by one runner.
#pragma once
#include "controller/steps/step.h"

namespace poolmark::controller {

// Line rates, the calibration of the network counters, the machines' facts and tools. What was never measured
// stays so.
void RecallPreflight(JobRun* run);

}  // namespace poolmark::controller

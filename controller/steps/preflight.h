// Step 2, Preflight: before anything starts, every machine proves it is ready. Takes the leases, runs the
// agents' checks on all machines at once, judges the pool as a whole and measures the line rate. All failed
// checks are reasons of the outcome; preflight.json has every check with expected, observed, evidence and
// hint.
#pragma once
#include "controller/steps/step.h"

namespace poolmark::controller {

// Fills run->facts and run->work_dirs.
StepOutcome Preflight(JobRun* run);

}  // namespace poolmark::controller

// Between Verify and the first repeat, and between repeats: every tier is cleared and read back (decision
// M22). Where an engine has no gauge that says empty, a prompt that it certainly cached must show no hit;
// where it has no reset, it is restarted. What was read is the repeat's evidence for its starting state.
#pragma once
#include <map>
#include <string>

#include "common/stats/validity.h"
#include "controller/steps/process_watch.h"
#include "controller/steps/step.h"
#include "controller/steps/verify.h"

namespace poolmark::controller {

struct ResetResult {
  stats::StateEvidence state;
  std::vector<std::string> notes;
};

// `tag` makes the request ids unique: "<cycle>/<point>/<repeat>". A process that cannot be reached or
// restarted interrupts the cycle; a tier that still holds something is evidence, not a failure.
StepOutcome ResetPool(JobRun* run, const StackPlan& stack, const std::string& tag,
                      const VerifyEvidence& verified, ProcessWatch* watch, ResetResult* result);

}  // namespace poolmark::controller

// What the plan adds so that every start can be shown to be as declared (decision M22): what has no reset is
// started anew before each repeat, an engine without a gauge that says empty is asked a canary prompt, and
// what can be neither cleared nor read is refused. Pure.
#pragma once
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

// Engines, caches and stores: what a repeat's starting state is about.
bool HoldsKv(const PlannedProcess& process);

// Adds restarts and canaries to the stack's processes, with a note for each, or refusals.
void CompleteStartingState(StackPlan* stack, Errors* refusals, std::vector<std::string>* notes);

}  // namespace poolmark::controller

// What a plan wants of a machine's secrets, beside what the machine said that its allow.yaml gives: told when
// the job is planned, for every machine at once, not when it is launched. Pure.
#pragma once
#include <vector>

#include "common/base/result.h"
#include "controller/stacks/stack_plan.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::controller {

// Fills secrets and BMC logins of `check`; those that the machine does not give are refusals with the line to
// write. That they are there, and what they hold, is preflight's to see.
void PlanSecrets(const PoolMachine& machine, const std::vector<StackPlan>& stacks, v1::CheckPlan* check,
                 Errors* refusals);

}  // namespace poolmark::controller

// Which machines a job gets whose pool file says how many and not which: machines of one GPU family that have
// what the job's stacks ask for, those that nobody holds first. Pure; part of the plan.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "controller/steps/plan.h"

namespace poolmark::controller {

// As many names as the pool file says, the head first: the one that it names, else the first. `held`: what
// other jobs hold or wait for, taken last. The error is a refusal that says what each group of machines
// lacks.
Result<std::vector<std::string>> PickMachines(const spec::JobSpec& job,
                                              const std::vector<MachineFacts>& machines,
                                              const std::set<std::string>& held);

}  // namespace poolmark::controller

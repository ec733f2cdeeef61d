// Part of Verify: what listens now that everything runs. Preflight can only look at a plan; the sockets that
// the job's processes really hold, side channels that no plan lists among them, are looked at after the first
// requests went through. One that can be reached from where it must not fails the verification.
#pragma once
#include <string>
#include <vector>

#include "controller/steps/step.h"

namespace poolmark::controller {

// One check of a machine's agent, under the machine's part of the plan.
Result<v1::CheckResult> AskCheck(JobRun* run, const std::string& machine, const std::string& check);

// One "public_ports" check for each machine, stored as an event and appended to `checks`. A machine that
// cannot be asked is a failed check: unknown is not safe. Nothing is added once `run->stop` fired.
void CheckExposure(JobRun* run, std::vector<v1::CheckResult>* checks);

}  // namespace poolmark::controller

// The evidence of a step as files of the results directory (docs/result-files.md): preflight.json,
// cycles/<n>/verify.json and teardown.json. Atomic writes; errors name the path.
#pragma once
#include <string>
#include <vector>

#include "controller/steps/line_rate.h"
#include "controller/steps/step.h"
#include "controller/steps/teardown.h"
#include "controller/steps/verify.h"

namespace poolmark::controller {

// `passed`: every check let the job go on.
Status WritePreflight(const JobRun& run, const std::vector<v1::CheckResult>& checks,
                      const std::vector<LineRate>& rates, bool passed, Nanoseconds started_wall);
Status WriteVerify(const JobRun& run, uint32_t cycle, const std::string& stack,
                   const VerifyEvidence& evidence, Nanoseconds started_wall);
Status WriteTeardown(const JobRun& run, uint32_t cycle, const std::string& stack, const std::string& cause,
                     const TeardownResult& result, Nanoseconds started_wall);

}  // namespace poolmark::controller

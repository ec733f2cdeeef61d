// What the processes of a stack say of themselves once they run: their versions, against those that the stack
// file is for, and whether they are simulated. Part of Verify.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/steps/step.h"

namespace poolmark::controller {

// Process -> version: from the program, else from the machine's allow-list. Absent where neither tells, with
// a note for whoever could add it; the manifest then says "unknown".
std::map<std::string, std::string> ReadVersions(const JobRun& run, const StackPlan& stack);

// A simulated engine exports another engine's names too: its own series and its version give it away. What it
// gives is never a measurement of a machine (M15).
std::set<std::string> FindSimulated(const JobRun& run, const StackPlan& stack,
                                    const std::map<std::string, std::string>& versions);

// `compatible` of the stack file against `versions`: FAIL with every process that has another one, NOTE where
// one is not known. Nothing where no process asks. Pure.
std::optional<v1::CheckResult> CheckVersions(const StackPlan& stack,
                                             const std::map<std::string, std::string>& versions);

}  // namespace poolmark::controller

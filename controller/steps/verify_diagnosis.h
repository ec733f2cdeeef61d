// Why KV of one machine did not reach another: what can be told from the plan, the counters and the store.
#pragma once
#include <map>
#include <string>

#include "controller/steps/kv_probe.h"

namespace poolmark::controller {

// `writer` computed a prompt, `reader` was asked the same and did not load it; their attributions are of
// those two requests.
// `errors`: "engine: series" of the engines' own error counters, and how far they rose meanwhile.
std::string DiagnoseShared(const JobRun& run, const StackPlan& stack, const PlannedProcess& writer,
                           const PlannedProcess& reader, const stats::EngineAttribution& wrote,
                           const stats::EngineAttribution& read, const std::map<std::string, double>& errors);
std::string DiagnoseSplit(
    const JobRun& run, const StackPlan& stack,
    const std::vector<std::pair<const PlannedProcess*, stats::EngineAttribution>>& decode);

}  // namespace poolmark::controller

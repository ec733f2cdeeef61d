// From the plan to what attribution must know of an engine. The one rule for it: verification, the collected
// facts and `poolmark report` use it alike. Pure.
#pragma once
#include "common/results/plan_file.h"
#include "common/stats/attribution.h"

namespace poolmark::results {

// Without version and counter changes, which are the caller's.
stats::EngineFacts EngineFactsOf(const PlanStack& stack, const PlanProcess& engine);
// The cache server that serves this engine alone, or null.
const PlanProcess* CacheOf(const PlanStack& stack, const PlanProcess& engine);

}  // namespace poolmark::results

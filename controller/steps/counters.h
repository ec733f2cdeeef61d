// What attribution must know of an engine (common/results/engine_facts.h), for the plan as the steps have it;
// the changes of its counters come from common/prom/totals.h. Pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/prom/totals.h"
#include "common/stats/attribution.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

using prom::Difference;
using prom::Totals;
using prom::TotalsOf;

// What the plan says of an engine; deltas and versions are the caller's.
stats::EngineFacts EngineFactsOf(const StackPlan& stack, const PlannedProcess& engine);
bool IsEngine(const PlannedProcess& process);
// The cache server that serves this engine alone, or null.
const PlannedProcess* CacheOf(const StackPlan& stack, const PlannedProcess& engine);

}  // namespace poolmark::controller

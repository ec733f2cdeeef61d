// From metric pages and samples to the changes that attribution adds up (common/stats/attribution.h), and
// from the plan to what it must know of an engine. Pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/prom/parser.h"
#include "common/stats/attribution.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

// The series of a page by name, summed over all labels; labels that split prompt tokens by source stand
// beside as "name{label=value}".
using Totals = std::map<std::string, double>;
Totals TotalsOf(const prom::Page& page);
// The keys of one sample in Totals.
std::vector<std::string> KeysOf(const std::string& name, const prom::Labels& labels);

// after - before. A key that is new counts from 0: engines make series at their first event.
stats::Deltas Difference(const Totals& before, const Totals& after);

// What the plan says of an engine; deltas and versions are the caller's.
stats::EngineFacts EngineFactsOf(const StackPlan& stack, const PlannedProcess& engine);
bool IsEngine(const PlannedProcess& process);
// The cache server that serves this engine alone, or null.
const PlannedProcess* CacheOf(const StackPlan& stack, const PlannedProcess& engine);

}  // namespace poolmark::controller

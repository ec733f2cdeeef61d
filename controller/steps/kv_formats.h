// What shows during a repeat that a reader of a store met KV of another format (decision M13). What the plan
// can see it refuses; this is what is found only later: the engines' own counters of blocks they could not
// use, and cache settings that differ between engines which read each other's KV. Pure.
#pragma once
#include <vector>

#include "common/results/sample_facts.h"
#include "common/stats/validity.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

std::vector<stats::FormatEvidence> FormatsOf(const StackPlan& stack, const results::SampleFacts& samples);

}  // namespace poolmark::controller

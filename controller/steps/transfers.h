// KV bytes between machines over a repeat, from the readers' own counters, beside the line rate of preflight;
// and the network counters that show which path they took (decision M11). Pure.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/steps/sample_facts.h"
#include "controller/steps/step.h"

namespace poolmark::controller {

// One entry for each pair between which the plan moves KV. Bytes that no counter tells, or that a counter
// cannot tell apart between several peers, are not measured and say why.
std::vector<results::TransferFacts> TransfersOf(
    const StackPlan& stack, const SampleFacts& samples,
    const std::map<std::pair<std::string, std::string>, double>& line_rate_bits);

// For each pair what the sender's network cards counted meanwhile, on both kinds of path, read through
// preflight's calibration; without one (the line rate was off) by the device that carries the pool's address.
// A card cannot tell peers apart: each pair gets the part of the sender's bytes that its KV is of all KV that
// this sender moved.
std::vector<stats::PathEvidence> PathsOf(const JobRun& run,
                                         const std::vector<results::TransferFacts>& transfers,
                                         const SampleFacts& samples, bool simulated);

}  // namespace poolmark::controller

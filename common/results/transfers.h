// KV bytes between machines over a repeat, from the readers' own counters, beside the line rate of preflight;
// and the network counters that show which path they took (decision M11). Used when a repeat is collected,
// and when it is judged again from the files. Pure.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/results/path_calibration.h"
#include "common/results/plan_file.h"
#include "common/results/sample_facts.h"

namespace poolmark::results {

// One entry for each pair between which the plan moves KV. Bytes that no counter tells, or that a counter
// cannot tell apart between several peers, are not measured and say why.
std::vector<TransferFacts> TransfersOf(
    const PlanStack& stack, const SampleFacts& samples,
    const std::map<std::pair<std::string, std::string>, double>& line_rate_bits);

// What a machine's network cards sent, by path, of what its counters say; asked where preflight has no
// calibration of it.
using SentBytes =
    std::function<PathBytes(const std::string& machine, const std::map<std::string, double>& counted)>;

// For each pair what the sender's network cards counted meanwhile, on both kinds of path, read through
// preflight's calibration. A card cannot tell peers apart: each pair gets the part of the sender's bytes that
// its KV is of all KV that this sender moved.
std::vector<stats::PathEvidence> PathsOf(const std::vector<TransferFacts>& transfers,
                                         const SampleFacts& samples,
                                         const std::map<std::string, PathCalibration>& calibrations,
                                         const SentBytes& otherwise, bool simulated);
// The part of its sender's bytes that a pair's are.
double ShareOfSender(const std::vector<TransferFacts>& transfers, const TransferFacts& transfer);

}  // namespace poolmark::results

// Every stack against the baseline, point by point. Pure but for `requests`.
#pragma once
#include <string>
#include <vector>

#include "common/results/summarize.h"

namespace poolmark::results {

// Pairs the valid repeats of the same number. The figures compared are those with a direction.
std::vector<SummaryComparison> Compare(const std::string& baseline, const std::vector<RepeatFile>& repeats,
                                       const RequestsOf& requests);

// Two lists of repeats of one point each, from one job or two.
std::vector<SummaryComparison> ComparePoint(const std::vector<const RepeatFile*>& baseline,
                                            const std::vector<const RepeatFile*>& candidate,
                                            const RequestsOf& baseline_requests,
                                            const RequestsOf& candidate_requests);

}  // namespace poolmark::results

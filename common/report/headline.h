// The top of the report: what came out, by workload, with everything that weakens it beside it. Internal to
// this directory; pure.
#pragma once
#include <string>
#include <vector>

#include "common/report/recompute.h"

namespace poolmark::report {

// "base, chat, 6 users".
std::string PointName(const results::SummaryPoint& point);
// By workload, then load level, the baseline first.
std::vector<const results::SummaryPoint*> OrderedPoints(const results::SummaryFile& summary);

// Of the whole job: what holds it back from publication, notes.
std::string JobConcerns(const results::SummaryFile& summary);
// Of one workload: reasons, warnings and notes, each said once with the points it is about.
std::string WorkloadConcerns(const std::string& workload, const results::SummaryFile& summary);
// Headline figures against the baseline, as a picture; "" without one.
std::string HeadlineChanges(const std::string& workload, const results::SummaryFile& summary);
// One row a point with its headline figures and verdicts.
std::string Glance(const results::SummaryFile& summary);

}  // namespace poolmark::report

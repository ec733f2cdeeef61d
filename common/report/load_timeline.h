// The load generator's own timeline of each repeat as a chart: requests in flight, ended and failed, and its
// lateness. Internal to this directory; reads timeline.jsonl beside each repeat.json.
#pragma once
#include <string>
#include <vector>

#include "common/report/chart.h"
#include "common/report/recompute.h"

namespace poolmark::report {

// Of one workload, to choose by level and measure; without series where no timeline can be read.
Chart LoadTimeline(const std::string& workload, const Recomputed& job);

}  // namespace poolmark::report

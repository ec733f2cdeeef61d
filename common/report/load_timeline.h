// The load generator's own timeline as a chart: requests in flight, ended and failed, and its lateness; of a
// job's repeats, or of a load alone. Internal to this directory; reads timeline.jsonl.
#pragma once
#include <string>
#include <vector>

#include "common/report/chart.h"
#include "common/report/recompute.h"

namespace poolmark::report {

struct TimelineOf {
  std::string path;  // of its timeline.jsonl
  Series as;         // label, group, colour and dashes of its line
};
inline constexpr char kTimelineText[] =
    "Its own readings about once a second, each load a line: warm-up and drain included. A lateness that "
    "grows says that the client, not the pool, was the bottleneck.";

// A chart for each measure, called `name` and the measure's; without series where nothing can be read.
std::vector<Chart> TimelineCharts(const std::string& name, const std::vector<TimelineOf>& loads);

// Of one workload, to choose by level and measure; without series where no timeline can be read.
Chart LoadTimeline(const std::string& workload, const Recomputed& job);

}  // namespace poolmark::report

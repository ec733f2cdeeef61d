// report.html: one self-contained page that opens offline, pictures before tables, readable in light and
// dark, wide and narrow, by keyboard and screen reader. Pure but for reading what a repeat's files hold
// beside its figures (timeline.jsonl).
#pragma once
#include <string>
#include <vector>

#include "common/report/chart.h"
#include "common/report/recompute.h"

namespace poolmark::report {

// The page of a job; reads the timelines of its repeats.
std::string ReportPage(const Recomputed& job);

// A page around `body`: head, navigation over `sections` (id, title), Chart.js where there are charts.
std::string Page(const std::string& title, const std::vector<std::pair<std::string, std::string>>& sections,
                 const std::string& body, const std::vector<Chart>& charts);

// Computes the directory again and writes report.html. The controller calls it when a job ends, with
// `check_sums` off, and writes SHA256SUMS after it.
Result<Recomputed> WriteReport(const std::string& directory, const RecomputeOptions& options = {});

}  // namespace poolmark::report

// What the load of a job was: the names of its scenarios with their token scale, their settings, and in what
// they are not what was recorded. Internal to this directory; pure.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/units.h"
#include "common/report/compare.h"
#include "common/report/recompute.h"

namespace poolmark::report {

// By the settings; where they cannot be read by what job.json says of them.
Ratio TokenScaleOf(const results::JobWorkload& workload);
// "moon@1/64" (M21).
std::string ShownName(const results::JobWorkload& workload);
std::string ShownName(const results::JobFile& job, const std::string& workload);

// The job with its workloads called as a reader must see them, "moon@1/64" (M21). Nothing: each is called as
// in the files. Files are then found by StoredDirectory alone.
std::optional<Recomputed> WithScaledNames(const Recomputed& job);
std::optional<JobComparison> WithScaledNames(const JobComparison& comparison);
// Of a repeat of such a job, below its directory.
std::string StoredDirectory(const Recomputed& job, const results::RepeatFile& repeat);

// Where job.json says another token scale than the settings that were used.
void CheckTokenScales(const results::JobFile& job, std::vector<Difference>* differences);

// Over the sentences below.
inline constexpr char kScaledLoad[] = "The load is scaled or cut";
// For beside the figures of that workload: a sentence each, and the same as HTML.
std::vector<std::string> ReplayNotesOf(const results::JobWorkload& workload);
std::string ReplayBox(const results::JobWorkload& workload);
// Every setting of every workload, as HTML and as a line each.
std::string WorkloadsSection(const Recomputed& job);
std::vector<std::string> WorkloadLines(const results::JobFile& job);

}  // namespace poolmark::report

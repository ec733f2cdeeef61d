// From repeats to test points, comparisons and the job's verdict. Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "common/results/compute.h"
#include "common/results/job_file.h"
#include "common/results/manifest_file.h"
#include "common/results/repeat_file.h"
#include "common/results/summary_file.h"

namespace poolmark::results {

// The requests of a repeat's window; nothing where they cannot be read.
using RequestsOf = std::function<std::vector<PairedRequest>(const RepeatFile&)>;

// Without `requests` the comparisons have intervals over repeats, but no paired sessions.
SummaryFile Summarize(const JobFile& job, const ManifestFile& manifest,
                      const std::vector<RepeatFile>& repeats, const RequestsOf& requests = {});

// Directories of the repeats that a job which ran to its end must have, and that are not there: the first of
// them, a damaged job.json may ask for millions.
inline constexpr size_t kMostMissing = 100;
std::vector<std::string> MissingRepeats(const JobFile& job, const std::vector<RepeatFile>& repeats);

// Reads a repeat's requests.jsonl.zst below `results_directory` for Summarize.
RequestsOf RequestsIn(std::string results_directory);

}  // namespace poolmark::results

// Whether the files that a result is made of are there, whole, and say the same: a file that is gone or cut
// is named, also where SHA256SUMS was written anew to fit. Internal to this directory; reads the files.
#pragma once
#include <utility>
#include <vector>

#include "common/report/recompute.h"

namespace poolmark::report {

// inputs/ by inputs.json, events.jsonl by its numbers and its last state, cycles/ by the repeats.
void CheckJobFiles(const results::Directory& directory, std::vector<results::Problem>* problems);

// Share of the pooled gaps to seconds (gap_chart.h); empty where there are none.
using GapPoints = std::vector<std::pair<double, double>>;

// load.json against the repeat's records, timeline.jsonl against load.json. Gives the gaps of the records.
GapPoints CheckLoadFiles(const results::Directory& directory, const results::RepeatFile& repeat,
                         std::vector<results::Problem>* problems, std::vector<Difference>* differences);

// The same without a check: what can be read.
GapPoints GapsOfRepeat(const results::Directory& directory, const results::RepeatFile& repeat);

}  // namespace poolmark::report

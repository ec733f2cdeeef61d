// Whether the files that a result is made of are there, whole, and say the same: a file that is gone or cut
// is named, also where SHA256SUMS was written anew to fit. Internal to this directory; reads the files.
#pragma once
#include <vector>

#include "common/report/recompute.h"

namespace poolmark::report {

// inputs/ by inputs.json, events.jsonl by its numbers and its last state, cycles/ by the repeats.
void CheckJobFiles(const results::Directory& directory, std::vector<results::Problem>* problems);

// load.json against the repeat's records, timeline.jsonl against load.json.
void CheckLoadFiles(const results::Directory& directory, const results::RepeatFile& repeat,
                    std::vector<results::Problem>* problems, std::vector<Difference>* differences);

}  // namespace poolmark::report

// From the facts of a repeat and its requests to its figures: the one place where they are computed, called
// by the controller when a repeat ends and by `poolmark report` again. Pure but for reading the file it is
// given.
#pragma once
#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/load/record.h"
#include "common/results/repeat_file.h"

namespace poolmark::results {

stats::RequestFacts RequestOf(const load::RequestRecord& record);

// Gives the next request; false at the end.
using NextRequest = std::function<Result<bool>(stats::RequestFacts*)>;
Result<RepeatFigures> ComputeRepeat(const RepeatFacts& facts, const NextRequest& next);
// Reads requests.jsonl.zst, one record at a time.
Result<RepeatFigures> ComputeRepeat(const RepeatFacts& facts, const std::string& requests_path);

}  // namespace poolmark::results

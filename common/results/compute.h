// From the facts of a repeat and its requests to its figures: the one place where they are computed, called
// by the controller when a repeat ends and by `poolmark report` again. Pure but for reading the file it is
// given.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/load/record.h"
#include "common/results/repeat_file.h"

namespace poolmark::results {

// One request of a repeat, to pair it with the same session and turn under another stack.
struct PairedRequest {
  uint64_t session = 0;
  uint32_t turn = 0;
  std::optional<double> ttft, tpot;
};

stats::RequestFacts RequestOf(const load::RequestRecord& record);

// Gives the next request; false at the end.
using NextRequest = std::function<Result<bool>(stats::RequestFacts*)>;
Result<RepeatFigures> ComputeRepeat(const RepeatFacts& facts, const NextRequest& next);
// Reads requests.jsonl.zst, one record at a time; keeps those of the window for comparisons where `pairs` is
// given.
Result<RepeatFigures> ComputeRepeat(const RepeatFacts& facts, const std::string& requests_path,
                                    std::vector<PairedRequest>* pairs = nullptr);

}  // namespace poolmark::results

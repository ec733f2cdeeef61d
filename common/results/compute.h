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
#include "common/stats/requests.h"

namespace poolmark::results {

// One request of a repeat, to pair it with the same session and turn under another stack.
struct PairedRequest {
  uint64_t session = 0;
  uint32_t turn = 0;
  std::optional<double> ttft, tpot;
};

// Fills in `out`, whose memory it keeps.
void RequestOf(const load::RequestRecord& record, stats::RequestFacts* out);

// The figures of one repeat, request by request.
class RepeatComputer {
 public:
  explicit RepeatComputer(const RepeatFacts& facts);
  void Add(const stats::RequestFacts& request) { requests_.Add(request); }
  // The same facts; those of the workload's reuse may have come meanwhile.
  RepeatFigures Finish(const RepeatFacts& facts);

 private:
  stats::RequestAccumulator requests_;
};

// The pair of a request that counts; nothing for a primer or one outside the window.
std::optional<PairedRequest> PairOf(const RepeatFacts& facts, const load::RequestRecord& record,
                                    const stats::RequestFacts& request);

// Gives the next request; false at the end.
using NextRequest = std::function<Result<bool>(stats::RequestFacts*)>;
Result<RepeatFigures> ComputeRepeat(const RepeatFacts& facts, const NextRequest& next);
// Reads requests.jsonl.zst, one record at a time; keeps those of the window for comparisons where `pairs` is
// given.
Result<RepeatFigures> ComputeRepeat(const RepeatFacts& facts, const std::string& requests_path,
                                    std::vector<PairedRequest>* pairs = nullptr);

}  // namespace poolmark::results

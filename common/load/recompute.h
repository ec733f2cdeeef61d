// A load's figures again, from its directory: records give what load.json must say. For reports and checks of
// a standalone load; a job's repeats are computed by common/results. Not thread-safe.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/load/record.h"
#include "common/load/summary.h"

namespace poolmark::load {

struct Difference {
  std::string path;  // "ttft_ms.p99"
  std::string stored, computed;
};

struct Recomputed {
  Json stored;  // load.json
  WindowBounds window;
  LoadOptions options;  // as far as load.json gives them
  Accumulator records;
  // From the records; what the program said of itself is as stored. Its mark, its warnings and the notes that
  // explain the mark are at least those which these figures give.
  Summary summary;
  std::vector<Difference>
      differences;  // figures that the records do not give, marks and warnings that are missing
};

// Reads load.json of a directory. Errors say what is missing or of another form.
Result<Recomputed> ReadLoad(const std::string& directory);
// Its records are there to compute from; the error says why they are not.
Status RecordsComplete(const std::string& directory, const Recomputed& load);
// When `load->records` holds them all: the summary, and what is stored otherwise.
void FinishLoad(Recomputed* load);
// Reads its records, each of which `each` sees too, and computes.
Status RecomputeLoad(const std::string& directory, const std::function<void(const RequestRecord&)>& each,
                     Recomputed* load);
// What another copy of the load's summary has otherwise: figures than its records give, all else than its
// load.json says.
std::vector<Difference> DifferencesOf(const Json& summary, const Recomputed& load);

}  // namespace poolmark::load

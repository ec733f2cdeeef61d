// Writes finished records of several loops into one file and keeps what the summary needs. Each loop has
// its own sink (no lock a record); a thread compresses and writes. Sinks must be gone or quiet at Finish.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/load/accumulator.h"
#include "common/load/loop.h"
#include "common/load/shared.h"

namespace poolmark::load {

// Where the first records are when the rest could not be written: "requests.partial.jsonl.zst".
std::string PartialRecords(const std::string& path);

class Recorder {
 public:
  // Empty path: no file. The window begins after `warm_up`, and with a warm-up that is counted in requests
  // or sessions not before `plan` says so.
  static Result<std::unique_ptr<Recorder>> Create(const std::string& path, const SharedPlan& plan,
                                                  int64_t warm_up, bool counted_warm_up);
  ~Recorder();
  // One for each loop; owned by the recorder. `of_several`: other loops of this process have sinks, too, so
  // that what was in flight at once is told from the records.
  RecordSink* NewSink(bool of_several);
  // After the loops ended: writes what is left, syncs and renames. The first error of the writer's thread
  // counts; what was written until then is kept as PartialRecords(), torn off at its end.
  Status Finish();
  // What all sinks saw. After Finish.
  Accumulator TakeTotals();

 private:
  Recorder();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark::load

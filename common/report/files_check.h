// Whether the files that a result is made of are there, whole, and say the same: a file that is gone or cut
// is named, also where SHA256SUMS was written anew to fit. Internal to this directory; reads the files.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/load/recompute.h"
#include "common/report/recompute.h"

namespace poolmark::report {

// inputs/ by inputs.json, events.jsonl by its numbers and its last state, cycles/ by the repeats.
void CheckJobFiles(const results::Directory& directory, std::vector<results::Problem>* problems);

// Share of the pooled gaps to seconds (gap_chart.h); empty where there are none.
using GapPoints = std::vector<std::pair<double, double>>;

// load.json of one repeat against its records, which its owner reads once for all that is made of them, and
// timeline.jsonl against load.json. Without `check` only the gaps of the records are of interest.
class LoadCheck {
 public:
  LoadCheck(const results::Directory& directory, const results::RepeatFile& repeat, bool check,
            std::vector<results::Problem>* problems, std::vector<Difference>* differences);
  void Add(const load::RequestRecord& record) {
    if (load_) load_->records.Add(record, load_->window.start);
  }
  // After the last record, or with the reason why not all could be read.
  GapPoints Finish(const Status& read);

 private:
  void Open(const results::Directory& directory, const results::RepeatFile& repeat);
  void NotAgain(const std::string& why);

  const std::string file_;  // load.json, below the directory
  const bool check_;
  std::vector<results::Problem>* const problems_;
  std::vector<Difference>* const differences_;
  std::optional<load::Recomputed> load_;  // nothing: it has been told why
};

}  // namespace poolmark::report

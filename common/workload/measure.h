// The workload's side of a measured repeat: which prompts were sent when, and so what was reusable in the
// measured window. Pure.
#pragma once
#include <optional>
#include <vector>

#include "common/workload/reuse.h"
#include "common/workload/sent_template.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

struct SentReuse {
  Reuse reuse;
  Template around;  // the words: it is in all figures
  // With live answers: what they were, and what is reusable where the doubtful among them count as new.
  std::optional<AnswerCounts> answers;
  std::optional<Reuse> least;
};

// `requests` in any order; the window in seconds from the start of the load. The warm-up's prompts count as
// earlier. `warm_pass`: see ReuseOptions.
SentReuse MeasureReuse(const Workload& workload, const WorkloadSpec& spec, std::vector<SentRequest> requests,
                       double from, double to, uint32_t block_tokens, bool warm_pass = false);

}  // namespace poolmark::workload

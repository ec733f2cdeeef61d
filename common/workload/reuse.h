// What an ideal cache could reuse of a workload, before any engine runs (M6, M8): the reusable share, the
// working set, and reuse against cache size. Pure.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/measured.h"
#include "common/workload/script.h"
#include "common/workload/timeline.h"

namespace poolmark::workload {

struct ReuseOptions {
  uint32_t block_tokens = 16;  // of the engine; 1: uncut
  bool live_answers = false;   // earlier answers can be reused too
  bool curve = true;
  bool keep_each = false;  // fill Reuse::reusable_of
  // Starting state warm: all the arrivals' prompts were sent once before, unmeasured, into the same caches.
  bool warm_pass = false;
};

struct Reuse {
  // Requests that count; with everything before them as earlier prompts.
  uint64_t requests = 0;
  uint64_t requests_with_reuse = 0;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t reusable_tokens = 0;  // whole blocks
  int64_t reusable_tokens_uncut = 0;
  // All requests.
  uint64_t lifetime_requests = 0;
  int64_t lifetime_prompt_tokens = 0;
  int64_t lifetime_reusable_tokens = 0;
  int64_t lifetime_reusable_tokens_uncut = 0;
  int64_t distinct_tokens = 0;  // of all prompts: what a cache without bound holds at the end
  // The largest number of distinct tokens that the conversations living at one moment hold, answers included.
  int64_t working_set_tokens = 0;
  uint64_t live_conversations = 0;  // most at once
  uint32_t block_tokens = 0;
  // Cache size in tokens -> share of the counting prompts' tokens that an LRU cache of that size serves,
  // which holds what came before them too. In whole blocks: it ends at share().
  std::vector<std::pair<double, double>> curve;
  std::vector<int64_t> reusable_of;  // by arrival, whole blocks
  // Arrivals of turns that their sessions do not have, which are in no other figure: the records are of
  // another workload.
  uint64_t unknown_turns = 0;

  Measured<double> share() const;
  Measured<double> share_uncut() const;
  Measured<double> share_lifetime() const;
  Measured<double> share_lifetime_uncut() const;
};

// `arrivals` by start; those of one instant in the order given.
Reuse Analyse(const Workload& workload, const std::vector<Arrival>& arrivals, const ReuseOptions& options);

// The block size to count in when no engine is named: the workload's own, else 16.
uint32_t DefaultBlockTokens(const Workload& workload);

}  // namespace poolmark::workload

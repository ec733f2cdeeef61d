// The two shapes that follow from settings alone: synthetic sessions (groups that share a prefix) and shared
// prompt with per-user history. Thread-safe.
#pragma once
#include <memory>

#include "common/workload/script.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

// Turn 0 is prefix + history + input; each later turn is the prompt and the answer before it + growth.
// With a rate, requests arrive by a Poisson process at exactly that rate in total: slot n goes to user
// n mod users, who sends the next turn of his session. Without, each user sends when the answer before has
// ended and the think time has passed.
std::unique_ptr<Workload> MakeSessions(const WorkloadSpec& spec);

// The reusable share that follows from the settings (M6): every prompt but the first of a group reuses the
// prefix, every later turn reuses the prompt before it, cut to whole blocks; `block_tokens` 1: uncut.
// With live answers the answer before is reused too.
double ExpectedReusableShare(const WorkloadSpec& spec, uint32_t block_tokens);

}  // namespace poolmark::workload

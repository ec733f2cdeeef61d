// Blend counters that no server can have: what cannot be is not believed, whoever says it. For the run, which
// says so at once, the comparison, which is INVALID then, and verify. Pure, thread-safe.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/quality/types.h"

namespace poolmark::quality {

// "900 tokens were served, of 100 looked up": the served are a part of those that were looked up, as exact
// prefixes or blended (the specification's "of those"), so a share is never above 1. Nothing where it holds.
std::optional<std::string> MoreThanLookedUp(const Counters& counters);

// What contradicts in the counters of a pass: more served than looked up in all, or questions that have more
// than their pass. A single question may have more than it looked up, as a look-up that the server records
// late lands in the next one's. Empty without counters, and where some fell, which CounterReset() tells.
std::vector<std::string> ImpossibleCounters(const Pass& pass);

}  // namespace poolmark::quality

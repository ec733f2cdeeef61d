// What is worth saying beside a verdict: noise, missing passes, engines in trouble, judges that keep silent.
// None of it changes the verdict. Pure, thread-safe.
#pragma once
#include <string>
#include <vector>

#include "common/quality/analyze.h"
#include "common/quality/types.h"

namespace poolmark::quality {

// `candidate` is one of `passes`; `judge` may be null. A line each.
std::vector<std::string> WarningsOf(const std::vector<Pass>& passes, const Pass& candidate,
                                    const Summary& summary, const VerdictSettings& settings,
                                    const JudgeTable* judge);

}  // namespace poolmark::quality

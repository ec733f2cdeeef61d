// What is worth saying beside a verdict: noise, missing passes, engines in trouble, judges that keep silent.
// None of it changes the verdict. Pure, thread-safe.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/quality/analyze.h"
#include "common/quality/types.h"

namespace poolmark::quality {

// `candidate` is one of `passes`; `judge` may be null. A line each.
std::vector<std::string> WarningsOf(const Plan& plan, const std::vector<Pass>& passes, const Pass& candidate,
                                    const Summary& summary, const VerdictSettings& settings,
                                    const JudgeTable* judge);

// Where reference_1 scores 0 throughout, whatever is reused can lose nothing.
std::optional<std::string> NothingToLose(const Summary& summary);

// A warning that the files of a comparison do not give again: about files beside them that were ignored, or
// about answers that a judge left unrated.
bool IsOfTheMoment(std::string_view warning);

}  // namespace poolmark::quality

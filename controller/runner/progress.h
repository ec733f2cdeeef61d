// What of a plan is still to measure, and what a job's repeats say about it. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "controller/jobs/store.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

// The next cycle that has something left, with only that; nothing: all is measured.
std::optional<PlannedCycle> NextCycle(const Plan& plan, const std::vector<StoredRepeat>& done);
// Points without a valid repeat: "base/chat-c16".
std::vector<std::string> PointsWithoutValid(const Plan& plan, const std::vector<StoredRepeat>& done);
uint32_t TotalRepeats(const Plan& plan);
RepeatKey KeyOf(const std::string& stack, const PlannedRepeat& repeat);

}  // namespace poolmark::controller

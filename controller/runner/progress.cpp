#include "controller/runner/progress.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace poolmark::controller {

RepeatKey KeyOf(const std::string& stack, const PlannedRepeat& repeat) {
  return {stack, repeat.workload, repeat.level.Name(), repeat.repeat};
}

std::optional<PlannedCycle> NextCycle(const Plan& plan, const std::vector<StoredRepeat>& done) {
  std::set<RepeatKey> finished;
  for (const StoredRepeat& repeat : done) finished.insert(repeat.key);
  for (const PlannedCycle& cycle : plan.cycles) {
    PlannedCycle left = cycle;
    std::erase_if(left.repeats,
                  [&](const PlannedRepeat& repeat) { return finished.contains(KeyOf(cycle.stack, repeat)); });
    if (!left.repeats.empty()) return left;
  }
  return std::nullopt;
}

std::vector<std::string> PointsWithoutValid(const Plan& plan, const std::vector<StoredRepeat>& done) {
  std::set<std::string> valid;
  auto name = [](const RepeatKey& key) { return absl::StrCat(key.stack, "/", key.workload, "-", key.level); };
  for (const StoredRepeat& repeat : done) {
    if (repeat.valid) valid.insert(name(repeat.key));
  }
  std::vector<std::string> missing;
  for (const PlannedCycle& cycle : plan.cycles) {
    for (const PlannedRepeat& repeat : cycle.repeats) {
      const std::string point = name(KeyOf(cycle.stack, repeat));
      if (!valid.contains(point) && std::find(missing.begin(), missing.end(), point) == missing.end())
        missing.push_back(point);
    }
  }
  return missing;
}

uint32_t TotalRepeats(const Plan& plan) {
  size_t total = 0;
  for (const PlannedCycle& cycle : plan.cycles) total += cycle.repeats.size();
  return static_cast<uint32_t>(total);
}

}  // namespace poolmark::controller

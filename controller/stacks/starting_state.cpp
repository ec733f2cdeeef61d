#include "controller/stacks/starting_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace poolmark::controller {

namespace {

bool IsEngine(spec::Role role) {
  return role == spec::Role::kEngine || role == spec::Role::kPrefill || role == spec::Role::kDecode;
}

}  // namespace

bool HoldsKv(const PlannedProcess& process) {
  return IsEngine(process.role) || process.role == spec::Role::kCache || process.role == spec::Role::kStore;
}

void CompleteStartingState(StackPlan* stack, Errors* refusals, std::vector<std::string>* notes) {
  if (stack->attach && !stack->reset_allowed) return;  // nothing is reset, and the state is not empty
  std::vector<std::string> restarted, asked, unread;
  const auto add = [](const PlannedProcess& process, std::vector<std::string>* names) {
    if (std::find(names->begin(), names->end(), process.template_name) == names->end())
      names->push_back(process.template_name);
  };
  for (PlannedProcess& process : stack->processes) {
    if (!HoldsKv(process)) continue;
    if (process.resets.empty() && !process.restart_to_reset) {
      if (process.attached) {
        refusals->push_back(
            {absl::StatusCode::kFailedPrecondition, "plan", absl::StrCat("stack ", stack->name),
             absl::StrCat("attached process '", process.template_name,
                          "' has no reset and is not ours to restart, so its caches cannot be "
                          "cleared between repeats"),
             "give it a reset, or leave out reset: allow and set starting_state: warm"});
        continue;
      }
      process.restart_to_reset = true;
      add(process, &restarted);
    }
    if (!process.empties.empty() || process.canary) continue;
    if (IsEngine(process.role)) {
      process.canary = true;
      add(process, &asked);
    } else {
      add(process, &unread);
    }
  }
  if (!unread.empty()) {
    // What a cache or a store holds then shows at its engines alone.
    for (PlannedProcess& process : stack->processes) {
      if (!IsEngine(process.role) || process.canary) continue;
      process.canary = true;
      add(process, &asked);
    }
  }
  const auto note = [&](const std::vector<std::string>& names, const std::string& text) {
    if (!names.empty())
      notes->push_back(absl::StrCat("stack ", stack->name, ": ", absl::StrJoin(names, ", "), ": ", text));
  };
  note(restarted, "no reset in the stack file: started anew before every repeat");
  note(unread, "no `empty` in the stack file: what it holds is read by canary prompts of its engines");
  note(asked, "a canary prompt shows before every repeat that nothing is cached");
}

}  // namespace poolmark::controller

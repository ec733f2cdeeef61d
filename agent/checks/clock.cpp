// The machine's own view of its clock. The pool-wide offset is measured over the agent link and judged by the
// controller (decision M9); this check gives the reason when it is off.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/checks/each.h"
#include "agent/facts/clock_state.h"

namespace poolmark::agent {

Finding CheckClock(const v1::CheckPlan&, const CheckContext& context) {
  Finding finding;
  finding.expected =
      "a synchronised clock (the offset from the head is measured by the controller: at most 100 ms)";
  finding.hint = "run an NTP client such as chrony against one source for the whole pool";
  const auto state = ReadClock(context.facts.spawner, context.facts.root, &finding.evidence);
  if (!state) {
    finding.outcome = v1::OUTCOME_NOT_MEASURED;
    finding.observed = "neither chrony nor the kernel says whether the clock is synchronised";
    return finding;
  }
  if (!state->synchronised) {
    finding.outcome = v1::OUTCOME_NOTE;
    finding.observed = absl::StrCat("the ", state->source, " says that the clock is not synchronised");
    return finding;
  }
  if (state->local_source) {
    finding.outcome = v1::OUTCOME_NOTE;
    finding.observed = "chrony follows this machine's own clock, no other source";
    return finding;
  }
  finding.observed = absl::StrCat("synchronised (", state->source, ")");
  if (state->bound_seconds) {
    absl::StrAppend(&finding.observed,
                    absl::StrFormat(", off by at most %.3f ms", *state->bound_seconds * 1000));
    if (*state->bound_seconds > 0.1) {
      finding.outcome = v1::OUTCOME_NOTE;
      return finding;
    }
  }
  finding.hint.clear();
  return finding;
}

}  // namespace poolmark::agent

// Asks again while an agent is away: one that is started again finds its processes as they were and goes on
// with them (F3 of the fault model), so a question that nobody heard is no answer. For questions without an
// effect of their own. Thread-safe.
#pragma once
#include "controller/steps/step.h"

namespace poolmark::controller {

// No answer of an agent, for it cannot be reached. An engine that does not answer its agent is not meant.
inline bool IsAgentAway(const Status& status) {
  return !status.ok() && ErrorOf(status).code == "unavailable";
}

// What `call` gives, once the agent answers; its last error after a lease's time, by when the machine counts
// as lost, or when the step is stopped.
template <class Call>
auto Patiently(const JobRun& run, Call call) -> decltype(call()) {
  const Nanoseconds end = run.clock->Steady() + run.registry->timing().lease;
  for (;;) {
    auto answer = call();
    if (answer.ok() || !IsAgentAway(answer.status()) || run.clock->Steady() >= end ||
        !WaitFor(run.stop, run.timing.poll))
      return answer;
  }
}

}  // namespace poolmark::controller

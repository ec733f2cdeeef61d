// Step 3, Launch: the head starts the shared store, then every machine its cache servers, then its engines,
// then the routers; each stage waits for readiness. The first failure stops the launch; the tear-down that
// follows rolls everything back. The reason has the last lines of the log.
#pragma once
#include "controller/steps/process_watch.h"
#include "controller/steps/step.h"

namespace poolmark::controller {

StepOutcome Launch(JobRun* run, const StackPlan& stack, uint32_t cycle, ProcessWatch* watch);

// Does this process make the directory that all instances of its template share (`disk: {path: …}`)? It
// starts before them, and its machine is torn down after theirs.
bool MakesSharedDirectory(const StackPlan& stack, const PlannedProcess& process);

// Starts one process and takes over the reply; used for restarts between repeats and for the load too.
Status StartOne(JobRun* run, const std::string& machine, const v1::ProcessSpec& spec,
                const std::string& request, ProcessWatch* watch);

// Why a process is gone, as a reason, with the end of its log where the agent's message has none.
// How long an agent may take to say that the process is ready or has failed: it extends the time that the
// stack file gives while the log grows, up to three times.
Nanoseconds ReadyWithin(const JobRun& run, const v1::ProcessSpec& spec);
// It said neither, but beats.
StepOutcome NotTold(const std::string& id, const std::string& machine, Nanoseconds within);
v1::Reason DeathReason(JobRun* run, const ProcessWatch::Death& death, const std::string& code);

}  // namespace poolmark::controller

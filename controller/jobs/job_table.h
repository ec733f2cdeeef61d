// The life of a job as a table: (state, event, pending outcome) -> next state, action, new pending outcome.
// Pure and thread-safe. The runner interprets it and does nothing that is not in it; docs/lifecycle.md is
// printed from it. Whatever happens after the machines are locked leaves through TEARING_DOWN, and what
// comes after the tear-down (the pending outcome) is stored before the tear-down begins.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "poolmark/v1/controller.pb.h"

namespace poolmark::controller {

enum class JobEventKind {
  kPlanAccepted,     // the plan works
  kPlanRefused,      // it does not: all refusals are the job's reasons
  kLocked,           // all machines of the plan are locked for this job
  kPassed,           // the step of this state ended well
  kMoreInCycle,      // a repeat is stored, and the cycle has another one
  kCycleDone,        // the cycle's repeats are stored, others need a new launch
  kFinishedValid,    // everything is measured: every point has a valid repeat
  kFinishedInvalid,  // everything is measured: a point has none
  kInterrupted,      // the repeat is void, the job goes on with a new cycle
  kFailed,           // a check, a process or a call failed for good
  kMachineLost,      // a machine is gone for good
  kCancel,
  kRestarted,       // the controller came back and found the job in this state
  kRestartedToEnd,  // the same, and the job was submitted with --no-continue
  kTornDown,        // every ledger item is proven gone
  kLeftovers,       // something is left or could not be looked at
};
inline constexpr int kJobEventKinds = static_cast<int>(JobEventKind::kLeftovers) + 1;

// What follows the tear-down that runs now.
enum class Pending { kNone, kNextCycle, kSucceeded, kInvalid, kFailed, kCancelled };
inline constexpr int kPendings = static_cast<int>(Pending::kCancelled) + 1;

// What the runner does on entering the state.
enum class Action {
  kNone,
  kPlan,
  kWaitForMachines,
  kPreflight,
  kLaunch,
  kVerify,
  kBenchmark,
  kCollect,
  kTearDown,
  kFinish,  // write what the results directory still lacks, release the machines
};

struct Transition {
  v1::JobState next = v1::JOB_STATE_UNSPECIFIED;
  Action action = Action::kNone;
  Pending pending = Pending::kNone;
};

// A row; `when` restricts it to one pending outcome, `set` replaces the pending outcome.
struct Row {
  v1::JobState state;
  JobEventKind event;
  std::optional<Pending> when;
  v1::JobState next;
  Action action;
  std::optional<Pending> set;
};
std::span<const Row> JobTable();

// Nothing: the event means nothing in this state and changes nothing (a late or repeated event).
std::optional<Transition> Next(v1::JobState state, JobEventKind event, Pending pending);

// What the controller raises by itself when nobody says anything, so that no job stays where it is; nothing
// for terminal states. A job in QUEUED stays there as long as its machines are not free: it is looked at
// again.
struct Deadline {
  std::string_view after;             // how long, and of what
  std::optional<JobEventKind> event;  // none: it is looked at again
};
std::optional<Deadline> DeadlineOf(v1::JobState state);

bool IsTerminal(v1::JobState state);
// The states in which machines are locked.
bool HoldsMachines(v1::JobState state);
// PREFLIGHT … TEARING_DOWN: what to do when the controller finds a job in that state at its start.
JobEventKind RestartEvent(bool no_continue);
Action ActionOf(v1::JobState state);

std::string StateName(v1::JobState state);  // "PREFLIGHT"
std::string EventName(JobEventKind event);
std::string PendingName(Pending pending);
std::optional<Pending> PendingFromName(std::string_view name);
std::string ActionName(Action action);

// docs/lifecycle.md.
std::string LifecycleMarkdown();

}  // namespace poolmark::controller

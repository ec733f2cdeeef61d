#include "controller/jobs/job_table.h"

#include <array>

namespace poolmark::controller {
namespace {

using E = JobEventKind;
using P = Pending;
using A = Action;
constexpr auto kAny = std::nullopt;
constexpr auto kKeep = std::nullopt;

constexpr v1::JobState kSubmitted = v1::JOB_STATE_SUBMITTED;
constexpr v1::JobState kQueued = v1::JOB_STATE_QUEUED;
constexpr v1::JobState kPreflight = v1::JOB_STATE_PREFLIGHT;
constexpr v1::JobState kLaunching = v1::JOB_STATE_LAUNCHING;
constexpr v1::JobState kVerifying = v1::JOB_STATE_VERIFYING;
constexpr v1::JobState kBenchmarking = v1::JOB_STATE_BENCHMARKING;
constexpr v1::JobState kCollecting = v1::JOB_STATE_COLLECTING;
constexpr v1::JobState kTearingDown = v1::JOB_STATE_TEARING_DOWN;
constexpr v1::JobState kSucceeded = v1::JOB_STATE_SUCCEEDED;
constexpr v1::JobState kInvalid = v1::JOB_STATE_INVALID;
constexpr v1::JobState kFailedState = v1::JOB_STATE_FAILED;
constexpr v1::JobState kCancelled = v1::JOB_STATE_CANCELLED;
constexpr v1::JobState kRefused = v1::JOB_STATE_REFUSED;

constexpr Row kRows[] = {
    // Nothing is locked yet: these end at once.
    {kSubmitted, E::kPlanAccepted, kAny, kQueued, A::kWaitForMachines, kKeep},
    {kSubmitted, E::kPlanRefused, kAny, kRefused, A::kFinish, kKeep},
    {kSubmitted, E::kFailed, kAny, kFailedState, A::kFinish, kKeep},
    {kSubmitted, E::kCancel, kAny, kCancelled, A::kFinish, kKeep},
    {kSubmitted, E::kRestarted, kAny, kSubmitted, A::kPlan, kKeep},
    {kSubmitted, E::kRestartedToEnd, kAny, kSubmitted, A::kPlan, kKeep},
    {kQueued, E::kLocked, kAny, kPreflight, A::kPreflight, kKeep},
    {kQueued, E::kPlanRefused, kAny, kRefused, A::kFinish, kKeep},
    {kQueued, E::kFailed, kAny, kFailedState, A::kFinish, kKeep},
    {kQueued, E::kCancel, kAny, kCancelled, A::kFinish, kKeep},
    {kQueued, E::kRestarted, kAny, kQueued, A::kWaitForMachines, kKeep},
    {kQueued, E::kRestartedToEnd, kAny, kQueued, A::kWaitForMachines, kKeep},
    // Machines are locked: every way out is the tear-down.
    {kPreflight, E::kPassed, kAny, kLaunching, A::kLaunch, kKeep},
    {kPreflight, E::kFailed, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kPreflight, E::kMachineLost, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kPreflight, E::kCancel, kAny, kTearingDown, A::kTearDown, P::kCancelled},
    {kPreflight, E::kRestarted, kAny, kPreflight, A::kPreflight, kKeep},
    {kPreflight, E::kRestartedToEnd, kAny, kPreflight, A::kPreflight, kKeep},
    {kLaunching, E::kPassed, kAny, kVerifying, A::kVerify, kKeep},
    {kLaunching, E::kFailed, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kLaunching, E::kInterrupted, kAny, kTearingDown, A::kTearDown, P::kNextCycle},
    {kLaunching, E::kMachineLost, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kLaunching, E::kCancel, kAny, kTearingDown, A::kTearDown, P::kCancelled},
    {kLaunching, E::kRestarted, kAny, kTearingDown, A::kTearDown, P::kNextCycle},
    {kLaunching, E::kRestartedToEnd, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kVerifying, E::kPassed, kAny, kBenchmarking, A::kBenchmark, kKeep},
    {kVerifying, E::kFailed, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kVerifying, E::kInterrupted, kAny, kTearingDown, A::kTearDown, P::kNextCycle},
    {kVerifying, E::kMachineLost, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kVerifying, E::kCancel, kAny, kTearingDown, A::kTearDown, P::kCancelled},
    {kVerifying, E::kRestarted, kAny, kTearingDown, A::kTearDown, P::kNextCycle},
    {kVerifying, E::kRestartedToEnd, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kBenchmarking, E::kPassed, kAny, kCollecting, A::kCollect, kKeep},
    {kBenchmarking, E::kFailed, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kBenchmarking, E::kFinishedValid, kAny, kTearingDown, A::kTearDown, P::kSucceeded},
    {kBenchmarking, E::kFinishedInvalid, kAny, kTearingDown, A::kTearDown, P::kInvalid},
    {kBenchmarking, E::kInterrupted, kAny, kTearingDown, A::kTearDown, P::kNextCycle},
    {kBenchmarking, E::kMachineLost, kAny, kTearingDown, A::kTearDown, P::kInvalid},
    {kBenchmarking, E::kCancel, kAny, kTearingDown, A::kTearDown, P::kCancelled},
    {kBenchmarking, E::kRestarted, kAny, kTearingDown, A::kTearDown, P::kNextCycle},
    {kBenchmarking, E::kRestartedToEnd, kAny, kTearingDown, A::kTearDown, P::kInvalid},
    {kCollecting, E::kMoreInCycle, kAny, kBenchmarking, A::kBenchmark, kKeep},
    {kCollecting, E::kCycleDone, kAny, kTearingDown, A::kTearDown, P::kNextCycle},
    {kCollecting, E::kFinishedValid, kAny, kTearingDown, A::kTearDown, P::kSucceeded},
    {kCollecting, E::kFinishedInvalid, kAny, kTearingDown, A::kTearDown, P::kInvalid},
    {kCollecting, E::kFailed, kAny, kTearingDown, A::kTearDown, P::kFailed},
    {kCollecting, E::kInterrupted, kAny, kTearingDown, A::kTearDown, P::kNextCycle},
    {kCollecting, E::kMachineLost, kAny, kTearingDown, A::kTearDown, P::kInvalid},
    {kCollecting, E::kCancel, kAny, kTearingDown, A::kTearDown, P::kCancelled},
    {kCollecting, E::kRestarted, kAny, kTearingDown, A::kTearDown, P::kNextCycle},
    {kCollecting, E::kRestartedToEnd, kAny, kTearingDown, A::kTearDown, P::kInvalid},
    // A tear-down is never given up. What is already decided stands; only "another cycle" can be taken back.
    {kTearingDown, E::kRestarted, kAny, kTearingDown, A::kTearDown, kKeep},
    {kTearingDown, E::kRestartedToEnd, P::kNextCycle, kTearingDown, A::kTearDown, P::kInvalid},
    {kTearingDown, E::kRestartedToEnd, kAny, kTearingDown, A::kTearDown, kKeep},
    {kTearingDown, E::kCancel, P::kNextCycle, kTearingDown, A::kNone, P::kCancelled},
    {kTearingDown, E::kMachineLost, P::kNextCycle, kTearingDown, A::kNone, P::kInvalid},
    {kTearingDown, E::kTornDown, P::kNextCycle, kLaunching, A::kLaunch, P::kNone},
    {kTearingDown, E::kTornDown, P::kSucceeded, kSucceeded, A::kFinish, kKeep},
    {kTearingDown, E::kTornDown, P::kInvalid, kInvalid, A::kFinish, kKeep},
    {kTearingDown, E::kTornDown, P::kFailed, kFailedState, A::kFinish, kKeep},
    {kTearingDown, E::kTornDown, P::kCancelled, kCancelled, A::kFinish, kKeep},
    {kTearingDown, E::kLeftovers, P::kNextCycle, kFailedState, A::kFinish, P::kFailed},
    {kTearingDown, E::kLeftovers, P::kSucceeded, kSucceeded, A::kFinish, kKeep},
    {kTearingDown, E::kLeftovers, P::kInvalid, kInvalid, A::kFinish, kKeep},
    {kTearingDown, E::kLeftovers, P::kFailed, kFailedState, A::kFinish, kKeep},
    {kTearingDown, E::kLeftovers, P::kCancelled, kCancelled, A::kFinish, kKeep},
};

}  // namespace

std::span<const Row> JobTable() {
  return kRows;
}

std::optional<Transition> Next(v1::JobState state, JobEventKind event, Pending pending) {
  const Row* best = nullptr;
  for (const Row& row : kRows) {
    if (row.state != state || row.event != event) continue;
    if (row.when && *row.when != pending) continue;
    if (best == nullptr || row.when) best = &row;
  }
  if (best == nullptr) return std::nullopt;
  return Transition{best->next, best->action, best->set.value_or(pending)};
}

std::optional<Deadline> DeadlineOf(v1::JobState state) {
  switch (state) {
    case kSubmitted:
      return Deadline{"one second: the plan is made", E::kPlanAccepted};
    case kQueued:
      return Deadline{"one second, and whenever a machine, its holder or its state changes", std::nullopt};
    case kPreflight:
      return Deadline{"the deadline of each call (checks 120 s, a line measurement 90 s)", E::kFailed};
    case kLaunching:
      return Deadline{"three times the `ready.within` of a process and 60 s, in each stage", E::kInterrupted};
    case kVerifying:
      return Deadline{"the deadline of each call (a probe 120 s); KV that is to arrive: 20 s", E::kFailed};
    case kBenchmarking:
      return Deadline{"no progress of the load for 60 s (120 s until its first), no token for `load.stall`",
                      E::kInterrupted};
    case kCollecting:
      return Deadline{"the deadline of each call (a file 3600 s, five times)", E::kInterrupted};
    case kTearingDown:
      return Deadline{"ten answers without a verdict, or 85 s of silence: the verdict is UNKNOWN",
                      E::kLeftovers};
    default:
      return std::nullopt;
  }
}

bool IsTerminal(v1::JobState state) {
  return state == kSucceeded || state == kInvalid || state == kFailedState || state == kCancelled ||
         state == kRefused;
}

bool HoldsMachines(v1::JobState state) {
  return state == kPreflight || state == kLaunching || state == kVerifying || state == kBenchmarking ||
         state == kCollecting || state == kTearingDown;
}

JobEventKind RestartEvent(bool no_continue) {
  return no_continue ? E::kRestartedToEnd : E::kRestarted;
}

Action ActionOf(v1::JobState state) {
  switch (state) {
    case kSubmitted:
      return A::kPlan;
    case kQueued:
      return A::kWaitForMachines;
    case kPreflight:
      return A::kPreflight;
    case kLaunching:
      return A::kLaunch;
    case kVerifying:
      return A::kVerify;
    case kBenchmarking:
      return A::kBenchmark;
    case kCollecting:
      return A::kCollect;
    case kTearingDown:
      return A::kTearDown;
    default:
      return A::kNone;
  }
}

std::string StateName(v1::JobState state) {
  if (!v1::JobState_IsValid(state)) return "UNKNOWN";
  return v1::JobState_Name(state).substr(sizeof("JOB_STATE_") - 1);
}

std::string EventName(JobEventKind event) {
  static constexpr std::array<std::string_view, kJobEventKinds> kNames = {"plan accepted",
                                                                          "plan refused",
                                                                          "machines locked",
                                                                          "step passed",
                                                                          "more in cycle",
                                                                          "cycle done",
                                                                          "finished, valid",
                                                                          "finished, invalid",
                                                                          "interrupted",
                                                                          "failed",
                                                                          "machine lost",
                                                                          "cancel",
                                                                          "controller restarted",
                                                                          "controller restarted, no continue",
                                                                          "torn down",
                                                                          "leftovers"};
  return std::string(kNames[static_cast<size_t>(event)]);
}

std::string PendingName(Pending pending) {
  static constexpr std::array<std::string_view, kPendings> kNames = {"none",    "next cycle", "succeeded",
                                                                     "invalid", "failed",     "cancelled"};
  return std::string(kNames[static_cast<size_t>(pending)]);
}

std::optional<Pending> PendingFromName(std::string_view name) {
  for (int i = 0; i < kPendings; ++i) {
    if (PendingName(static_cast<Pending>(i)) == name) return static_cast<Pending>(i);
  }
  return std::nullopt;
}

std::string ActionName(Action action) {
  static constexpr std::string_view kNames[] = {"nothing",   "plan",   "wait for machines", "preflight",
                                                "launch",    "verify", "benchmark",         "collect",
                                                "tear down", "finish"};
  return std::string(kNames[static_cast<size_t>(action)]);
}

}  // namespace poolmark::controller

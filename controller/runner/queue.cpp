#include "controller/runner/queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "controller/jobs/job_table.h"
#include "controller/runner/cancelled.h"
#include "controller/steps/room.h"

namespace poolmark::controller {
namespace {

// What changes without a word (free disk and memory, ports, room here) is looked at again so often.
constexpr Nanoseconds kPlanAgain = std::chrono::seconds(5);
// A job that takes any machines and waits for held ones: what would keep it from a free one may have gone.
constexpr Nanoseconds kPickAgain = std::chrono::seconds(60);

std::vector<v1::Reason> ReasonsOf(const Errors& errors) {
  std::vector<v1::Reason> reasons;
  for (const Error& error : errors)
    reasons.push_back(
        MakeReason(error.code.empty() ? "plan" : error.code, std::string(ToStatus(error).message())));
  return reasons;
}

}  // namespace

JobQueue::JobQueue(const Environment& environment, Start start, Finish finish)
    : environment_(environment), start_(std::move(start)), finish_(std::move(finish)) {}

void JobQueue::Step() {
  auto jobs = environment_.store->Unfinished();
  if (!jobs.ok()) {
    Log(LogLevel::kError, "queue.store", {{"error", std::string(jobs.status().message())}});
    return;
  }
  const auto submitted = [](const StoredJob& job) { return job.job.state() == v1::JOB_STATE_SUBMITTED; };
  if (std::any_of(jobs->begin(), jobs->end(), submitted)) {
    for (const StoredJob& job : *jobs) {
      if (submitted(job)) PlanSubmitted(job);
    }
    jobs = environment_.store->Unfinished();
    if (!jobs.ok()) return;
  }
  // The store's word: a machine's job is the one that locked it, until it has ended.
  Machines machines;
  std::set<std::string> queued;
  for (const StoredJob& job : *jobs) {
    if (job.job.state() == v1::JOB_STATE_QUEUED) queued.insert(job.job.id());
    if (!HoldsMachines(job.job.state())) continue;
    for (const std::string& machine : job.job.machines()) machines.holders[machine] = job.job.id();
  }
  std::erase_if(waiting_, [&](const auto& entry) { return !queued.contains(entry.first); });
  if (queued.empty()) return;
  for (const v1::Machine& machine : environment_.registry->List(false)) {
    const bool busy = machine.state() == v1::MACHINE_STATE_BUSY;
    machines.states[machine.name()] = busy ? v1::MACHINE_STATE_READY : machine.state();
  }
  for (const StoredJob& job : *jobs) {
    if (job.job.state() != v1::JOB_STATE_QUEUED) continue;
    for (const std::string& machine : TryLock(job, &machines)) machines.reserved.insert(machine);
  }
}

void JobQueue::EndCancelled(const StoredJob& job) {
  Change change;
  change.reasons.push_back(CancelledReason(WhoCancelled(*environment_.store, job.job.id())));
  finish_(job, JobEventKind::kCancel, change);
}

void JobQueue::PlanSubmitted(const StoredJob& job) {
  if (job.job.cancel_requested()) return EndCancelled(job);
  Errors errors;
  ++plans_;
  auto planned = PlanJob(environment_, job.request, job.job.id(), &errors);
  if (!planned.ok()) {
    if (errors.empty()) errors.push_back(ErrorOf(planned.status()));
    // It could work at submit: a machine that went away meanwhile is waited for, like one that is busy.
    if (IsInputError(errors)) return Refuse(job, errors);
  }
  Change change;
  if (planned.ok()) {
    change.estimated_ns = (*planned)->plan.estimate.count();
    for (const std::string& machine : (*planned)->plan.machines)
      absl::StrAppend(&change.message, change.message.empty() ? "plan accepted: " : ", ", machine);
    if ((*planned)->names_machines) waiting_[job.job.id()].named = (*planned)->plan.machines;
  }
  (void)environment_.store->Apply(job.job.id(), JobEventKind::kPlanAccepted, change);
}

std::set<std::string> JobQueue::TryLock(const StoredJob& job, Machines* machines) {
  if (job.job.cancel_requested()) {
    EndCancelled(job);
    return {};
  }
  Waiting& waiting = waiting_[job.job.id()];
  if (!NothingNew(job, *machines, &waiting)) PlanAndLock(job, machines, &waiting);
  return waiting.wanted;
}

bool JobQueue::NothingNew(const StoredJob& job, const Machines& machines, Waiting* waiting) {
  // Nothing to plan while others have what the pool file names.
  for (const std::string& machine : waiting->named) {
    const auto holder = machines.holders.find(machine);
    const bool held = holder != machines.holders.end();
    if (!held && !machines.reserved.contains(machine)) continue;
    waiting->wanted = {waiting->named.begin(), waiting->named.end()};
    SayWaiting(job, held ? absl::StrCat("machine ", machine, " is held by job ", holder->second)
                         : absl::StrCat("machine ", machine, " is wanted by an earlier job"));
    return true;
  }
  std::string now;
  for (const auto& [name, state] : machines.states) {
    if (!waiting->named.empty() &&
        std::find(waiting->named.begin(), waiting->named.end(), name) == waiting->named.end())
      continue;
    const auto holder = machines.holders.find(name);
    absl::StrAppend(&now, name, " ", v1::MachineState_Name(state), " ",
                    holder == machines.holders.end() ? "" : holder->second,
                    machines.reserved.contains(name) ? " reserved\n" : "\n");
  }
  const Nanoseconds time = environment_.clock->Steady();
  const Nanoseconds again = waiting->held ? kPickAgain : kPlanAgain;
  if (waiting->tried.count() != 0 && waiting->seen == now && time - waiting->tried < again) return true;
  waiting->seen = std::move(now);
  waiting->tried = time;
  return false;
}

void JobQueue::PlanAndLock(const StoredJob& job, Machines* known, Waiting* waiting) {
  waiting->wanted.clear();
  waiting->held = false;
  // Who has let go of a machine is known there only a moment after the store has it.
  (void)environment_.registry->Refresh();
  Errors errors;
  ++plans_;
  auto planned =
      PlanJob(environment_, job.request, job.job.id(), &errors, FactsFrom::kAgents, known->reserved);
  if (!planned.ok()) {
    if (errors.empty()) errors.push_back(ErrorOf(planned.status()));
    const bool may_change = !IsInputError(errors) &&
                            std::all_of(errors.begin(), errors.end(),
                                        [](const Error& error) { return error.where.rfind("pool", 0) == 0; });
    if (!may_change) return Refuse(job, errors);
    return SayWaiting(job, std::string(ToStatus(errors.front()).message()));
  }
  const std::vector<std::string>& machines = (*planned)->plan.machines;
  if ((*planned)->names_machines) waiting->named = machines;
  waiting->wanted = {machines.begin(), machines.end()};
  for (const std::string& machine : machines) {
    if (!known->reserved.contains(machine)) continue;
    waiting->held = true;
    return SayWaiting(job, absl::StrCat("machine ", machine, " is wanted by an earlier job"));
  }
  // All of them must answer now: a lock on a silent machine would only fail its preflight.
  for (const std::string& machine : machines) {
    auto now = environment_.registry->Get(machine);
    if (now.ok() && (now->state() == v1::MACHINE_STATE_SUSPECT || now->state() == v1::MACHINE_STATE_LOST))
      return SayWaiting(job, absl::StrCat("machine ", machine, ": ", now->reason()));
  }
  if (Status room = RoomForJob(environment_.state_dir); !room.ok())
    return SayWaiting(job, std::string(room.message()));
  std::string blocked;
  auto locked = environment_.store->Lock(job.job.id(), machines, &blocked);
  if (!locked.ok()) {
    Log(LogLevel::kError, "queue.lock",
        {{"job", job.job.id()}, {"error", std::string(locked.status().message())}});
    return;
  }
  if (!*locked) {
    waiting->held = std::any_of(machines.begin(), machines.end(),
                                [&](const std::string& machine) { return known->holders.contains(machine); });
    return SayWaiting(job, blocked);
  }
  for (const std::string& machine : machines) known->holders[machine] = job.job.id();
  if (Status kept = environment_.registry->KeepFacts(machines); !kept.ok())
    Log(LogLevel::kError, "machine.facts_kept", {{"error", std::string(kept.message())}});
  (void)environment_.registry->Refresh();
  waiting->wanted.clear();
  start_(job.job.id(), std::move(*planned));
}

void JobQueue::SayWaiting(const StoredJob& job, const std::string& what) {
  if (job.job.waiting_for() == what) return;
  Change change;
  change.waiting_for = what;
  change.message = absl::StrCat("waits: ", what);
  (void)environment_.store->Update(job.job.id(), change);
}

void JobQueue::Refuse(const StoredJob& job, const Errors& errors) {
  Change change;
  change.reasons = ReasonsOf(errors);
  finish_(job, JobEventKind::kPlanRefused, change);
}

}  // namespace poolmark::controller

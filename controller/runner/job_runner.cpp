#include "controller/runner/job_runner.h"

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/prom/evidence.h"
#include "controller/runner/cancelled.h"
#include "controller/runner/progress.h"
#include "controller/runner/recall.h"
#include "controller/runner/results_writer.h"
#include "controller/steps/collect.h"
#include "controller/steps/evidence_json.h"
#include "controller/steps/fetch.h"
#include "controller/steps/launch.h"
#include "controller/steps/preflight.h"
#include "controller/steps/teardown.h"

namespace poolmark::controller {
namespace {

constexpr uint32_t kMaxIdleCycles = 3;
constexpr char kNoPlan[] =
    "after the controller's restart the job cannot be planned any more; its log says why (job.plan_lost)";

// A store that cannot be written is met with patience: the job must not lose its tear-down over a full disk.
template <class Call>
auto Insist(const std::stop_token& shutdown, Call call) -> decltype(call()) {
  for (;;) {
    auto result = call();
    if (result.ok() || shutdown.stop_requested()) return result;
    Log(LogLevel::kError, "store.write_failed", {{"error", std::string(result.status().message())}});
    if (!WaitFor(shutdown, std::chrono::seconds(1))) return result;
  }
}

}  // namespace

JobRunner::JobRunner(const Environment& environment, const std::string& job_id,
                     std::unique_ptr<PlannedJob> planned)
    : environment_(environment),
      job_id_(job_id),
      planned_(std::move(planned)),
      manifest_(ResultsDir(environment, job_id), job_id, environment.catalogue_dir,
                JoinPath(environment.state_dir, prom::kEvidenceFile)) {
  run_.job_id = job_id;
  run_.registry = environment.registry;
  run_.clock = environment.clock;
  run_.timing = environment.timing;
  run_.state_dir = environment.state_dir;
  run_.results_dir = ResultsDir(environment, job_id);
  run_.catalogue_dir = environment.catalogue_dir;
  run_.event = [this](v1::JobEvent event) {
    auto stored = environment_.store->AppendEvent(job_id_, std::move(event));
    if (!stored.ok())
      Log(LogLevel::kError, "event.lost",
          {{"job", job_id_}, {"error", std::string(stored.status().message())}});
  };
  run_.tick = [this](v1::JobEvent event) { environment_.hub->Publish(job_id_, event); };
  run_.force = [this] {
    std::lock_guard lock(mutex_);
    return force_;
  };
}

void JobRunner::Cancel(bool force, const std::string& who) {
  std::lock_guard lock(mutex_);
  cancel_ = true;
  cancelled_by_ = who;
  force_ = force_ || force;
  step_stop_.request_stop();
}

void JobRunner::MachineLost(const std::string& machine) {
  std::lock_guard lock(mutex_);
  if (lost_machine_.empty()) lost_machine_ = machine;
  step_stop_.request_stop();
}

std::vector<LiveProcess> JobRunner::LiveProcesses() {
  std::lock_guard lock(mutex_);
  return live_;
}

void JobRunner::ArmStop() {
  std::lock_guard lock(mutex_);
  step_stop_ = std::stop_source();
  if (cancel_ || !lost_machine_.empty() || shutdown_.stop_requested()) step_stop_.request_stop();
  run_.stop = step_stop_.get_token();
}

std::optional<JobRunner::Decision> JobRunner::Stopped() {
  if (shutdown_.stop_requested()) return std::nullopt;
  std::lock_guard lock(mutex_);
  Decision decision{JobEventKind::kCancel, {}};
  if (!lost_machine_.empty()) {
    decision.event = JobEventKind::kMachineLost;
    decision.change.reasons.push_back(MakeReason(
        "machine_lost", absl::StrCat("machine ", lost_machine_, " stopped responding"), lost_machine_));
    lost_machine_.clear();
  } else {
    decision.change.reasons.push_back(CancelledReason(cancelled_by_));
  }
  return decision;
}

std::optional<JobRunner::Decision> JobRunner::Decide(const StepOutcome& outcome) {
  // While the controller ends, a call may fail of it before the step hears of it: no fault of the pool.
  if (!outcome.passed() && shutdown_.stop_requested()) return std::nullopt;
  switch (outcome.kind) {
    case StepOutcome::Kind::kPassed:
      return Decision{JobEventKind::kPassed, {}};
    case StepOutcome::Kind::kStopped:
      return Stopped();
    default:
      break;
  }
  Decision decision{JobEventKind::kFailed, {}};
  decision.change.reasons = outcome.reasons;
  if (outcome.kind == StepOutcome::Kind::kInterrupted && !no_continue())
    decision.event = JobEventKind::kInterrupted;
  return decision;
}

void JobRunner::Run(std::stop_token shutdown) {
  shutdown_ = shutdown;
  run_.shutdown = shutdown;
  std::stop_callback on_shutdown(shutdown, [this] {
    std::lock_guard lock(mutex_);
    step_stop_.request_stop();
  });
  auto stored = environment_.store->Get(job_id_);
  if (!stored.ok()) return;
  StoredJob job = std::move(*stored);
  request_ = job.request;
  run_.input_files = environment_.inputs->FilesOf(request_);
  if (planned_) {
    run_.job = &planned_->job;
    run_.plan = &planned_->plan;
    run_.slos = planned_->slos;
  } else {
    bare_plan_.machines.assign(job.job.machines().begin(), job.job.machines().end());
    bare_plan_.head = bare_plan_.machines.empty() ? "" : bare_plan_.machines.front();
    run_.job = &bare_job_;
    run_.plan = &bare_plan_;
  }
  {
    std::lock_guard lock(mutex_);
    cancel_ = cancel_ || (job.job.cancel_requested() && job.job.state() != v1::JOB_STATE_TEARING_DOWN);
    if (cancel_ && cancelled_by_.empty()) cancelled_by_ = WhoCancelled(*environment_.store, job_id_);
    force_ = force_ || job.force;
  }
  cycle_number_ = job.cycle;
  for (const std::string& machine : run_.plan->machines) {
    run_.work_dirs[machine] = "";  // until the lease says
  }
  if (job.job.state() != v1::JOB_STATE_PREFLIGHT) RecallPreflight(&run_);
  while (!IsTerminal(job.job.state())) {
    ArmStop();
    std::optional<Decision> decision;
    switch (ActionOf(job.job.state())) {
      case Action::kPreflight:
        decision = DoPreflight();
        break;
      case Action::kLaunch:
        decision = DoLaunch(job);
        break;
      case Action::kVerify:
        decision = DoVerify();
        break;
      case Action::kBenchmark:
        decision = DoBenchmark(job);
        break;
      case Action::kCollect:
        decision = DoCollect();
        break;
      case Action::kTearDown:
        decision = DoTearDown(job);
        break;
      default:
        Log(LogLevel::kError, "job.no_action", {{"job", job_id_}, {"state", StateName(job.job.state())}});
        return;
    }
    if (!decision) break;  // shutdown
    if (!decision->change.reasons.empty() && cause_.empty())
      cause_ = decision->change.reasons.front().message();
    auto applied = Insist(
        shutdown_, [&] { return environment_.store->Apply(job_id_, decision->event, decision->change); });
    if (!applied.ok()) break;
    if (!applied->has_value()) {
      // Only a job that somebody else moved meanwhile (a cancel during its tear-down) comes here: look again.
      auto again = environment_.store->Get(job_id_);
      if (!again.ok() || (again->job.state() == job.job.state() && again->pending == job.pending)) {
        Log(LogLevel::kError, "job.event_without_row",
            {{"job", job_id_}, {"state", StateName(job.job.state())}, {"event", EventName(decision->event)}});
        return;
      }
      job = std::move(*again);
      continue;
    }
    job = std::move((*applied)->first);
  }
  EndCycle();
  if (IsTerminal(job.job.state())) {
    (void)environment_.registry->Refresh();
    Status closed = WriteEvents(environment_, job_id_);
    if (!closed.ok())
      Log(LogLevel::kError, "results.not_closed",
          {{"job", job_id_}, {"error", std::string(closed.message())}});
  }
}

std::optional<JobRunner::Decision> JobRunner::DoPreflight() {
  if (!planned_) return Decide(StepOutcome::Failed("plan_lost", kNoPlan));
  Status written = WriteInputs(environment_, *environment_.store->Get(job_id_), planned_.get());
  if (!written.ok()) return Decide(StepOutcome::Failed("disk", std::string(written.message())));
  StepOutcome outcome = Preflight(&run_);
  manifest_.Machines(run_);
  (void)manifest_.Write();
  return Decide(outcome);
}

std::optional<JobRunner::Decision> JobRunner::DoLaunch(const StoredJob& job) {
  if (!planned_) return Decide(StepOutcome::Failed("plan_lost", kNoPlan));
  if (run_.stop.stop_requested()) return Stopped();
  if (job.idle_cycles >= kMaxIdleCycles) {
    return Decide(StepOutcome::Failed(
        "no_progress", absl::StrCat(kMaxIdleCycles, " launches in a row ended without a finished repeat")));
  }
  auto done = environment_.store->Repeats(job_id_);
  if (!done.ok()) return Decide(StepOutcome::Failed("store", std::string(done.status().message())));
  cycle_ = NextCycle(planned_->plan, *done);
  if (!cycle_) return Decide(StepOutcome::Failed("internal", "a launch without anything left to measure"));
  stack_ = planned_->plan.stack(cycle_->stack);
  auto number = Insist(shutdown_, [&] { return environment_.store->BeginCycle(job_id_); });
  if (!number.ok()) return std::nullopt;
  cycle_number_ = *number;
  verified_ = {};
  loads_.clear();
  cause_.clear();
  Change change;
  change.position = v1::JobPosition();
  change.position->set_cycle(cycle_number_);
  change.position->set_stack(cycle_->stack);
  change.position->set_done_repeats(static_cast<uint32_t>(done->size()));
  change.position->set_total_repeats(TotalRepeats(planned_->plan));
  change.message = absl::StrCat("cycle ", cycle_number_, ": launching stack ", cycle_->stack, " for ",
                                cycle_->repeats.size(), cycle_->repeats.size() == 1 ? " repeat" : " repeats");
  (void)environment_.store->Update(job_id_, change);
  // A lease is renewed by heartbeats alone; after a restart of this controller it is asked for again, which
  // the agent answers with what it has.
  StepOutcome leased;
  std::mutex mutex;
  ForEachMachine(run_.plan->machines, [&](const std::string& machine) {
    v1::AcquireLeaseRequest request;
    request.set_request_id(run_.RequestId(machine, absl::StrCat("lease/", cycle_number_)));
    *request.mutable_lease() = run_.Lease(machine);
    request.set_ttl_ns(environment_.registry->timing().lease.count());
    auto link = environment_.registry->Link(machine);
    auto answer = link.ok() ? (*link)->AcquireLease(request, run_.stop)
                            : Result<v1::AcquireLeaseResponse>(link.status());
    if (!answer.ok() && ErrorOf(answer.status()).code == "lease_ended") {
      // Its guard died, or ended everything while nobody renewed the lease: the job goes on with a new grant.
      Status granted = environment_.store->GrantAnew(job_id_, machine);
      if (granted.ok()) granted = environment_.registry->Refresh();
      if (granted.ok()) {
        request.set_request_id(run_.RequestId(machine, absl::StrCat("lease/", cycle_number_)));
        *request.mutable_lease() = run_.Lease(machine);
        answer = (*link)->AcquireLease(request, run_.stop);
      }
    }
    if (answer.ok()) {
      Status noted = environment_.registry->NoteTaken(machine, request.lease());
      if (!noted.ok()) answer = noted;
    }
    std::lock_guard lock(mutex);
    if (answer.ok()) {
      run_.work_dirs[machine] = answer->work_dir();
    } else if (leased.passed()) {
      v1::Reason reason = ReasonOf(answer.status(), machine, "taking the lease");
      // An agent that was away may be back for the next cycle.
      const bool away = reason.code() == "agent_unreachable";
      leased = {away ? StepOutcome::Kind::kInterrupted : StepOutcome::Kind::kFailed, {std::move(reason)}};
    }
  });
  if (run_.stop.stop_requested()) return Stopped();
  if (!leased.passed()) return Decide(leased);
  {
    std::lock_guard lock(mutex_);
    live_.clear();
    for (const PlannedProcess& process : stack_->processes) {
      if (process.attached) continue;
      live_.push_back({process.machine, process.spec.id(), environment_.registry->epoch(process.machine)});
    }
  }
  watch_ = std::make_unique<ProcessWatch>(&run_);
  return Decide(Launch(&run_, *stack_, cycle_number_, watch_.get()));
}

std::optional<JobRunner::Decision> JobRunner::DoVerify() {
  if (run_.stop.stop_requested()) return Stopped();
  run_.executables = watch_->Tools();
  StepOutcome outcome = Verify(&run_, *stack_, cycle_number_, &verified_);
  manifest_.Engines(run_, *stack_, verified_);
  (void)manifest_.Write();
  // A process that died explains more than the check that noticed; its end may be heard of a moment later.
  if (outcome.kind == StepOutcome::Kind::kFailed) {
    const Nanoseconds until = run_.clock->Steady() + 2 * environment_.registry->timing().heartbeat;
    while (!watch_->FirstDeath() && run_.clock->Steady() < until && WaitFor(run_.stop, run_.timing.poll)) {
    }
    if (auto death = watch_->FirstDeath()) {
      outcome.reasons.insert(outcome.reasons.begin(), DeathReason(&run_, *death, "process_died"));
      outcome.kind = StepOutcome::Kind::kInterrupted;
    }
  }
  return Decide(outcome);
}

void JobRunner::EndCycle() {
  watch_.reset();
}

std::optional<JobRunner::Decision> JobRunner::DoTearDown(const StoredJob& job) {
  const Nanoseconds started = environment_.clock->Wall();
  if (stack_ == nullptr && planned_ && job.job.has_position())
    stack_ = planned_->plan.stack(job.job.position().stack());
  if (cause_.empty())
    cause_ = job.job.reasons_size() > 0 ? job.job.reasons(job.job.reasons_size() - 1).message()
                                        : "the controller started again";
  EndCycle();
  bool keep_lease = job.pending == Pending::kNextCycle;
  TeardownResult result = Teardown(&run_, stack_, cycle_number_, cause_, keep_lease, shutdown_);
  if (shutdown_.stop_requested()) return std::nullopt;
  // After the tear-down: the last words are those of an orderly end, or of a death.
  if (stack_ != nullptr) FetchLogs(run_, *stack_, cycle_number_, loads_);
  // A cancel that came meanwhile took the next cycle back, and so does a machine that is not clean: then the
  // leases must go too, before another job may have the machines.
  auto now = environment_.store->Get(job_id_);
  const Pending pending = now.ok() ? now->pending : job.pending;
  if (keep_lease && (pending != Pending::kNextCycle || result.verdict != v1::TEARDOWN_VERDICT_CLEAN)) {
    LetGo(&run_, cycle_number_, cause_, &result, shutdown_);
    if (shutdown_.stop_requested()) return std::nullopt;
  }
  Status written =
      WriteTeardown(run_, cycle_number_, stack_ != nullptr ? stack_->name : "", cause_, result, started);
  if (!written.ok())
    Log(LogLevel::kError, "teardown.not_written",
        {{"job", job_id_}, {"error", std::string(written.message())}});
  const bool clean = result.verdict == v1::TEARDOWN_VERDICT_CLEAN;
  Decision decision{clean ? JobEventKind::kTornDown : JobEventKind::kLeftovers, {}};
  // An earlier cycle's verdict is not made better by a later one.
  decision.change.verdict = result.verdict;
  decision.change.quarantine = result.quarantine;
  decision.change.reasons = result.reasons;
  // A cancel from here on is met by another tear-down, which lets the leases go and writes the files.
  decision.change.decided_with = pending;
  cause_.clear();
  stack_ = nullptr;
  auto next = Next(v1::JOB_STATE_TEARING_DOWN, decision.event, pending);
  if (next && IsTerminal(next->next)) {
    StoredJob last = now.ok() ? *now : job;
    for (const v1::Reason& reason : result.reasons) *last.job.add_reasons() = reason;
    Status final =
        WriteFinal(environment_, last, next->next, result.verdict, planned_.get(), manifest_.file());
    if (!final.ok()) {
      Log(LogLevel::kError, "results.not_written",
          {{"job", job_id_}, {"error", std::string(final.message())}});
      decision.change.reasons.push_back(MakeReason("results_incomplete", std::string(final.message())));
    }
  }
  return decision;
}

}  // namespace poolmark::controller

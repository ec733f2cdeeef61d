#include "controller/runner/manager.h"

#include <malloc.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "controller/runner/cancelled.h"
#include "controller/runner/request_limits.h"
#include "controller/runner/results_writer.h"
#include "controller/steps/room.h"

namespace poolmark::controller {
namespace {

constexpr Nanoseconds kLook = std::chrono::seconds(1);
constexpr Nanoseconds kCloseAgain = std::chrono::seconds(5);

std::string DigestOf(v1::SubmitJobRequest request) {
  request.clear_request_id();
  // Maps serialise in any order: the digest is over a text that does not depend on it.
  std::map<std::string, std::string> set(request.set().begin(), request.set().end());
  request.clear_set();
  std::string text = request.SerializeAsString();
  for (const auto& [key, value] : set) absl::StrAppend(&text, "\n", key, "=", value);
  return Sha256Hex(text);
}

std::string NameOf(const v1::SubmitJobRequest& request) {
  if (!request.name().empty()) return request.name();
  std::string base = request.job_path().substr(request.job_path().rfind('/') + 1);
  return base.substr(0, base.rfind('.'));
}

// What the request may not hold and what its specs and their plan say wrong, all in one answer.
Result<std::unique_ptr<PlannedJob>> PlanSubmission(const Environment& environment,
                                                   const v1::SubmitJobRequest& request, FactsFrom facts,
                                                   Errors* errors) {
  CheckSubmission(request, errors);
  Errors of_specs;
  auto planned = PlanJob(environment, request, "", &of_specs, facts);
  if (!planned.ok() && of_specs.empty()) of_specs.push_back(ErrorOf(planned.status()));
  errors->insert(errors->end(), of_specs.begin(), of_specs.end());
  if (!errors->empty()) return ToStatus(*errors);
  return planned;
}

}  // namespace

JobManager::JobManager(const Environment& environment, Retention retention)
    : environment_(environment),
      retention_(retention),
      queue_(
          environment,
          [this](const std::string& job_id, std::unique_ptr<PlannedJob> planned) {
            StartRunner(job_id, std::move(planned));
          },
          [this](const StoredJob& job, JobEventKind event, Change change) {
            Finish(job, event, std::move(change), nullptr);
          }) {}
JobManager::~JobManager() {
  Stop();
}

Status JobManager::Start() {
  POOLMARK_ASSIGN_OR_RETURN(auto jobs, environment_.store->Unfinished());
  for (const StoredJob& job : jobs) {
    Change change;
    const JobEventKind event = RestartEvent(job.request.no_continue());
    auto transition = Next(job.job.state(), event, job.pending);
    if (transition && transition->next != job.job.state()) {
      change.reasons.push_back(MakeReason(
          "controller_restarted",
          absl::StrCat("the controller started again while the job was ", StateName(job.job.state()))));
    }
    change.message =
        absl::StrCat("controller started again (epoch ", environment_.store->controller_epoch(), ")");
    POOLMARK_ASSIGN_OR_RETURN(auto applied, environment_.store->Apply(job.job.id(), event, change));
    const StoredJob& now = applied ? applied->first : job;
    if (!HoldsMachines(now.job.state())) continue;
    Errors errors;
    auto planned = PlanJob(environment_, now.request, now.job.id(), &errors);
    if (!planned.ok())
      Log(LogLevel::kError, "job.plan_lost",
          {{"job", now.job.id()}, {"error", std::string(planned.status().message())}});
    StartRunner(now.job.id(), planned.ok() ? std::move(*planned) : nullptr);
  }
  POOLMARK_RETURN_IF_ERROR(environment_.registry->Refresh());
  FinishDeletions();
  // Ended, but not closed: the start before was cut off in between, or its disk was full.
  unclosed_ = true;
  CloseEnded();
  dispatcher_ = std::jthread([this](std::stop_token stop) { Dispatch(stop); });
  return absl::OkStatus();
}

void JobManager::Stop() {
  dispatcher_.request_stop();
  if (dispatcher_.joinable()) dispatcher_.join();
  std::map<std::string, std::unique_ptr<Running>> running;
  {
    std::lock_guard lock(mutex_);
    running.swap(running_);
  }
  for (auto& [id, entry] : running) entry->thread.request_stop();
  running.clear();  // joins
}

Result<v1::SubmitJobResponse> JobManager::Submit(const v1::SubmitJobRequest& given,
                                                 const std::string& owner) {
  POOLMARK_RETURN_IF_ERROR(CheckRequestId(given.request_id()));
  const std::string digest = DigestOf(given);
  if (!given.request_id().empty()) {
    POOLMARK_ASSIGN_OR_RETURN(auto answer, environment_.store->FindAnswer(given.request_id(), digest));
    if (answer) {
      v1::SubmitJobResponse response;
      if (response.ParseFromString(*answer)) return response;
    }
  }
  v1::SubmitJobRequest request = given;
  request.set_name(NameOf(given));
  Errors errors;
  auto planned = PlanSubmission(environment_, request, FactsFrom::kRegistry, &errors);
  if (!planned.ok()) return planned.status();
  POOLMARK_RETURN_IF_ERROR(RoomForJob(environment_.state_dir));
  POOLMARK_RETURN_IF_ERROR(
      environment_.inputs->AddFromCatalogue((*planned)->job, (*planned)->slos, &request));
  POOLMARK_ASSIGN_OR_RETURN(v1::Job job,
                            environment_.store->Insert(request, owner, digest, (*planned)->plan.notes,
                                                       (*planned)->plan.estimate.count()));
  v1::SubmitJobResponse response;
  response.set_job_id(job.id());
  for (const std::string& note : (*planned)->plan.notes) response.add_notes(note);
  Wake();
  return response;
}

v1::ValidateJobResponse JobManager::Validate(const v1::SubmitJobRequest& given) {
  v1::ValidateJobResponse response;
  v1::SubmitJobRequest request = given;
  request.set_name(NameOf(given));
  Errors errors;
  auto planned = PlanSubmission(environment_, request, FactsFrom::kAgents, &errors);
  if (!planned.ok()) {
    if (errors.empty()) errors.push_back(ErrorOf(planned.status()));
    for (const Error& error : errors) {
      v1::ErrorDetail::Item* item = response.add_refusals();
      item->set_code(error.code);
      item->set_where(error.where);
      item->set_message(error.message);
      item->set_hint(error.hint);
    }
    return response;
  }
  response.set_accepted(true);
  const Plan& plan = (*planned)->plan;
  response.set_estimated_ns(plan.estimate.count());
  auto json = PlanJson(plan);
  if (json.ok()) response.set_plan_json(*json);
  for (const std::string& note : plan.notes) response.add_notes(note);
  response.set_explanation(ExplainPlan(plan));
  return response;
}

Result<v1::Job> JobManager::Cancel(const std::string& job_id, bool force, const std::string& who) {
  POOLMARK_ASSIGN_OR_RETURN(StoredJob job, environment_.store->Get(job_id));
  if (IsTerminal(job.job.state())) return job.job;
  Change change;
  change.cancel = true;
  if (force) change.force = true;
  if (!job.job.cancel_requested() || (force && !job.force)) change.message = CancelMessage(force, who);
  // Durable first: a crash after this still cancels.
  POOLMARK_ASSIGN_OR_RETURN(job, environment_.store->Update(job.job.id(), change));
  if (!HoldsMachines(job.job.state())) {
    Change end;
    end.reasons.push_back(CancelledReason(who));
    Finish(job, JobEventKind::kCancel, end, nullptr);
    POOLMARK_ASSIGN_OR_RETURN(job, environment_.store->Get(job.job.id()));
    if (IsTerminal(job.job.state())) return job.job;
  }
  if (job.job.state() == v1::JOB_STATE_TEARING_DOWN) {
    Change take_back;
    take_back.reasons.push_back(CancelledReason(who));
    (void)environment_.store->Apply(job.job.id(), JobEventKind::kCancel, take_back);
  }
  {
    std::lock_guard lock(mutex_);
    auto found = running_.find(job.job.id());
    if (found != running_.end()) found->second->runner->Cancel(force, who);
  }
  Wake();
  POOLMARK_ASSIGN_OR_RETURN(job, environment_.store->Get(job.job.id()));
  return job.job;
}

void JobManager::MachineLost(const std::string& machine, const std::string& job_id) {
  std::lock_guard lock(mutex_);
  auto found = running_.find(job_id);
  if (found != running_.end()) found->second->runner->MachineLost(machine);
}

void JobManager::Wake() {
  std::lock_guard lock(mutex_);
  wake_ = true;
  changed_.notify_all();
}

size_t JobManager::running() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(running_.begin(), running_.end(),
                                           [](const auto& entry) { return !entry.second->ended; }));
}

std::vector<LiveProcess> JobManager::LiveProcesses(const std::string& job_id) const {
  std::lock_guard lock(mutex_);
  auto found = running_.find(job_id);
  if (found == running_.end()) return {};
  return found->second->runner->LiveProcesses();
}

void JobManager::Dispatch(std::stop_token stop) {
  while (!stop.stop_requested()) {
    Reap();
    queue_.Step();
    Expire();
    ForgetAnswers();
    CloseEnded();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, kLook, [this] { return wake_; });
    wake_ = false;
  }
}

void JobManager::Finish(const StoredJob& job, JobEventKind event, Change change, const PlannedJob* planned) {
  auto next = Next(job.job.state(), event, job.pending);
  if (!next) return;
  StoredJob last = job;
  for (const v1::Reason& reason : change.reasons) *last.job.add_reasons() = reason;
  results::ManifestFile manifest;
  manifest.job_id = job.job.id();
  Status written = WriteFinal(environment_, last, next->next, v1::TEARDOWN_VERDICT_NONE, planned, manifest);
  if (!written.ok())
    Log(LogLevel::kError, "results.not_written",
        {{"job", job.job.id()}, {"error", std::string(written.message())}});
  auto applied = environment_.store->Apply(job.job.id(), event, change);
  if (!applied.ok() || !*applied) return;
  if (!WriteEvents(environment_, job.job.id()).ok()) unclosed_ = true;
}

void JobManager::CloseEnded() {
  if (!unclosed_ || !RoomForJob(environment_.state_dir).ok()) return;
  const Nanoseconds now = environment_.clock->Steady();
  if (last_close_.count() != 0 && now - last_close_ < kCloseAgain) return;
  last_close_ = now;
  bool all = true;
  uint64_t before = 0;
  do {
    auto page = environment_.store->List({}, before, 1000);
    if (!page.ok()) return;
    for (const v1::Job& job : page->jobs) {
      if (!IsTerminal(job.state()) || IsClosed(environment_, job.id())) continue;
      {
        std::lock_guard lock(mutex_);
        if (running_.contains(job.id())) continue;  // its runner is about to
      }
      Status closed = CloseResults(environment_, job.id());
      if (closed.ok()) continue;
      all = false;
      Log(LogLevel::kError, "results.not_closed",
          {{"job", job.id()}, {"error", std::string(closed.message())}});
    }
    before = page->next;
  } while (before != 0);
  unclosed_ = !all;
}

void JobManager::StartRunner(const std::string& job_id, std::unique_ptr<PlannedJob> planned) {
  auto entry = std::make_unique<Running>();
  entry->runner = std::make_unique<JobRunner>(environment_, job_id, std::move(planned));
  Running* running = entry.get();
  std::lock_guard lock(mutex_);
  running_[job_id] = std::move(entry);
  running->thread = std::jthread([this, running](std::stop_token stop) {
    running->runner->Run(stop);
    std::lock_guard ended(mutex_);
    running->ended = true;
    wake_ = true;
    changed_.notify_all();
  });
}

void JobManager::Reap() {
  std::vector<std::unique_ptr<Running>> ended;
  std::unique_lock lock(mutex_);
  for (auto at = running_.begin(); at != running_.end();) {
    if (at->second->ended) {
      // A disk that was full: its files are completed once there is room.
      if (!IsClosed(environment_, at->first)) unclosed_ = true;
      ended.push_back(std::move(at->second));
      at = running_.erase(at);
    } else {
      ++at;
    }
  }
  lock.unlock();
  if (ended.empty()) return;
  ended.clear();
  malloc_trim(0);  // a job's records, samples and report went through here
}

}  // namespace poolmark::controller

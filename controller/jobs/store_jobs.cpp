// Jobs, events and repeats of the store.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/digest.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/time_format.h"
#include "controller/jobs/sqlite.h"
#include "controller/jobs/standing.h"
#include "controller/jobs/store.h"

namespace poolmark::controller {
namespace {

constexpr char kColumns[] = "SELECT id, pending, force, cycle, idle_cycles, job, request FROM jobs ";

Result<StoredJob> RowToJob(const Statement& row) {
  StoredJob stored;
  auto pending = PendingFromName(row.TextAt(1));
  if (!pending || !stored.job.ParseFromString(row.TextAt(5)) ||
      !stored.request.ParseFromString(row.TextAt(6))) {
    return ToStatus(
        Error{absl::StatusCode::kDataLoss, "store", row.TextAt(0), "the row of this job cannot be read", ""});
  }
  stored.pending = *pending;
  stored.force = row.IntAt(2) != 0;
  stored.cycle = static_cast<uint32_t>(row.IntAt(3));
  stored.idle_cycles = static_cast<uint32_t>(row.IntAt(4));
  return stored;
}

// Agents' words come in here: last log lines, what checks saw. Every event goes out in one message, and a
// job's reasons are in every list.
constexpr size_t kMaxEventText = 32u << 10;
constexpr size_t kMaxEventData = 256u << 10;
constexpr size_t kMaxReasonText = 16u << 10;
constexpr int kMaxReasons = 100;

void Clip(std::string* text, size_t bytes) {
  if (text->size() <= bytes) return;
  *text = absl::StrCat(ValidUtf8(std::string_view(*text).substr(0, bytes)), " … (", text->size() - bytes,
                       " bytes more)");
}

void ClipTexts(v1::JobEvent* event) {
  for (std::string* text : {event->mutable_message(), event->mutable_machine(), event->mutable_process()})
    Clip(text, kMaxEventText);
  Clip(event->mutable_data_json(), kMaxEventData);
  if (!event->has_check()) return;
  v1::CheckResult* check = event->mutable_check();
  for (std::string* text : {check->mutable_id(), check->mutable_expected(), check->mutable_observed(),
                            check->mutable_evidence(), check->mutable_hint()})
    Clip(text, kMaxEventText);
}

// "20261130-041501-3f9c": sorts by time, reads well, safe in paths.
std::string NewJobId(Nanoseconds wall) {
  std::string iso = IsoUtc(wall);  // 2026-10-19T15:41:12.042Z
  std::string id;
  for (char c : iso.substr(0, 19)) {
    if (c >= '0' && c <= '9') id += c;
  }
  id.insert(8, "-");
  return absl::StrCat(id, "-", RandomHex(2));
}

}  // namespace

Result<v1::Job> Store::Insert(const v1::SubmitJobRequest& request, const std::string& owner,
                              const std::string& digest, const std::vector<std::string>& notes,
                              int64_t estimated_ns) {
  StoredJob stored;
  v1::JobEvent event;
  {
    std::lock_guard lock(mutex_);
    POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    const Nanoseconds wall = clock_->Wall();
    if (!request.request_id().empty()) {
      // The same request may have come again while the first one was being planned.
      POOLMARK_ASSIGN_OR_RETURN(auto known, AnswerLocked(request.request_id(), digest));
      v1::SubmitJobResponse answer;
      if (known && answer.ParseFromString(*known)) {
        POOLMARK_ASSIGN_OR_RETURN(StoredJob job, GetLocked(answer.job_id()));
        return job.job;
      }
    }
    stored.request = request;
    // Jobs of one second share all but 16 bits of their ids.
    for (bool taken = true; taken;) {
      stored.job.set_id(NewJobId(wall));
      POOLMARK_ASSIGN_OR_RETURN(Statement find, db_->Prepare("SELECT 1 FROM jobs WHERE id=?"));
      find.Text(stored.job.id());
      POOLMARK_ASSIGN_OR_RETURN(taken, find.Step());
    }
    stored.job.set_name(request.name());
    stored.job.set_owner(owner);
    stored.job.set_state(v1::JOB_STATE_SUBMITTED);
    stored.job.set_teardown(v1::TEARDOWN_VERDICT_NONE);
    stored.job.set_submitted_wall_ns(wall.count());
    stored.job.set_estimated_ns(estimated_ns);
    *stored.job.mutable_labels() = request.labels();
    POOLMARK_ASSIGN_OR_RETURN(
        Statement insert,
        db_->Prepare("INSERT INTO jobs(id, state, pending, job, request) VALUES(?,?,?,?,?)"));
    POOLMARK_RETURN_IF_ERROR(insert.Text(stored.job.id())
                                 .Text(StateName(stored.job.state()))
                                 .Text(PendingName(stored.pending))
                                 .Blob(stored.job.SerializeAsString())
                                 .Blob(stored.request.SerializeAsString())
                                 .Run());
    event.set_kind("state");
    event.set_message("submitted");
    POOLMARK_RETURN_IF_ERROR(AppendLocked(&stored, &event));
    POOLMARK_RETURN_IF_ERROR(PutLocked(stored));
    if (!request.request_id().empty()) {
      v1::SubmitJobResponse answer;
      answer.set_job_id(stored.job.id());
      for (const std::string& note : notes) answer.add_notes(note);
      POOLMARK_RETURN_IF_ERROR(
          KeepAnswerLocked(request.request_id(), digest, answer.SerializeAsString(), stored.job.id()));
    }
    POOLMARK_RETURN_IF_ERROR(transaction.Commit());
  }
  Announce(stored.job.id(), {event});
  return stored.job;
}

Result<StoredJob> Store::GetLocked(const std::string& job_id) {
  {
    POOLMARK_ASSIGN_OR_RETURN(Statement exact, db_->Prepare(absl::StrCat(kColumns, "WHERE id=?")));
    exact.Text(job_id);
    POOLMARK_ASSIGN_OR_RETURN(bool row, exact.Step());
    if (row) return RowToJob(exact);
  }
  if (!job_id.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(
        Statement prefix, db_->Prepare(absl::StrCat(kColumns, "WHERE substr(id, 1, length(?)) = ? LIMIT 2")));
    prefix.Text(job_id).Text(job_id);
    POOLMARK_ASSIGN_OR_RETURN(bool row, prefix.Step());
    if (row) {
      POOLMARK_ASSIGN_OR_RETURN(StoredJob found, RowToJob(prefix));
      POOLMARK_ASSIGN_OR_RETURN(bool more, prefix.Step());
      if (!more) return found;
      return InvalidInput(absl::StrCat("job '", job_id, "'"), "several jobs begin like this",
                          "give more of the id");
    }
  }
  return NotFound(absl::StrCat("job '", job_id, "'"), "no such job", "list them with `poolmark jobs`");
}

Result<StoredJob> Store::Get(const std::string& job_id) {
  std::lock_guard lock(mutex_);
  return GetLocked(job_id);
}

Status Store::PutLocked(const StoredJob& job) {
  POOLMARK_ASSIGN_OR_RETURN(
      Statement put,
      db_->Prepare("UPDATE jobs SET state=?, pending=?, force=?, cycle=?, idle_cycles=?, job=? WHERE id=?"));
  return put.Text(StateName(job.job.state()))
      .Text(PendingName(job.pending))
      .Int(job.force ? 1 : 0)
      .Int(job.cycle)
      .Int(job.idle_cycles)
      .Blob(job.job.SerializeAsString())
      .Text(job.job.id())
      .Run();
}

Status Store::AppendLocked(StoredJob* job, v1::JobEvent* event) {
  ClipTexts(event);
  event->set_sequence(job->job.last_sequence() + 1);
  event->set_wall_ns(clock_->Wall().count());
  event->set_state(job->job.state());
  if (!event->has_position() && job->job.has_position()) *event->mutable_position() = job->job.position();
  job->job.set_last_sequence(event->sequence());
  POOLMARK_ASSIGN_OR_RETURN(Statement put, db_->Prepare("INSERT INTO events VALUES(?,?,?,?)"));
  return put.Text(job->job.id())
      .Int(static_cast<int64_t>(event->sequence()))
      .Text(event->kind())
      .Blob(event->SerializeAsString())
      .Run();
}

Status Store::ApplyChangeLocked(StoredJob* job, const Change& change) {
  for (const v1::Reason& reason : change.reasons) {
    // The first ones are the cause, the last one is how it ends.
    v1::Reason* added = job->job.reasons_size() < kMaxReasons ? job->job.add_reasons()
                                                              : job->job.mutable_reasons(kMaxReasons - 1);
    *added = reason;
    Clip(added->mutable_message(), kMaxReasonText);
  }
  if (change.position) *job->job.mutable_position() = *change.position;
  if (change.verdict) job->job.set_teardown(*change.verdict);
  if (change.cancel) job->job.set_cancel_requested(*change.cancel);
  if (change.force) job->force = *change.force;
  if (change.waiting_for) job->job.set_waiting_for(*change.waiting_for);
  if (change.estimated_ns) job->job.set_estimated_ns(*change.estimated_ns);
  if (change.repeat) {
    job->idle_cycles = 0;
    POOLMARK_ASSIGN_OR_RETURN(Statement put,
                              db_->Prepare("INSERT OR REPLACE INTO repeats VALUES(?,?,?,?,?,?,?)"));
    const RepeatKey& key = change.repeat->key;
    POOLMARK_RETURN_IF_ERROR(put.Text(job->job.id())
                                 .Text(key.stack)
                                 .Text(key.workload)
                                 .Text(key.level)
                                 .Int(key.repeat)
                                 .Int(change.repeat->valid ? 1 : 0)
                                 .Int(change.repeat->cycle)
                                 .Run());
  }
  for (const auto& [machine, why] : change.quarantine) {
    POOLMARK_RETURN_IF_ERROR(QuarantineLocked(machine, job->job.id(), why));
  }
  return absl::OkStatus();
}

Result<std::optional<std::pair<StoredJob, Action>>> Store::Apply(const std::string& job_id,
                                                                 JobEventKind event, const Change& change) {
  StoredJob job;
  Action action = Action::kNone;
  v1::JobEvent row;
  {
    std::lock_guard lock(mutex_);
    POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    POOLMARK_ASSIGN_OR_RETURN(job, GetLocked(job_id));
    auto transition = Next(job.job.state(), event, job.pending);
    if (!transition || change.decided_with.value_or(job.pending) != job.pending)
      return std::optional<std::pair<StoredJob, Action>>();
    action = transition->action;
    job.pending = transition->pending;
    job.job.set_state(transition->next);
    POOLMARK_RETURN_IF_ERROR(ApplyChangeLocked(&job, change));
    if (IsTerminal(transition->next)) {
      job.job.set_finished_wall_ns(clock_->Wall().count());
      job.job.clear_waiting_for();
      POOLMARK_ASSIGN_OR_RETURN(Statement release,
                                db_->Prepare("UPDATE machines SET job_id='' WHERE job_id=?"));
      POOLMARK_RETURN_IF_ERROR(release.Text(job_id).Run());
    }
    row.set_kind("state");
    row.set_message(change.message.empty() ? std::string(EventName(event)) : change.message);
    row.set_data_json(change.data_json);
    POOLMARK_RETURN_IF_ERROR(AppendLocked(&job, &row));
    POOLMARK_RETURN_IF_ERROR(PutLocked(job));
    POOLMARK_RETURN_IF_ERROR(transaction.Commit());
    KeepReserveLocked();
  }
  Log(LogLevel::kInfo, "job.state",
      {{"job", job.job.id()}, {"state", StateName(job.job.state())}, {"event", EventName(event)}});
  Announce(job.job.id(), {row});
  return std::optional(std::pair(std::move(job), action));
}

Result<std::optional<StoredJob>> Store::Lock(const std::string& job_id,
                                             const std::vector<std::string>& machines,
                                             std::string* blocked_by) {
  StoredJob job;
  v1::JobEvent row;
  std::vector<std::string> sorted = machines;
  std::sort(sorted.begin(), sorted.end());
  {
    std::lock_guard lock(mutex_);
    POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    POOLMARK_ASSIGN_OR_RETURN(job, GetLocked(job_id));
    auto transition = Next(job.job.state(), JobEventKind::kLocked, job.pending);
    if (!transition) {
      *blocked_by = absl::StrCat("the job is ", StateName(job.job.state()));
      return std::optional<StoredJob>();
    }
    for (const std::string& machine : sorted) {
      POOLMARK_ASSIGN_OR_RETURN(Statement find,
                                db_->Prepare(absl::StrCat("SELECT state, job_id, reason, ", kUnproven,
                                                          " FROM machines WHERE name=?")));
      find.Text(machine);
      POOLMARK_ASSIGN_OR_RETURN(bool found, find.Step());
      if (!found) {
        *blocked_by = absl::StrCat("machine ", machine, " is not registered");
        return std::optional<StoredJob>();
      }
      if (!find.TextAt(1).empty()) {
        *blocked_by = absl::StrCat("machine ", machine, " is held by job ", find.TextAt(1));
        return std::optional<StoredJob>();
      }
      const Standing standing = StandingOf(find.TextAt(0), find.TextAt(2), find.TextAt(3));
      if (standing.state != "READY") {
        *blocked_by = absl::StrCat("machine ", machine, " is ", standing.state, ": ", standing.reason);
        return std::optional<StoredJob>();
      }
      POOLMARK_ASSIGN_OR_RETURN(Statement take,
                                db_->Prepare("UPDATE machines SET job_id=?, epoch=epoch+1 WHERE name=?"));
      POOLMARK_RETURN_IF_ERROR(take.Text(job_id).Text(machine).Run());
    }
    job.job.set_state(transition->next);
    job.job.set_started_wall_ns(clock_->Wall().count());
    job.job.clear_waiting_for();
    job.job.clear_machines();
    for (const std::string& machine : machines) job.job.add_machines(machine);
    row.set_kind("state");
    row.set_message(absl::StrCat("machines locked: ", absl::StrJoin(machines, ", ")));
    POOLMARK_RETURN_IF_ERROR(AppendLocked(&job, &row));
    POOLMARK_RETURN_IF_ERROR(PutLocked(job));
    POOLMARK_RETURN_IF_ERROR(transaction.Commit());
  }
  Announce(job.job.id(), {row});
  return std::optional(std::move(job));
}

Result<StoredJob> Store::Update(const std::string& job_id, const Change& change) {
  StoredJob job;
  v1::JobEvent row;
  {
    std::lock_guard lock(mutex_);
    POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    POOLMARK_ASSIGN_OR_RETURN(job, GetLocked(job_id));
    POOLMARK_RETURN_IF_ERROR(ApplyChangeLocked(&job, change));
    if (!change.message.empty()) {
      row.set_kind("step");
      row.set_message(change.message);
      row.set_data_json(change.data_json);
      POOLMARK_RETURN_IF_ERROR(AppendLocked(&job, &row));
    }
    POOLMARK_RETURN_IF_ERROR(PutLocked(job));
    POOLMARK_RETURN_IF_ERROR(transaction.Commit());
  }
  if (row.sequence() != 0) Announce(job.job.id(), {row});
  return job;
}

Result<uint32_t> Store::BeginCycle(const std::string& job_id) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  POOLMARK_ASSIGN_OR_RETURN(StoredJob job, GetLocked(job_id));
  ++job.cycle;
  ++job.idle_cycles;
  job.job.set_teardown(v1::TEARDOWN_VERDICT_NONE);  // until this launch is torn down there is no verdict
  POOLMARK_RETURN_IF_ERROR(PutLocked(job));
  POOLMARK_RETURN_IF_ERROR(transaction.Commit());
  return job.cycle;
}

Result<std::vector<StoredJob>> Store::Unfinished() {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(
      Statement list,
      db_->Prepare(absl::StrCat(
          kColumns,
          "WHERE state NOT IN ('SUCCEEDED','INVALID','FAILED','CANCELLED','REFUSED') ORDER BY number")));
  std::vector<StoredJob> jobs;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(bool row, list.Step());
    if (!row) return jobs;
    POOLMARK_ASSIGN_OR_RETURN(StoredJob job, RowToJob(list));
    jobs.push_back(std::move(job));
  }
}

Result<uint64_t> Store::AppendEvent(const std::string& job_id, v1::JobEvent event) {
  {
    std::lock_guard lock(mutex_);
    POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    POOLMARK_ASSIGN_OR_RETURN(StoredJob job, GetLocked(job_id));
    POOLMARK_RETURN_IF_ERROR(AppendLocked(&job, &event));
    POOLMARK_RETURN_IF_ERROR(PutLocked(job));
    POOLMARK_RETURN_IF_ERROR(transaction.Commit());
  }
  Announce(job_id, {event});
  return event.sequence();
}

}  // namespace poolmark::controller

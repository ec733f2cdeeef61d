// What outlives its job or its call: answers by request id, and deletions that are not through yet.
#include "absl/strings/str_cat.h"
#include "controller/jobs/sqlite.h"
#include "controller/jobs/store.h"

namespace poolmark::controller {

Result<std::optional<std::string>> Store::AnswerLocked(const std::string& request_id,
                                                       const std::string& digest) {
  POOLMARK_ASSIGN_OR_RETURN(
      Statement find,
      db_->Prepare("SELECT digest, answer, job_id, EXISTS(SELECT 1 FROM jobs WHERE jobs.id=requests.job_id) "
                   "FROM requests WHERE id=?"));
  find.Text(request_id);
  POOLMARK_ASSIGN_OR_RETURN(bool row, find.Step());
  if (!row) return std::optional<std::string>();
  if (find.TextAt(0) != digest) {
    return ToStatus(Error{absl::StatusCode::kAlreadyExists, "request_id_reused", request_id,
                          "this request id was used for another request",
                          "give every request an id of its own"});
  }
  const std::string job = find.TextAt(2);
  if (!job.empty() && find.IntAt(3) == 0) {
    // A second job for a call that is only late would be worse than none.
    return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "request_job_deleted", request_id,
                          absl::StrCat("job ", job, " of this request id was deleted"),
                          "submit it anew under another id"});
  }
  return std::optional<std::string>(find.TextAt(1));
}

Status Store::KeepAnswerLocked(const std::string& request_id, const std::string& digest,
                               const std::string& answer, const std::string& job_id) {
  POOLMARK_ASSIGN_OR_RETURN(
      Statement put,
      db_->Prepare("INSERT OR IGNORE INTO requests(id, digest, answer, wall_ns, job_id) VALUES(?,?,?,?,?)"));
  return put.Text(request_id).Text(digest).Blob(answer).Int(clock_->Wall().count()).Text(job_id).Run();
}

Result<std::optional<std::string>> Store::FindAnswer(const std::string& request_id,
                                                     const std::string& digest) {
  std::lock_guard lock(mutex_);
  return AnswerLocked(request_id, digest);
}

Status Store::StoreAnswer(const std::string& request_id, const std::string& digest,
                          const std::string& answer) {
  std::lock_guard lock(mutex_);
  return KeepAnswerLocked(request_id, digest, answer, "");
}

Result<uint64_t> Store::ForgetAnswers() {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(
      Statement forget,
      db_->Prepare("DELETE FROM requests WHERE wall_ns < ? AND NOT EXISTS(SELECT 1 FROM jobs WHERE "
                   "jobs.id=requests.job_id)"));
  POOLMARK_RETURN_IF_ERROR(forget.Int((clock_->Wall() - kAnswersKept).count()).Run());
  return static_cast<uint64_t>(db_->Changes());
}

Status Store::Delete(const std::string& job_id) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  POOLMARK_ASSIGN_OR_RETURN(StoredJob job, GetLocked(job_id));
  if (!IsTerminal(job.job.state())) {
    return Precondition(absl::StrCat("job '", job.job.id(), "'"),
                        absl::StrCat("it is ", StateName(job.job.state())),
                        "cancel it and wait for its end first");
  }
  POOLMARK_ASSIGN_OR_RETURN(Statement remove, db_->Prepare("DELETE FROM jobs WHERE id=?"));
  POOLMARK_RETURN_IF_ERROR(remove.Text(job.job.id()).Run());
  POOLMARK_ASSIGN_OR_RETURN(Statement owe, db_->Prepare("INSERT OR IGNORE INTO deletions VALUES(?)"));
  POOLMARK_RETURN_IF_ERROR(owe.Text(job.job.id()).Run());
  // Its request id is known for as long again as any other's.
  POOLMARK_ASSIGN_OR_RETURN(Statement keep, db_->Prepare("UPDATE requests SET wall_ns=? WHERE job_id=?"));
  POOLMARK_RETURN_IF_ERROR(keep.Int(clock_->Wall().count()).Text(job.job.id()).Run());
  return transaction.Commit();
}

Result<std::vector<std::string>> Store::Deletions() {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Statement list, db_->Prepare("SELECT job_id FROM deletions ORDER BY job_id"));
  std::vector<std::string> jobs;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(bool row, list.Step());
    if (!row) return jobs;
    jobs.push_back(list.TextAt(0));
  }
}

Status Store::Deleted(const std::string& job_id) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Statement done, db_->Prepare("DELETE FROM deletions WHERE job_id=?"));
  return done.Text(job_id).Run();
}

}  // namespace poolmark::controller

// Opening the store: lock, check, migrate, recover.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "controller/jobs/epochs.h"
#include "controller/jobs/sqlite.h"
#include "controller/jobs/store.h"

namespace poolmark::controller {
namespace {

constexpr int kSchema = 4;

// Names of columns are for people with a shell; messages are protobuf.
constexpr char kSchema1[] = R"(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE jobs(
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL,
  pending TEXT NOT NULL,
  force INTEGER NOT NULL DEFAULT 0,
  cycle INTEGER NOT NULL DEFAULT 0,
  idle_cycles INTEGER NOT NULL DEFAULT 0,
  job BLOB NOT NULL,
  request BLOB NOT NULL
) STRICT;
CREATE INDEX jobs_by_state ON jobs(state);
CREATE TABLE events(
  job_id TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,
  kind TEXT NOT NULL,
  event BLOB NOT NULL,
  PRIMARY KEY(job_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE repeats(
  job_id TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
  stack TEXT NOT NULL,
  workload TEXT NOT NULL,
  level TEXT NOT NULL,
  repeat INTEGER NOT NULL,
  valid INTEGER NOT NULL,
  cycle INTEGER NOT NULL,
  PRIMARY KEY(job_id, stack, workload, level, repeat)
) STRICT, WITHOUT ROWID;
CREATE TABLE machines(
  name TEXT PRIMARY KEY,
  state TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '',
  job_id TEXT NOT NULL DEFAULT '',
  epoch INTEGER NOT NULL DEFAULT 0,
  registration BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE requests(
  id TEXT PRIMARY KEY,
  digest TEXT NOT NULL,
  answer BLOB NOT NULL,
  wall_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
)";

// The job that a submission's answer names, and jobs that are deleted but for their files.
constexpr char kSchema2[] = R"(
ALTER TABLE requests ADD COLUMN job_id TEXT NOT NULL DEFAULT '';
CREATE INDEX requests_by_job ON requests(job_id);
CREATE TABLE deletions(job_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
)";

// Quarantines for the end of a job, apart from what somebody says of a machine. Up to schema 2 they took its
// place, with the job's id behind the first 17 characters of the reason.
constexpr char kSchema3[] = R"(
CREATE TABLE unproven(
  machine TEXT NOT NULL,
  job_id TEXT NOT NULL,
  why TEXT NOT NULL,
  PRIMARY KEY(machine, job_id)
) STRICT, WITHOUT ROWID;
INSERT INTO unproven
  SELECT name, substr(reason, 18, instr(substr(reason, 18), ' ') - 1), reason FROM machines
  WHERE state='QUARANTINED' AND reason LIKE 'tear-down of job % not %';
UPDATE machines SET state='READY', reason='' WHERE name IN (SELECT machine FROM unproven);
)";

// The job that last had an answer to its lease here.
constexpr char kSchema4[] = "ALTER TABLE machines ADD COLUMN taken TEXT NOT NULL DEFAULT '';";

bool IsCorruption(const Status& status) {
  return status.code() == absl::StatusCode::kDataLoss;
}

}  // namespace

Store::~Store() {
  db_.reset();
  if (lock_fd_ >= 0) close(lock_fd_);
}

Result<std::unique_ptr<Store>> Store::Open(const std::string& directory, const Clock* clock) {
  POOLMARK_RETURN_IF_ERROR(MakeDirs(directory, 0700));
  std::unique_ptr<Store> store(new Store);
  store->directory_ = directory;
  store->clock_ = clock;
  const std::string lock_path = JoinPath(directory, "lock");
  store->lock_fd_ = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (store->lock_fd_ < 0) return FromErrno(lock_path, "opening", errno);
  if (flock(store->lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "locked", directory,
                          "another controller holds this state directory",
                          "end it first, or give this one a directory of its own"});
  }
  Status opened = store->OpenFile();
  if (IsCorruption(opened)) {
    const std::string file = JoinPath(directory, "poolmark.db");
    store->db_.reset();
    const std::string kept = absl::StrCat(file, ".corrupt-", clock->Wall().count() / 1'000'000'000);
    POOLMARK_RETURN_IF_ERROR(RenameDurably(file, kept));
    for (const char* suffix : {"-wal", "-shm"}) {
      if (FileExists(file + suffix)) POOLMARK_RETURN_IF_ERROR(RenameDurably(file + suffix, kept + suffix));
    }
    Log(LogLevel::kError, "store.corrupt", {{"file", kept}, {"error", std::string(opened.message())}});
    store->recovered_ = kept;
    opened = store->OpenFile();
  }
  if (!opened.ok()) return opened;
  return store;
}

Status Store::OpenFile() {
  POOLMARK_ASSIGN_OR_RETURN(db_, Database::Open(JoinPath(directory_, "poolmark.db")));
  POOLMARK_ASSIGN_OR_RETURN(auto check, db_->One("PRAGMA quick_check"));
  if (check.value_or("") != "ok") {
    return ToStatus(Error{absl::StatusCode::kDataLoss, "store", directory_,
                          absl::StrCat("quick_check: ", check.value_or("no answer")), ""});
  }
  POOLMARK_RETURN_IF_ERROR(Migrate());
  POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  POOLMARK_ASSIGN_OR_RETURN(auto cluster, db_->One("SELECT value FROM meta WHERE key='cluster_id'"));
  if (!cluster) {
    cluster = NewUuid();
    POOLMARK_RETURN_IF_ERROR(
        db_->Execute(absl::StrCat("INSERT INTO meta VALUES('cluster_id','", *cluster, "')")));
  }
  cluster_id_ = *cluster;
  POOLMARK_ASSIGN_OR_RETURN(auto epoch, db_->One("SELECT value FROM meta WHERE key='controller_epoch'"));
  uint64_t last = 0;
  // After a loss of the file the epoch must still grow: start from the wall clock's seconds.
  if (!epoch && recovered_) last = static_cast<uint64_t>(clock_->Wall().count() / 1'000'000'000);
  if (epoch && !absl::SimpleAtoi(*epoch, &last)) {
    return ToStatus(
        Error{absl::StatusCode::kDataLoss, "store", directory_, "controller_epoch is no number", ""});
  }
  controller_epoch_ = last + 1;
  POOLMARK_RETURN_IF_ERROR(db_->Execute(
      absl::StrCat("INSERT OR REPLACE INTO meta VALUES('controller_epoch','", controller_epoch_, "')")));
  // Every grant is made anew: what the controller before this one still has under way, or one that was paused
  // and comes back, carries an epoch that the agents refuse from now on. The stride keeps apart two
  // controllers that start from copies of one state.
  POOLMARK_RETURN_IF_ERROR(db_->Execute(absl::StrCat("UPDATE machines SET epoch=min(epoch,", kMostEpoch,
                                                     ")+1+abs(random()%1000) WHERE job_id<>''")));
  POOLMARK_RETURN_IF_ERROR(transaction.Commit());
  KeepReserveLocked();
  return absl::OkStatus();
}

void Store::KeepReserveLocked() {
  Status kept = reserve_.Keep(db_.get(), JoinPath(directory_, "poolmark.db"), clock_->Steady());
  if (!kept.ok()) Log(LogLevel::kWarning, "store.no_reserve", {{"error", std::string(kept.message())}});
}

Status Store::Migrate() {
  POOLMARK_ASSIGN_OR_RETURN(auto text, db_->One("PRAGMA user_version"));
  int version = 0;
  if (!absl::SimpleAtoi(text.value_or("0"), &version)) version = 0;
  if (version == kSchema) return absl::OkStatus();
  if (version > kSchema) {
    return Precondition(
        directory_, absl::StrCat("the store has schema ", version, ", this program knows up to ", kSchema),
        "start the newer controller, or restore the backup made before the upgrade");
  }
  POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  if (version < 1) POOLMARK_RETURN_IF_ERROR(db_->Execute(kSchema1));
  if (version < 2) POOLMARK_RETURN_IF_ERROR(db_->Execute(kSchema2));
  if (version < 3) POOLMARK_RETURN_IF_ERROR(db_->Execute(kSchema3));
  POOLMARK_RETURN_IF_ERROR(db_->Execute(kSchema4));
  POOLMARK_RETURN_IF_ERROR(db_->Execute(absl::StrCat("PRAGMA user_version=", kSchema)));
  return transaction.Commit();
}

void Store::SetListener(Listener listener) {
  std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

void Store::Announce(const std::string& job_id, const std::vector<v1::JobEvent>& events) {
  Listener listener;
  {
    std::lock_guard lock(listener_mutex_);
    listener = listener_;
  }
  if (!listener) return;
  for (const v1::JobEvent& event : events) listener(job_id, event);
}

Status Store::Probe() {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  POOLMARK_RETURN_IF_ERROR(db_->Execute(
      absl::StrCat("INSERT OR REPLACE INTO meta VALUES('probe','", clock_->Wall().count(), "')")));
  return transaction.Commit();
}

}  // namespace poolmark::controller

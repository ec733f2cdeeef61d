#include "agent/api/runs.h"

#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/guard/cgroup.h"
#include "agent/guard/ledger.h"
#include "agent/process/guard_launcher.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/units.h"

namespace poolmark::agent {
namespace {

using guard::Record;

Status Refused(const std::string& code, const std::string& message, const std::string& hint) {
  return ToStatus(Error{absl::StatusCode::kFailedPrecondition, code, "lease", message, hint});
}

}  // namespace

bool SplitRun(const std::string& run, std::string* job, uint64_t* epoch) {
  size_t tail = run.rfind('-');
  if (tail == std::string::npos) return false;
  size_t mark = run.rfind("-e", tail - 1);
  if (mark == std::string::npos) return false;
  *job = run.substr(0, mark);
  auto number = Record("r").Add("v", run.substr(mark + 2, tail - mark - 2)).Unsigned("v");
  if (!number) return false;
  *epoch = *number;
  return true;
}

Runs::Runs(AgentConfig config, std::optional<unsigned> use_uid, std::optional<unsigned> use_gid)
    : config_(std::move(config)), uid_(use_uid), gid_(use_gid) {}

Runs::~Runs() {
  janitor_.request_stop();
  changed_.notify_all();
  if (janitor_.joinable()) janitor_.join();
  std::map<std::string, std::shared_ptr<ActiveRun>> active;
  std::lock_guard lock(mutex_);
  active.swap(active_);
}

RunInfo Runs::InfoOf(const std::string& run) const {
  RunInfo info;
  info.run = run;
  uint64_t epoch = 0;
  if (!SplitRun(run, &info.job, &epoch)) info.job = run;
  info.directory = JoinPath(JoinPath(config_.state_dir, "runs"), run);
  info.work_dir = JoinPath(config_.work_dir, info.job);
  return info;
}

std::vector<std::string> Runs::RunNames() const {
  auto names = ListDir(JoinPath(config_.state_dir, "runs"));
  return names.ok() ? *names : std::vector<std::string>();
}

std::string Runs::containment() const {
  return config_.use_cgroup && !guard::CgroupBase().empty() ? "cgroup2" : "subreaper";
}

Status Runs::Open() {
  POOLMARK_RETURN_IF_ERROR(MakeDirs(config_.state_dir, 0700));
  POOLMARK_RETURN_IF_ERROR(MakeDirs(JoinPath(config_.state_dir, "runs"), 0700));
  POOLMARK_RETURN_IF_ERROR(MakeDirs(config_.work_dir, 0755));
  POOLMARK_RETURN_IF_ERROR(KnowAgentId());
  std::string path = JoinPath(config_.state_dir, "lease.json");
  if (FileExists(path)) {
    auto text = ReadFile(path, 65536);
    auto json = text.ok() ? ParseJson(*text, path) : Result<Json>(text.status());
    if (json.ok() && json->is_object() && json->contains("epoch") && (*json)["epoch"].is_number_unsigned()) {
      max_epoch_ = (*json)["epoch"].get<uint64_t>();
      if (json->contains("job") && (*json)["job"].is_string()) max_job_ = (*json)["job"].get<std::string>();
    } else {
      Log(LogLevel::kError, "lease.unreadable",
          {{"file", path}, {"action", "epochs are taken from the ledgers"}});
    }
  }
  RemoveOldRuns();
  for (const std::string& run : RunNames()) {
    RunInfo info = InfoOf(run);
    std::string job;
    uint64_t epoch = 0;
    if (SplitRun(run, &job, &epoch) && epoch > max_epoch_) {
      max_epoch_ = epoch;
      max_job_ = job;
    }
    std::string ledger = JoinPath(info.directory, "ledger");
    if (guard::LedgerIsLocked(ledger)) {
      Status adopted = Adopt(info);
      Log(adopted.ok() ? LogLevel::kInfo : LogLevel::kError, "run.adopted",
          {{"run", run}, {"result", adopted.ok() ? "its guard lives" : std::string(adopted.message())}});
      continue;
    }
    guard::LedgerContent content = guard::ReadLedger(ledger);
    for (const std::string& damage : content.damages)
      Log(LogLevel::kError, "ledger.damaged", {{"where", damage}});
    if (!guard::Fold(content.records).finished) {
      std::lock_guard lock(mutex_);
      ended_.push_back(run);
    }
  }
  janitor_ = std::jthread([this](std::stop_token stop) { Janitor(stop); });
  return absl::OkStatus();
}

Status Runs::KnowAgentId() {
  const std::string path = JoinPath(config_.state_dir, "agent_id");
  if (auto kept = ReadFile(path, 4096); kept.ok()) agent_id_ = kept->substr(0, kept->find('\n'));
  if (!agent_id_.empty()) return absl::OkStatus();
  agent_id_ = RandomHex(16);
  return AtomicWriteFile(path, agent_id_ + "\n", 0600);
}

Status Runs::Adopt(const RunInfo& info) {
  guard::RunState state = guard::Fold(guard::ReadLedger(JoinPath(info.directory, "ledger")).records);
  POOLMARK_ASSIGN_OR_RETURN(
      auto run, ActiveRun::Attach(info, state.epoch, [this, name = info.run] { GuardEnded(name); }));
  std::lock_guard lock(mutex_);
  max_epoch_ = std::max(max_epoch_, run->epoch());
  active_[info.run] = std::move(run);
  return absl::OkStatus();
}

Status Runs::PersistEpoch(const std::string& job, uint64_t epoch) {
  Json json;
  json["schema_version"] = 1;
  json["epoch"] = epoch;
  json["job"] = job;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(json, 1));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(config_.state_dir, "lease.json"), text + "\n", 0600));
  std::lock_guard lock(mutex_);
  max_epoch_ = epoch;
  max_job_ = job;
  return absl::OkStatus();
}

std::shared_ptr<ActiveRun> Runs::ActiveOf(const std::string& job) const {
  for (const auto& [name, run] : active_) {
    if (run->info().job == job) return run;
  }
  return nullptr;
}

std::shared_ptr<ActiveRun> Runs::Current() {
  std::lock_guard lock(mutex_);
  std::shared_ptr<ActiveRun> newest;
  for (const auto& [name, run] : active_) {
    if (newest == nullptr || run->epoch() > newest->epoch()) newest = run;
  }
  return newest;
}

Result<std::shared_ptr<ActiveRun>> Runs::Acquire(const std::string& job, uint64_t epoch, Nanoseconds ttl) {
  if (!IsName(job)) return InvalidInput("lease.job_id", absl::StrCat("'", job, "' is no name of a job"));
  if (epoch == 0) return InvalidInput("lease.epoch", "0 is no epoch");
  if (ttl < std::chrono::milliseconds(100) || ttl > std::chrono::hours(24)) {
    return InvalidInput("ttl_ns", absl::StrCat(ttl.count(), " ns"), "between 100 ms and 24 h");
  }
  std::lock_guard one_at_a_time(acquire_mutex_);
  std::shared_ptr<ActiveRun> mine;
  {
    std::lock_guard lock(mutex_);
    if (epoch < max_epoch_ || (epoch == max_epoch_ && job != max_job_)) {
      return Refused("stale_epoch",
                     absl::StrCat("epoch ", epoch, " of job ", job, "; this machine has seen ", max_epoch_),
                     "another controller or job has taken it over");
    }
    mine = ActiveOf(job);
    for (const auto& [name, run] : active_) {
      if (run == mine) continue;
      return Refused("leased",
                     absl::StrCat("job ", run->info().job, " holds this machine with epoch ", run->epoch()),
                     "wait for its tear-down");
    }
    if (mine == nullptr && !sweeping_.empty()) {
      return Refused("leased", absl::StrCat("run ", *sweeping_.begin(), " of before is being swept"),
                     "try again in a moment");
    }
  }
  if (mine != nullptr) {
    if (epoch > mine->epoch()) POOLMARK_RETURN_IF_ERROR(PersistEpoch(job, epoch));
    Nanoseconds deadline = RealClock().Boot() + ttl;
    POOLMARK_RETURN_IF_ERROR(
        mine->Ask(Record("renew").Add("deadline", deadline.count()).Add("epoch", epoch)).status());
    mine->RaiseEpoch(epoch);
    return mine;
  }
  const bool ended_before =
      std::find(without_run_.begin(), without_run_.end(), std::pair(job, epoch)) != without_run_.end();
  if (ended_before || HadLease(job, epoch)) {
    return Refused("lease_ended", absl::StrCat("job ", job, " with epoch ", epoch, " was torn down here"),
                   "a new lease needs a higher epoch");
  }
  POOLMARK_RETURN_IF_ERROR(PersistEpoch(job, epoch));
  return StartRun(job, epoch, ttl);
}

Result<std::shared_ptr<ActiveRun>> Runs::StartRun(const std::string& job, uint64_t epoch, Nanoseconds ttl) {
  RunInfo info = InfoOf(absl::StrCat(job, "-e", epoch, "-", RandomHex(3)));
  POOLMARK_RETURN_IF_ERROR(MakeDirs(JoinPath(info.directory, "specs"), 0700));
  process::GuardStart start;
  start.program = config_.guard;
  start.run_directory = info.directory;
  start.run = info.run;
  start.job = job;
  start.epoch = epoch;
  start.deadline = RealClock().Boot() + ttl;
  start.work_base = config_.work_dir;
  start.work_name = job;
  start.grace = config_.grace;
  start.kill_wait = config_.kill_wait;
  start.uid = uid_;
  start.gid = gid_;
  start.log_segment_bytes = config_.log_segment_bytes;
  start.use_cgroup = config_.use_cgroup;
  auto pid = process::StartGuard(start);
  if (!pid.ok()) {
    // Nothing of the job exists yet but what the ledger says: a sweep makes sure.
    GuardEnded(info.run);
    return pid.status();
  }
  POOLMARK_ASSIGN_OR_RETURN(auto run,
                            ActiveRun::Attach(info, epoch, [this, name = info.run] { GuardEnded(name); }));
  std::lock_guard lock(mutex_);
  guard_pids_[info.run] = *pid;
  active_[info.run] = run;
  Log(LogLevel::kInfo, "run.started", {{"run", info.run}, {"guard", *pid}});
  return run;
}

Result<std::shared_ptr<ActiveRun>> Runs::Find(const std::string& job, uint64_t epoch) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<ActiveRun> run = ActiveOf(job);
  uint64_t current = run != nullptr ? run->epoch() : max_epoch_;
  if (epoch < current) {
    return Refused("stale_epoch",
                   absl::StrCat("epoch ", epoch, " of job ", job, "; this machine is at ", current),
                   "another controller or job has taken it over");
  }
  if (run == nullptr || epoch > current) {
    return Refused("no_lease",
                   absl::StrCat("job ", job, " with epoch ", epoch, " does not hold this machine"),
                   "acquire a lease first");
  }
  return run;
}

uint64_t Runs::highest_epoch() const {
  std::lock_guard lock(mutex_);
  return max_epoch_;
}

Result<std::shared_ptr<ActiveRun>> Runs::FindToEnd(const std::string& job, uint64_t epoch) {
  std::lock_guard one_at_a_time(acquire_mutex_);
  std::shared_ptr<ActiveRun> run;
  bool higher = false;
  {
    std::lock_guard lock(mutex_);
    run = ActiveOf(job);
    higher = epoch > max_epoch_;
  }
  if (higher && (run != nullptr || FindInfo(job, epoch).ok())) {
    // A disk that is full must not keep engines alive: the guard's own ledger has room for this.
    Status kept = PersistEpoch(job, epoch);
    if (!kept.ok()) Log(LogLevel::kError, "lease.not_kept", {{"error", std::string(kept.message())}});
  }
  if (run != nullptr && epoch > run->epoch()) run->RaiseEpoch(epoch);
  return Find(job, epoch);
}

Result<RunInfo> Runs::FindInfo(const std::string& job, uint64_t epoch) {
  {
    std::lock_guard lock(mutex_);
    if (auto run = ActiveOf(job); run != nullptr && run->epoch() == epoch) return run->info();
  }
  std::optional<RunInfo> newest;
  uint64_t newest_epoch = 0;
  for (const std::string& name : RunNames()) {
    std::string run_job;
    uint64_t run_epoch = 0;
    if (!SplitRun(name, &run_job, &run_epoch) || run_job != job) continue;
    RunInfo info = InfoOf(name);
    if (run_epoch == epoch) return info;
    // The lease's epoch may have grown after the run was named.
    const guard::RunState state = guard::Fold(guard::ReadLedger(JoinPath(info.directory, "ledger")).records);
    run_epoch = std::max(run_epoch, state.epoch);
    if (run_epoch > epoch || run_epoch < newest_epoch) continue;
    newest = std::move(info);
    newest_epoch = run_epoch;
  }
  if (newest) return *newest;
  return Refused("no_lease",
                 absl::StrCat("job ", job, " with epoch ", epoch, " left nothing on this machine"), "");
}

Status Runs::EndWithoutRun(const std::string& job, uint64_t epoch) {
  std::lock_guard one_at_a_time(acquire_mutex_);
  bool known = false, newest = false;
  {
    std::lock_guard lock(mutex_);
    known = ActiveOf(job) != nullptr || epoch < max_epoch_ || (epoch == max_epoch_ && job != max_job_);
    newest = epoch > max_epoch_ && active_.empty();
  }
  if (known) return Find(job, epoch).status();
  if (FindInfo(job, epoch).ok()) return Unavailable("lease", "its run is ending", "ask again");
  if (newest) POOLMARK_RETURN_IF_ERROR(PersistEpoch(job, epoch));
  without_run_.emplace_back(job, epoch);
  if (without_run_.size() > 100) without_run_.pop_front();
  return absl::OkStatus();
}

bool Runs::IsOutdone(const std::string& job, uint64_t epoch) const {
  std::lock_guard lock(mutex_);
  auto run = ActiveOf(job);
  return run != nullptr && run->epoch() > epoch;
}

bool Runs::HadLease(const std::string& job, uint64_t epoch) const {
  for (const std::string& name : RunNames()) {
    std::string run_job;
    uint64_t run_epoch = 0;
    if (!SplitRun(name, &run_job, &run_epoch) || run_job != job) continue;
    const std::string ledger = JoinPath(InfoOf(name).directory, "ledger");
    if (std::max(run_epoch, guard::Fold(guard::ReadLedger(ledger).records).epoch) >= epoch) return true;
  }
  return false;
}

void Runs::Renew(const std::string& job, uint64_t epoch, Nanoseconds sent_boot, Nanoseconds ttl) {
  auto run = Find(job, epoch);
  if (!run.ok()) return;
  // Counted from when we asked: the reply's way back must not lengthen it.
  auto reply =
      (*run)->Ask(Record("renew").Add("deadline", (sent_boot + ttl).count()), std::chrono::seconds(10));
  // A run that is being torn down needs no lease any more.
  if (!reply.ok() && ErrorOf(reply.status()).code != "torn_down") {
    Log(LogLevel::kWarning, "lease.renew", {{"job", job}, {"error", std::string(reply.status().message())}});
  }
}

}  // namespace poolmark::agent

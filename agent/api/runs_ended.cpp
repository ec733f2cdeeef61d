// Runs that end or have ended: swept after a dead guard, told to the controller, looked at again, removed.
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>

#include "agent/api/runs.h"
#include "agent/guard/ledger.h"
#include "agent/process/guard_launcher.h"
#include "common/base/files.h"
#include "common/base/log.h"

namespace poolmark::agent {
namespace {

using guard::Record;

constexpr Nanoseconds kKeepFor = std::chrono::hours(24);  // what the controller has seen to the end

uint64_t BytesBelow(const std::string& directory) {
  uint64_t bytes = 0;
  auto files = ListTree(directory);
  if (!files.ok()) return 0;
  for (const std::string& file : *files) {
    struct stat facts;
    if (lstat(JoinPath(directory, file).c_str(), &facts) == 0) bytes += static_cast<uint64_t>(facts.st_size);
  }
  return bytes;
}

}  // namespace

void Runs::TearDownAbandoned(const std::string& job, const std::string& cause) {
  std::shared_ptr<ActiveRun> run;
  {
    std::lock_guard lock(mutex_);
    run = ActiveOf(job);
  }
  if (run == nullptr) {
    for (const HeldRun& held : Held()) {
      if (held.info.job == job && !held.clean) SweepAgain(held.info);
    }
    return;
  }
  Log(LogLevel::kWarning, "run.abandoned", {{"run", run->info().run}, {"cause", cause}});
  (void)run->Ask(Record("teardown").Add("cause", cause).Add("grace_ns", config_.grace.count()));
}

bool Runs::SweepAgain(const RunInfo& info) {
  if (!FileExists(JoinPath(info.directory, "ledger"))) return false;
  std::lock_guard lock(mutex_);
  bool busy = active_.count(info.run) != 0 || sweeping_.count(info.run) != 0;
  // While a job holds the machine its guard has it to itself.
  if (busy || !active_.empty() || !again_.insert(info.run).second) return busy;
  ended_.push_back(info.run);
  changed_.notify_all();
  return true;
}

std::vector<HeldRun> Runs::Held() {
  std::vector<HeldRun> held;
  for (const std::string& name : RunNames()) {
    HeldRun one;
    one.info = InfoOf(name);
    if (FileExists(JoinPath(one.info.directory, "acknowledged"))) continue;
    std::string ledger = JoinPath(one.info.directory, "ledger");
    guard::LedgerContent content = guard::ReadLedger(ledger);
    guard::RunState state = guard::Fold(content.records);
    uint64_t epoch = 0;
    std::string job;
    SplitRun(name, &job, &epoch);
    one.epoch = std::max(epoch, state.epoch);
    one.guard_alive = guard::LedgerIsLocked(ledger);
    one.open_items = state.open_items();
    one.state = !state.finished                      ? "running"
                : state.cause == "the lease ran out" ? "stopped_by_lease"
                                                     : "torn_down";
    one.clean = state.finished && state.clean && content.damages.empty();
    held.push_back(std::move(one));
  }
  return held;
}

void Runs::Acknowledge(const RunInfo& info) {
  (void)AtomicWriteFile(JoinPath(info.directory, "acknowledged"), "", 0600);
}

bool Runs::WaitEnded(const std::string& run, Nanoseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] {
    return active_.count(run) == 0 && sweeping_.count(run) == 0 &&
           std::find(ended_.begin(), ended_.end(), run) == ended_.end();
  });
}

void Runs::GuardEnded(const std::string& run) {
  std::lock_guard lock(mutex_);
  ended_.push_back(run);
  changed_.notify_all();
}

void Runs::Janitor(std::stop_token stop) {
  std::map<std::string, int> sweeps;
  while (!stop.stop_requested()) {
    std::string run;
    std::shared_ptr<ActiveRun> dead;
    RunInfo info;
    bool again = false;
    int guard = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, std::chrono::seconds(10), [this] { return !ended_.empty(); });
      if (stop.stop_requested()) return;
      if (ended_.empty()) {
        const bool idle = active_.empty();
        lock.unlock();
        RemoveOldRuns();
        // What is fetched after a run's end, and looked up for a plan, goes through here too.
        if (idle) malloc_trim(0);
        continue;
      }
      run = ended_.front();
      ended_.pop_front();
      again = again_.erase(run) != 0;
      sweeping_.insert(run);
      if (auto found = active_.find(run); found != active_.end()) {
        dead = std::move(found->second);
        active_.erase(found);
      }
      if (auto pid = guard_pids_.find(run); pid != guard_pids_.end()) {
        guard = pid->second;
        guard_pids_.erase(pid);
      }
    }
    dead.reset();  // joins its threads, without our lock
    if (guard != 0) process::ReapGuard(guard);
    info = InfoOf(run);
    guard::RunState state = guard::Fold(guard::ReadLedger(JoinPath(info.directory, "ledger")).records);
    constexpr int kMostSweeps = 3;
    if (again) {
      Log(LogLevel::kInfo, "run.looked_at_again", {{"run", run}});
      Sweep(info, "looked at again");
    } else if (!state.finished && ++sweeps[run] <= kMostSweeps) {
      Log(LogLevel::kWarning, "guard.died", {{"run", run}, {"action", "a new guard sweeps after it"}});
      Sweep(info, "its guard died");
    } else if (!state.finished) {
      Log(LogLevel::kError, "run.unswept", {{"run", run}, {"see", JoinPath(info.directory, "guard.log")}});
    } else {
      Log(LogLevel::kInfo, "run.ended",
          {{"run", run}, {"cause", state.cause}, {"clean", state.clean ? "yes" : "no"}});
    }
    {
      std::lock_guard lock(mutex_);
      sweeping_.erase(run);
      changed_.notify_all();
    }
    {
      std::lock_guard lock(told_mutex_);
      if (told_) told_(run);
    }
    malloc_trim(0);  // a run's samples and logs went through here
  }
}

void Runs::OnEnded(std::function<void(const std::string& run)> told) {
  std::lock_guard lock(told_mutex_);
  told_ = std::move(told);
}

void Runs::Sweep(const RunInfo& info, const std::string& cause) {
  process::GuardStart start;
  start.program = config_.guard;
  start.run_directory = info.directory;
  start.run = info.run;
  start.job = info.job;
  start.deadline = RealClock().Boot() + std::chrono::hours(1);
  start.work_base = config_.work_dir;
  start.work_name = info.job;
  start.grace = config_.grace;
  start.kill_wait = config_.kill_wait;
  start.use_cgroup = config_.use_cgroup;
  start.adopt = true;
  auto fail = [&](const Status& status) {
    Log(LogLevel::kError, "run.sweep", {{"run", info.run}, {"error", std::string(status.message())}});
  };
  auto pid = process::StartGuard(start);
  if (!pid.ok()) return fail(pid.status());
  uint64_t epoch = guard::Fold(guard::ReadLedger(JoinPath(info.directory, "ledger")).records).epoch;
  // From here on it is a run like others: it can be watched, and its end is noticed.
  auto run = ActiveRun::Attach(info, epoch, [this, name = info.run] { GuardEnded(name); });
  if (!run.ok()) return fail(run.status());
  {
    std::lock_guard lock(mutex_);
    guard_pids_[info.run] = *pid;
    active_[info.run] = *run;
  }
  auto told = (*run)->Ask(Record("teardown").Add("cause", cause).Add("grace_ns", config_.grace.count()));
  if (!told.ok()) fail(told.status());
}

void Runs::RemoveOldRuns() {
  struct Kept {
    time_t since = 0;
    std::string directory;
    uint64_t bytes = 0;
  };
  std::vector<Kept> kept;
  std::map<std::string, uint64_t> bytes;  // a run that has ended does not grow
  uint64_t total = 0;
  for (const std::string& name : RunNames()) {
    RunInfo info = InfoOf(name);
    struct stat facts;
    std::string mark = JoinPath(info.directory, "acknowledged");
    if (stat(mark.c_str(), &facts) != 0) continue;
    if (RealClock().Wall() - std::chrono::seconds(facts.st_mtime) > kKeepFor) {
      (void)RemoveTree(info.directory);
      continue;
    }
    const auto known = kept_bytes_.find(name);
    bytes[name] = known != kept_bytes_.end() ? known->second : BytesBelow(info.directory);
    total += bytes[name];
    kept.push_back({facts.st_mtime, info.directory, bytes[name]});
  }
  kept_bytes_ = std::move(bytes);
  std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) {
    return a.since != b.since ? a.since < b.since : a.directory < b.directory;
  });
  for (size_t i = 0; i + 1 < kept.size() && total > config_.keep_logs_bytes; ++i) {
    Log(LogLevel::kInfo, "run.removed", {{"directory", kept[i].directory}, {"why", "keep_logs"}});
    (void)RemoveTree(kept[i].directory);
    total -= kept[i].bytes;
  }
}

}  // namespace poolmark::agent

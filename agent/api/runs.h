// Who holds this machine: the lease with its epoch, the run with its living guard, and the runs of before
// whose ledgers lie on disk. Survives restarts of the agent: it begins by reading every ledger, attaches to
// guards that live and sends a new guard to clean up after those that do not. Thread-safe.
//
//   <state_dir>/agent_id                   tells these ledgers from those of another agent of this name
//   <state_dir>/lease.json                 the highest epoch ever granted, written before it is told
//   <state_dir>/runs/<run>/ledger, guard.sock, guard.log, logs/, specs/, acknowledged
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/api/active_run.h"
#include "agent/api/config.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::agent {

// A job of which a ledger still has something to say.
struct HeldRun {
  RunInfo info;
  uint64_t epoch = 0;
  bool guard_alive = false;
  uint32_t open_items = 0;
  std::string state;  // running, torn_down, stopped_by_lease
  bool clean = false;
};

// "job-e7-1a2b3c": the job and the epoch of a run's name; false for another name.
bool SplitRun(const std::string& run, std::string* job, uint64_t* epoch);

class Runs {
 public:
  // `config` is complete; `use_uid` and `use_gid` are those of run_as.
  Runs(AgentConfig config, std::optional<unsigned> use_uid, std::optional<unsigned> use_gid);
  ~Runs();  // leaves the guards alone

  // Reads state and ledgers. Only unusable directories are errors: a damaged ledger is swept, not fatal.
  Status Open();

  // Grants the machine. Codes: "stale_epoch", "leased", "lease_ended".
  Result<std::shared_ptr<ActiveRun>> Acquire(const std::string& job, uint64_t epoch, Nanoseconds ttl);
  // The highest epoch that any lease on this machine had.
  uint64_t highest_epoch() const;
  // For tear-downs, like Find: a controller that started again holds the job with a higher epoch, and need
  // not take the lease again to end it. From here on the lower epoch is refused.
  Result<std::shared_ptr<ActiveRun>> FindToEnd(const std::string& job, uint64_t epoch);
  // The run that this lease holds now. Codes: "stale_epoch", "no_lease".
  Result<std::shared_ptr<ActiveRun>> Find(const std::string& job, uint64_t epoch);
  // Whether a living run of the job has a higher epoch than this.
  bool IsOutdone(const std::string& job, uint64_t epoch) const;
  // The same, also when it has ended: its directory. A higher epoch than the run's is the same job's, later.
  Result<RunInfo> FindInfo(const std::string& job, uint64_t epoch);
  // For tear-downs of a lease that was never taken here (the agent was away when it was granted): OK when no
  // ledger knows the job, and a call for that lease that is still on its way is refused from here on. Else
  // what Find says.
  Status EndWithoutRun(const std::string& job, uint64_t epoch);
  // The run whose guard lives, if any; for heartbeats.
  std::shared_ptr<ActiveRun> Current();
  // The controller's answer renewed the lease.
  void Renew(const std::string& job, uint64_t epoch, Nanoseconds sent_boot, Nanoseconds ttl);
  // No controller owns this job any more.
  void TearDownAbandoned(const std::string& job, const std::string& cause);
  std::vector<HeldRun> Held();
  // Looks again at what an ended run left: somebody may have removed it. True: a new guard is on its way.
  bool SweepAgain(const RunInfo& info);
  // Called with the run's name after each end of a run's guard, by one thread at a time; null: no more from
  // here on, and none is under way when this returns.
  void OnEnded(std::function<void(const std::string& run)> told);
  // The controller has seen this ended run's proof to the end: it is not reported again.
  void Acknowledge(const RunInfo& info);
  // Waits until a run's guard has ended; false: still there after `limit`.
  bool WaitEnded(const std::string& run, Nanoseconds limit);
  // Of the state directory; the same after each start.
  const std::string& agent_id() const { return agent_id_; }
  // "cgroup2" or "subreaper": what guards on this machine use.
  std::string containment() const;
  const AgentConfig& config() const { return config_; }
  std::optional<unsigned> uid() const { return uid_; }
  std::optional<unsigned> gid() const { return gid_; }

 private:
  Status KnowAgentId();
  Status PersistEpoch(const std::string& job, uint64_t epoch);
  Status Adopt(const RunInfo& info);
  // Whether the job had a lease with this epoch, or a higher one, that has ended.
  bool HadLease(const std::string& job, uint64_t epoch) const;
  Result<std::shared_ptr<ActiveRun>> StartRun(const std::string& job, uint64_t epoch, Nanoseconds ttl);
  void GuardEnded(const std::string& run);
  // Sends a new guard after a dead one. `cause` goes into the ledger.
  void Sweep(const RunInfo& info, const std::string& cause);
  void Janitor(std::stop_token stop);
  // Of those that the controller has seen to the end: after a day, and the oldest while all have too much.
  void RemoveOldRuns();
  std::vector<std::string> RunNames() const;
  RunInfo InfoOf(const std::string& run) const;
  std::shared_ptr<ActiveRun> ActiveOf(const std::string& job) const;

  const AgentConfig config_;
  const std::optional<unsigned> uid_;
  const std::optional<unsigned> gid_;
  std::string agent_id_;   // set by Open
  std::mutex told_mutex_;  // guards told_, also while it is called; taken alone
  std::function<void(const std::string& run)> told_;
  std::mutex acquire_mutex_;  // one Acquire at a time; taken before mutex_
  // Leases that ended before they were taken; guarded by acquire_mutex_.
  std::deque<std::pair<std::string, uint64_t>> without_run_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  uint64_t max_epoch_ = 0;
  std::string max_job_;
  std::map<std::string, std::shared_ptr<ActiveRun>> active_;  // by run
  std::map<std::string, int> guard_pids_;                     // children of ours, to be reaped
  std::set<std::string> sweeping_;
  std::deque<std::string> ended_;               // runs whose guard is gone, for the janitor
  std::set<std::string> again_;                 // of these: to be swept though they are finished
  std::map<std::string, uint64_t> kept_bytes_;  // by run; the janitor's, and Open's before it
  std::jthread janitor_;
};

}  // namespace poolmark::agent

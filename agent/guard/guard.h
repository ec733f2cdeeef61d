// The program: one guard for one job on one machine. It owns the job's processes and everything made for
// them, answers typed requests, and tears all of it down when told to, when the lease runs out, or when it
// is asked to end (SIGTERM). It needs neither agent nor controller for that. One thread.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agent/guard/containment.h"
#include "agent/guard/poller.h"
#include "agent/guard/run.h"
#include "agent/guard/server.h"
#include "agent/guard/supervisor.h"

namespace poolmark::guard {

struct GuardOptions {
  std::string directory;  // of this run: ledger, socket, logs; made by the agent, mode 0700
  std::string run;        // unique on this machine for ever
  std::string job;
  uint64_t epoch = 0;
  std::string work_base;                 // exists
  std::string work_name;                 // the run's own directory below it, made by the guard; empty: none
  std::chrono::nanoseconds deadline{0};  // of the lease, on CLOCK_BOOTTIME
  std::chrono::nanoseconds grace = std::chrono::seconds(30);
  std::chrono::nanoseconds kill_wait = std::chrono::seconds(15);
  std::chrono::nanoseconds command_limit = std::chrono::seconds(60);  // one command to a container engine
  bool use_cgroup = true;
  bool adopt = false;           // the ledger of a dead guard: nothing may be started any more
  std::optional<unsigned> uid;  // owner of the work directory
  std::optional<unsigned> gid;
  LogLimits log_limits;
};

class Guard {
 public:
  explicit Guard(GuardOptions options);
  ~Guard();
  Fault Prepare();
  // Until the run is torn down for good. 0: clean.
  int Serve();

 private:
  Fault OpenRun();
  Fault ChooseContainment();
  Fault MakeGroup();
  Fault MakeWorkDirectory();
  Fault Answer(const Record& request, std::vector<Record>* data, Record* ok);
  Fault CheckEpoch(const Record& request);
  // Durable before any effect of the request that brought it.
  Fault RaiseEpoch(uint64_t epoch);
  Fault Renew(const Record& request);
  Fault MakeDirectories(const Record& request);
  // One that is there already must be this run's; `emptied`: it is removed, to be made anew.
  Fault CheckExisting(const std::string& path, bool emptied);
  Fault ClaimFiles(const Record& request);
  void Describe(Record* ok) const;
  void ArmTimer();
  void TearDown();
  void Loop();

  GuardOptions options_;
  Poller poller_;
  Run run_;
  std::vector<std::string> damages_;
  std::unique_ptr<Containment> containment_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<Server> server_;
  UniqueFd signals_;
  UniqueFd timer_;
  UniqueFd shm_watch_;
  bool teardown_wanted_ = false;
  bool teardown_running_ = false;
  bool keep_ = false;
  bool cut_short_ = false;
  bool finished_ = false;
  bool clean_ = false;
  std::string cause_;
  std::chrono::nanoseconds teardown_grace_{0};
};

}  // namespace poolmark::guard

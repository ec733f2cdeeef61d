// The agent's side of a run whose guard lives: questions to the guard, readiness of its processes, and word
// of its end. Thread-safe.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "agent/guard/items.h"
#include "agent/process/guard_client.h"
#include "agent/process/readiness.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::agent {

struct RunInfo {
  std::string run;
  std::string job;
  std::string directory;  // ledger, socket, logs
  std::string work_dir;
};

class ActiveRun {
 public:
  // Connects to the run's guard and begins to watch it. `on_end` is called once, from the watch's thread,
  // when the guard is gone: after its work (the ledger says finished) or before.
  static Result<std::shared_ptr<ActiveRun>> Attach(RunInfo info, uint64_t epoch,
                                                   std::function<void()> on_end);
  ~ActiveRun();

  const RunInfo& info() const { return info_; }
  uint64_t epoch() const;
  void RaiseEpoch(uint64_t epoch);
  // Adds the epoch and asks. A broken connection is made anew once.
  Result<process::GuardReply> Ask(guard::Record request, Nanoseconds timeout = std::chrono::seconds(60));
  // Looks until the process is ready, has ended or its time is up, and tells the guard.
  void WatchReadiness(const std::string& id, process::ReadinessSpec spec, std::vector<uint32_t> ports);
  // What the guard's ledger says now.
  guard::RunState Ledger() const;
  // Ports of the job on this machine.
  std::set<uint16_t> Ports() const;

 private:
  ActiveRun(RunInfo info, uint64_t epoch, std::function<void()> on_end);
  Status Connect();
  void Watch(std::stop_token stop);
  void LookUntilReady(std::stop_token stop, const std::string& id, const process::ReadinessSpec& spec,
                      const std::vector<uint32_t>& ports, Nanoseconds begin);
  void Mark(const std::string& id, const std::string& state, const std::string& message, Nanoseconds after);
  std::string PortProblem(const std::string& id, const std::vector<uint32_t>& ports);

  const RunInfo info_;
  const std::function<void()> on_end_;
  mutable std::mutex mutex_;  // guards what follows
  uint64_t epoch_;
  std::shared_ptr<process::GuardClient> client_;
  std::map<std::string, std::jthread> readiness_;
  std::vector<std::jthread> retired_;  // of processes started again
  std::jthread watch_;
};

}  // namespace poolmark::agent

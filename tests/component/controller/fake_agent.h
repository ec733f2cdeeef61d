// Agents that behave, without processes: leases and epochs, a process table with events, simulated engines
// whose counters move when they are asked, a load that leaves real record files, tear-down from a ledger.
// Every call passes a hook, where a test may hold it, fail it or kill the machine. Thread-safe.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "controller/machines/agent_link.h"

namespace poolmark::test {

class FakePool;

class FakeAgent final : public controller::AgentLink {
 public:
  FakeAgent(FakePool* pool, std::string machine) : pool_(pool), machine_(std::move(machine)) {}

  Result<v1::AcquireLeaseResponse> AcquireLease(const v1::AcquireLeaseRequest&, std::stop_token) override;
  Result<v1::GetFactsResponse> GetFacts(const v1::GetFactsRequest&, std::stop_token) override;
  Status RunChecks(const v1::RunChecksRequest&, std::stop_token,
                   const controller::OnMessage<v1::RunChecksResponse>&) override;
  Result<v1::MeasureLineResponse> MeasureLine(const v1::MeasureLineRequest&, std::stop_token) override;
  Result<v1::StartProcessResponse> StartProcess(const v1::StartProcessRequest&, std::stop_token) override;
  Status WatchProcesses(const v1::WatchProcessesRequest&, std::stop_token,
                        const controller::OnMessage<v1::WatchProcessesResponse>&) override;
  Result<v1::StopProcessResponse> StopProcess(const v1::StopProcessRequest&, std::stop_token) override;
  Status StreamLogs(const v1::StreamLogsRequest&, std::stop_token,
                    const controller::OnMessage<v1::StreamLogsResponse>&) override;
  Result<v1::StartSamplingResponse> StartSampling(const v1::StartSamplingRequest&, std::stop_token) override;
  Status StreamSamples(const v1::StreamSamplesRequest&, std::stop_token,
                       const controller::OnMessage<v1::StreamSamplesResponse>&) override;
  Result<v1::StopSamplingResponse> StopSampling(const v1::StopSamplingRequest&, std::stop_token) override;
  Result<v1::ProbeResponse> Probe(const v1::ProbeRequest&, std::stop_token) override;
  Result<v1::ResetCachesResponse> ResetCaches(const v1::ResetCachesRequest&, std::stop_token) override;
  Status Teardown(const v1::TeardownRequest&, std::stop_token,
                  const controller::OnMessage<v1::TeardownResponse>&) override;
  Status FetchFile(const v1::FetchFileRequest&, std::stop_token,
                   const controller::OnMessage<v1::FetchFileResponse>&) override;
  Result<v1::ListFilesResponse> ListFiles(const v1::ListFilesRequest&, std::stop_token) override;

  // The process ends by itself, as a crash would.
  void Die(const std::string& id, int exit_code);
  // Its guard dies, is swept after, and has told nobody: everything is gone, and so is the lease.
  void KillGuard();
  // The agent's process is started again: its engines go on, what it sampled is forgotten, its streams break.
  void RestartAgent();
  int samplings();                // how often sampling was started
  std::vector<int64_t> graces();  // of the tear-downs it was asked for, ns
  std::vector<std::string> Processes();
  uint64_t epoch();

  static v1::Facts Facts();  // those of the registration
  // What it says from now on when it is asked.
  void SetFacts(v1::Facts facts);

 private:
  static constexpr char kWorkDir[] = "/var/lib/poolmark-fake";

  Status Enter(const char* call, const v1::LeaseId& lease, std::stop_token stop);
  void Say(v1::WatchProcessesResponse event);  // lock held
  void RunLoad(const v1::ProcessSpec& spec);   // lock held

  FakePool* pool_;
  const std::string machine_;
  std::mutex mutex_;  // all below
  std::condition_variable_any changed_;
  uint64_t epoch_ = 0;
  std::string job_;
  uint64_t ended_epoch_ = 0;  // of the run whose guard died
  std::string ended_job_;
  int guards_died_ = 0;
  int next_pid_ = 100;
  std::map<std::string, v1::ProcessStatus> processes_;
  std::vector<v1::WatchProcessesResponse> events_;
  std::map<std::string, std::string> files_;
  std::map<std::string, std::string> logs_;  // process -> all that it printed
  v1::Facts facts_ = Facts();
  bool sampling_ = false;
  bool sampler_ = false;  // StartSampling was called since the agent's start
  int samplings_ = 0;
  std::vector<int64_t> graces_;
  std::vector<std::string> sampled_;      // engines of the sampling
  std::map<std::string, double> tokens_;  // their prompt tokens
};

class FakePool {
 public:
  explicit FakePool(const std::vector<std::string>& machines);
  controller::LinkFactory Factory();
  FakeAgent& at(const std::string& machine) { return *agents_.at(machine); }

  // Called at the entry of every call, without a lock; an error ends the call with it.
  using Hook =
      std::function<Status(const std::string& machine, const std::string& call, std::stop_token stop)>;
  void SetHook(Hook hook);
  Status CallHook(const std::string& machine, const std::string& call, std::stop_token stop);

  // Settings of all agents.
  std::set<std::string> failing_checks;
  std::map<std::string, std::string>
      fabrics;  // machine -> the NVLink cluster/clique of its GPUs, that its check tells
  // Call -> the machine whose agent goes on answering it until it is cut off. "FetchFile" sends more than it
  // said, "FetchFile huge" says more than any disk has, "Teardown nothing" has no ledger of the run,
  // "Teardown leaves" cannot end its processes.
  std::map<std::string, std::string> floods;
  bool Floods(const std::string& call, const std::string& machine) const {
    const auto found = floods.find(call);
    return found != floods.end() && found->second == machine;
  }
  bool leave_leftovers = false;
  std::atomic<bool> hold_load{false};         // loads run until it is false
  std::atomic<int> launched{0};               // engines ever started
  std::atomic<bool> streams_nothing{false};   // answers that are streams hold no output, other answers do
  std::atomic<bool> only_chat{false};         // ... and of those only the ones of the chat API
  std::atomic<int> failing_answers{0};        // so many prompts after a reset are answered with HTTP 500
  std::atomic<bool> simulated_series{false};  // engines' pages hold a series of the simulated engine
  std::atomic<bool> reset_seen{false};
  std::atomic<bool> disks_fill{false};       // samples begin with room on every disk, then there is none
  std::atomic<bool> engine_counters{false};  // samples hold engines' prompt tokens, ten more in each round

  // Line rates: what one iperf3 carries and what all together do; 0: each gets 1 Gbit/s.
  double server_bits = 0, line_bits = 0;
  struct LineClient {
    uint32_t port = 0, streams = 0, seconds = 0;
  };
  std::mutex lines_mutex;  // the two below
  std::map<std::string, std::set<uint32_t>> line_servers;
  std::vector<LineClient> line_clients;

  // Engines of all machines, by base URL: what they counted.
  std::mutex engines_mutex;
  std::map<std::string, double> prompt_tokens;

 private:
  std::map<std::string, std::shared_ptr<FakeAgent>> agents_;
  std::mutex mutex_;  // hook_
  Hook hook_;
};

}  // namespace poolmark::test

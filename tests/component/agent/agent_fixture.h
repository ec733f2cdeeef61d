// An agent with a real guard, TLS and gRPC, a controller's registry that answers its heartbeats, and the
// controller's view of its API.
#pragma once
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/api/agent.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/streams.h"
#include "poolmark/v1/agent.grpc.pb.h"
#include "poolmark/v1/controller.grpc.pb.h"
#include "tests/support/cluster.h"
#include "tests/support/waiting.h"

namespace poolmark::test {

// Answers like the controller's registry; what it says and saw is open to the test.
class FakeRegistry final : public v1::AgentRegistryService::Service {
 public:
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest*, v1::RegisterResponse*) override;
  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest*, v1::HeartbeatResponse*) override;
  v1::RegisterRequest last_register();
  v1::HeartbeatRequest last_beat();

  std::atomic<int> registers{0};
  std::atomic<int> beats{0};
  std::atomic<int64_t> lease_ttl_ns{30'000'000'000};
  std::atomic<bool> register_again{false};
  std::mutex mutex;
  std::string tear_down;

 private:
  v1::RegisterRequest register_;
  v1::HeartbeatRequest beat_;
};

struct AgentFixture {
  AgentFixture();
  ~AgentFixture();
  void StartAgent(std::function<void(agent::AgentConfig*)> change = {});
  void StopAgent() { agent.reset(); }
  // The agent as a program of its own, so that it can be killed.
  void StartProgram();
  void KillProgram(int signal);
  agent::AgentConfig Config();
  void Allow(const std::string& yaml);
  void Dial(int port);

  v1::LeaseId Lease(uint64_t epoch = 1, const std::string& job = "job-1") const;
  Status Acquire(uint64_t epoch = 1, const std::string& job = "job-1",
                 Nanoseconds ttl = std::chrono::seconds(60));
  v1::ProcessSpec Shell(const std::string& id, const std::string& script) const;
  Result<v1::StartProcessResponse> Start(const v1::ProcessSpec& spec, uint64_t epoch = 1,
                                         const std::string& request = "");
  // Follows events until `done` says so.
  void Watch(const std::function<bool(const v1::WatchProcessesResponse&)>& done, uint64_t after = 0);
  v1::ProcessStatus WaitState(const std::string& id, v1::ProcessState state);
  std::vector<v1::TeardownResponse> TearDown(bool keep = false, uint64_t epoch = 1,
                                             Nanoseconds grace = std::chrono::seconds(5));
  static bool Clean(const std::vector<v1::TeardownResponse>& messages);
  v1::ProbeResponse Probe(const std::string& method, const std::string& url, const std::string& body = "");
  std::string Log(const std::string& id);
  std::string RunDirectory() const;  // of the newest run

  Cluster cluster;
  std::atomic<bool> refuse_revoked{false};  // by the controller, as cluster.ca() says
  TempDir dir;
  FakeRegistry registry;
  std::unique_ptr<rpc::Server> controller;
  std::unique_ptr<agent::Agent> agent;
  std::unique_ptr<v1::AgentService::Stub> stub;
  std::string exporters_file;  // of agents started from here on
  int program = 0;
  int request_number = 0;
};

}  // namespace poolmark::test
